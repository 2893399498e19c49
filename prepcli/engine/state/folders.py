"""Makes folders that other processes may remove at the same time, and finds out on which file system they are."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


def device_of_new_file(folder: Path) -> int:
    """Make a folder and a temporary file in it; returns the number of the device (`st_dev`) on which the file is.

    The file has no name or, if the file system cannot do that, a fixed name. If a process is killed at this moment, the
    named file may stay; the next process removes it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    probe: Path | None = None
    try:
        file = os.open(folder, getattr(os, "O_TMPFILE", 0) | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        probe = folder / f".prepcli~{os.geteuid()}"
        file = os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(file).st_dev
    finally:
        os.close(file)
        if probe is not None:
            probe.unlink(missing_ok=True)


def while_others_remove(attempt: Callable[[], Result]) -> Result:
    """Call `attempt`, which makes a folder and uses it; returns its result.

    If another rank removes the folder meanwhile, `attempt` is called again, at most ten times in all. A rank that
    clears the output, or that ends, removes folders. `mkdir` reports that a file exists if the folder disappears before
    `mkdir` has found out that it is a folder.
    """
    for _ in range(9):
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            return attempt()
    return attempt()
