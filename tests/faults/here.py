"""`python -m tests.faults.here COMMAND …`: the command line, with one worker's work in the process, and toy models."""

import sys


def main() -> None:
    from prepcli.cli.app import main
    from prepcli.engine import lock
    from prepcli.manifest import line_slices
    from tests.support.one_process import one_process

    lock.EMPTY_SECONDS = 0.2  # after a power loss, a lock may be there without the name of its owner
    line_slices.MIN_UNIT_BYTES = 256  # a manifest of some lines is several units
    if "extend-codec-codes" in sys.argv:
        from tests.support.toy_codec import use_toy_codec

        use_toy_codec(setattr)
    if "extend-context-audio" in sys.argv:
        from tests.support.toy_voice import use_toy_voice

        use_toy_voice(setattr)
    if "manifest-to-mels" in sys.argv:
        from prepcli.commands.exports.mels import clips

        clips.RECORDS_PER_UNIT = 3
    with one_process():
        main()


if __name__ == "__main__":
    main()
