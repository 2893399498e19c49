"""`python -m tests.support.toy_models COMMAND ...`: the command line with toys in the place of all models."""

import sys
from pathlib import Path

from tests.support.toy_codec import use_toy_codec
from tests.support.toy_voice import use_toy_voice


def toy_python(folder: Path) -> Path:
    """A program in `folder` that scripts can take for Python, whose prepcli has toys in the place of models."""
    path = folder / "python"
    path.write_text(
        "#!/bin/sh\n"
        f'[ "$1 $2" != "-m prepcli" ] || {{ shift 2; set -- -m tests.support.toy_models "$@"; }}\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    path.chmod(0o755)
    return path


def main() -> None:
    from prepcli.cli.app import main

    use_toy_codec(setattr)
    use_toy_voice(setattr)
    main()


if __name__ == "__main__":
    main()
