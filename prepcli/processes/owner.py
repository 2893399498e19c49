"""Finds out whether a process is alive: names of temporary files contain their owner, and ranks give signs of life.

Host names and process numbers alone are not sufficient, because containers may share both. A process of the same boot,
host name and process namespace is looked up by its number and start time. For all other processes, only the signs of
life of their rank count. An observer that waits measures with its own monotonic clock whether these signs continue
(`prepcli.engine.ranks.claims`). An observer that looks once compares the time of the last sign with the clock of the
file system, because the clock of this machine may differ.
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
from collections.abc import Iterator
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
EMPTY_SECONDS = 15.0
"""Seconds after which a claim that is still empty counts as left by a process that was killed.

A process writes its name into a new claim at once, and other machines see the name some seconds later. A mistake only
repeats work.
"""
_RANK = "rank-"


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
        found = start_time(self.pid)
        return found is None or (found != self.started and 0 not in (found, self.started))


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


class Life:
    """A rank's signs of life: the rank changes the file `rank-<owner>` every `BEAT_SECONDS` while it is at work.

    The owner is in the file's name, because the file is empty for a moment at each write, and may stay empty after a
    power failure. A temporary directory or a claim that names the rank is in use as long as the file changes.

    Attributes:
        owner: the process of this rank; its worker processes inherit it.
    """

    def __init__(self, folder: Path, rank_id: str) -> None:
        """`folder`: the folder with the files `rank-<owner>`; `beat` makes it if its parent folder exists."""
        self._folder = folder
        self.owner = Owner.of_this_process(rank_id)
        self._beats = 0
        self._is_at_work = False
        self._ahead: float | None = None  # how far the file system's clock is ahead of our monotonic one

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Give signs of life until the context ends, even while the main thread waits for a model.

        A thread gives them. It does nothing else, and holds no lock that a forked process would need. A nested context
        starts no second thread.
        """
        if self._is_at_work:
            self.beat()
            yield
            return
        ended = threading.Event()

        def beat() -> None:
            # Signals must reach the main thread and interrupt its system calls.
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
            while not ended.wait(BEAT_SECONDS):
                self.beat()

        self.owner = Owner.of_this_process(self.owner.rank_id)
        thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
        try:
            with no_interruption():
                self._is_at_work = True
                self.beat()
                thread.start()
            yield
        finally:
            ended.set()
            with no_interruption():
                if thread.is_alive():
                    thread.join()
                self._is_at_work = False
                with contextlib.suppress(OSError):  # the folder stays if other ranks are at work
                    self._file(self.owner).unlink(missing_ok=True)
                    self._folder.rmdir()

    def beat(self) -> None:
        """Give a sign of life: write the next number to the file `rank-<owner>`. Write errors are ignored."""
        self._beats += 1
        with contextlib.suppress(OSError):  # a full disk ends the run at a more important write
            if not self._folder.exists():
                self._folder.mkdir(exist_ok=True)
            self._file(self.owner).write_text(str(self._beats))

    def _file(self, owner: Owner) -> Path:
        return self._folder / f"{_RANK}{owner}"

    def last_beat(self, owner: Owner) -> bytes:
        """The last sign of life of the rank of `owner`; b"" if there is none.

        It changes as long as the rank is at work.
        """
        with contextlib.suppress(FileNotFoundError):
            return self._file(owner).read_bytes()
        return b""

    def has_ended(self, owner: Owner | None, silence: float, trace: Path | None = None) -> bool:
        """Whether a process has ended, or seems to have ended because its rank is silent; looks once, without waiting.

        Args:
            owner: the process; None if it is unknown.
            silence: seconds without a sign of life after which the rank seems to have ended: `REPEAT_SECONDS` or
                `DELETE_SECONDS`. With `DELETE_SECONDS`, silence does not count if `Owner.is_gone` knows the answer.
            trace: another file whose last change is a sign of life of the process.
        """
        gone = None if owner is None else owner.is_gone
        if gone or (gone is False and silence == DELETE_SECONDS):
            return gone
        if self._ahead is None:
            there = self._folder if self._folder.exists() else self._folder.parent
            self._ahead = clock_of(there) - time.monotonic()
        signs = [] if trace is None else [trace]
        if owner is not None:
            # A worker process makes directories for its rank, whose file names another process; in 0.3.0 it names none.
            # The rank's own name is looked up as well, because a listing may be late.
            signs += [self._file(owner), *self._files(owner.rank_id)]
        return time.monotonic() + self._ahead - max(map(last_change, signs), default=0.0) > silence

    def others(self, silence: float) -> bool:
        """Whether another rank gives signs of life in this folder; `silence` as in `has_ended`."""
        own = self._file(self.owner)
        return any(path != own and not self.has_ended(_owner(path), silence, path) for path in self._files())

    def remove_ended(self) -> None:
        """Remove the files `rank-<owner>` of ranks that were killed, which could not remove their own files."""
        for path in self._files():
            if self.has_ended(_owner(path), DELETE_SECONDS, path):
                path.unlink(missing_ok=True)

    def _files(self, begin: str = "") -> list[Path]:
        """The files of ranks in the folder; only those whose name, after `rank-`, begins with `begin`."""
        with contextlib.suppress(FileNotFoundError):  # the last rank that ends removes the folder
            return list(self._folder.glob(f"{_RANK}{begin}*"))
        return []


def _owner(file: Path) -> Owner | None:
    """The owner in the name of a file `rank-<owner>`, a rank's sign of life; None if the name has another form."""
    return Owner.parse(file.name.removeprefix(_RANK))


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
