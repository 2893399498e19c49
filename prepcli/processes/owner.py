"""Finds out whether a process is alive: names of temporary files contain their owner, and ranks give signs of life.

Host names and process numbers alone are not sufficient, because containers may share both. A process of the same boot,
host name and process namespace is looked up by its number and start time. For all other processes, only the signs of
life of their rank count: it touches a file. An observer that waits measures with its own monotonic clock whether these
signs continue (`prepcli.engine.lock`). An observer that looks once compares the time of the last sign with the clock of
the file system, because the clock of this machine may differ.
"""

import contextlib
import hashlib
import math
import os
import signal
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from prepcli.processes.signals import STOP_SIGNALS
from prepcli.processes.workers import no_interruption

BEAT_SECONDS = 15.0
"""Seconds between two signs of life of a rank."""
REPEAT_SECONDS = 90.0
"""Seconds without a sign of life after which a rank counts as dead, for decisions that at worst repeat work.

Six times `BEAT_SECONDS`, because network file systems show a change some seconds late, and busy machines wake processes
late.
"""
DELETE_SECONDS = 3600.0
"""Seconds without a sign of life after which a rank counts as dead, for decisions to delete files of the rank.

Machines rarely stand still for so long (a virtual machine that is moved, a file server that fails over).
"""


class Owner(NamedTuple):
    """A process that makes temporary files and directories for the rank `rank_id`; their names contain `str(owner)`.

    `place` identifies host, boot and process namespace (`this_place`). `started` is the time at which the process
    began, in the kernel's ticks since boot; 0 if it is unknown.
    """

    rank_id: str
    place: str
    pid: int
    started: int

    @classmethod
    def of_this_process(cls, rank_id: str) -> "Owner":
        """The calling process, as a process of the rank `rank_id`."""
        return cls(rank_id, this_place(), os.getpid(), start_time(os.getpid()) or 0)

    @classmethod
    def parse(cls, text: str) -> "Owner | None":
        """The owner from `text`, the result of `str(owner)`; None if the text has another form."""
        parts = text.split("-")
        if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            return None
        return cls(parts[0], parts[1], int(parts[2]), int(parts[3]))

    def __str__(self) -> str:
        return f"{self.rank_id}-{self.place}-{self.pid}-{self.started}"

    @property
    def is_gone(self) -> bool | None:
        """Whether the process has ended; None if it cannot be seen from this process."""
        if self.place != this_place():
            return None
        started = start_time(self.pid)
        return started is None or (started != self.started and 0 not in (started, self.started))


@lru_cache(maxsize=1)
def this_place() -> str:
    """An identifier of host, boot and PID namespace; two processes with the same one can see each other's PID."""
    parts = [socket.gethostname(), "", ""]
    with contextlib.suppress(OSError):  # a system without /proc has no containers either
        parts[1] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        parts[2] = str(Path("/proc/self/ns/pid").stat().st_ino)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:16]


def new_rank_id() -> str:
    """A name that no other rank has."""
    return uuid.uuid4().hex[:16]


def start_time(pid: int) -> int | None:
    """The start time of a local process (ticks since boot); 0 if only its existence is known; None if it has ended.

    A zombie process counts as ended: in a container whose first process does not reap orphans, zombies stay forever.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:  # the process has ended, or /proc does not exist or hides the processes of other users
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
        return 0
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def clock_of(folder: Path) -> float:
    """The time (seconds since the epoch) on the clock of the file system, which sets the times of files.

    A file server's clock may differ from the clock of this machine, which is used only if `folder` cannot be written.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"0")  # some network file systems take the time of an empty file from the client
            file.flush()
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def refresh_listing(folder: Path) -> None:
    """Make the next listing of a folder complete, by making and removing a folder in it.

    A network file system may list a file some seconds late, from a cache; after a change by this machine, it lists the
    folder again.
    """
    probe = folder / f".list~{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):  # the folder does not exist, or cannot be written
        probe.mkdir()
        probe.rmdir()


@contextmanager
def touching(path: Path, seconds: float = BEAT_SECONDS, is_ours: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Give signs of life within the context, even while the main thread waits for a model: change the time of a file.

    A thread gives them. It does nothing else, and holds no lock that a forked process would need. `seconds`: the time
    between two signs. `is_ours`: called before each; if it is False, none is given.
    """
    ended = threading.Event()

    def touch() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # they must reach the main thread, and interrupt it
        while not ended.wait(seconds):
            with contextlib.suppress(OSError):
                if is_ours():
                    os.utime(path)

    thread = threading.Thread(target=touch, daemon=True, name="sign of life")
    try:
        with no_interruption():
            thread.start()
        yield
    finally:
        ended.set()
        with no_interruption():
            if thread.is_alive():
                thread.join()


def has_ended(owner: Owner | None, silence: float, last_sign: float, now: float) -> bool:
    """Whether a process has ended, or seems to have ended because its rank is silent.

    Args:
        owner: the process; None if it is unknown.
        silence: seconds without a sign of life after which the rank seems to have ended: `REPEAT_SECONDS` or
            `DELETE_SECONDS`. With `DELETE_SECONDS`, silence does not count if `Owner.is_gone` knows the answer.
        last_sign: the time of the last sign of life, in seconds since the epoch, on the clock of the file system.
        now: the time on that clock (`clock_of`).
    """
    gone = None if owner is None else owner.is_gone
    if gone or (gone is False and silence == DELETE_SECONDS):
        return gone
    return now - last_sign > silence


def owner_of(entry: Path) -> Owner | None:
    """The owner in the name of a temporary file or directory; None if the name contains none."""
    return Owner.parse(entry.name.split("~")[1]) if "~" in entry.name else None


def last_change(path: Path) -> float:
    """The time of a file's last change (seconds since the epoch); 0 if there is no file, infinite if it is unknown."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
    except OSError:  # ESTALE, for example: another machine may be removing the file
        return math.inf
