"""prepcli with a disk that takes its time, so that a run can be stopped in the middle."""

import time
from pathlib import Path

from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_file
from prepcli.cli.app import main
from prepcli.commands.make_manifest import recording

SECONDS_PER_FILE = 0.004


def probe_slowly(path: str | Path) -> AudioInfo:
    """The properties of a file, after a while."""
    time.sleep(SECONDS_PER_FILE)
    return probe_file(path)


if __name__ == "__main__":
    recording.__dict__["probe_file"] = probe_slowly
    main()
