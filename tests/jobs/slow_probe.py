"""prepcli with a disk that takes its time and with small units, so that a run can be stopped in the middle."""

import time

from prepcli.audio import probe as probing
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_file
from prepcli.cli.app import main
from prepcli.manifest import line_slices

SECONDS_PER_FILE = 0.004
_real = probe_file


def probe_slowly(path: str, name: str) -> AudioInfo:
    """The properties of a file, after a while."""
    time.sleep(SECONDS_PER_FILE)
    return _real(path, name)


if __name__ == "__main__":
    probing.__dict__["probe_file"] = probe_slowly
    line_slices.MIN_UNIT_BYTES = 1500
    main()
