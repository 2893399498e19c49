"""prepcli on a disk that stands still, once so many units are published, for as long as a file exists.

Only the files of units wait, those that worker processes write: a rank that starts late still gets so far.

    SLOW_DISK=HOLD_FILE:OUT:COUNT python -m tests.slurm.slow_disk manifest-to-tarred ... OUT

So a test can be sure to find a job in the middle, without racing it.
"""

import multiprocessing
import os
import time
from pathlib import Path

from prepcli.cli.app import main


def published(out: Path) -> int:
    """Units of OUT that are done."""
    state = out.with_name(out.name + ".prepcli")
    return sum(1 for pattern in ("done/*.json", "*/units/*/unit.json") for _ in state.glob(pattern))


def slow_down() -> None:
    hold, out, count = os.environ["SLOW_DISK"].split(":")
    flush = os.fsync

    def fsync(fd: int) -> None:
        in_worker = multiprocessing.parent_process() is not None
        while in_worker and Path(hold).exists() and published(Path(out)) >= int(count):
            time.sleep(0.05)
        flush(fd)

    os.fsync = fsync  # type: ignore[assignment]


if __name__ == "__main__":
    slow_down()
    main()
