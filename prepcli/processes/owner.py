"""The owner of a temporary directory, and whether it is alive: from the directory's name and its heartbeat.

Host names and process numbers alone tell nothing: containers may share both. A process of the same boot, host name and
process namespace is looked up by its number and start time. Of any other only the heartbeat counts: the time of the
directory's last change, compared with the file system's own clock, for those of hosts differ.
"""

import contextlib
import hashlib
import os
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from prepcli.processes.signals import STOP_SIGNALS
from prepcli.processes.workers import no_interruption

BEAT_SECONDS = 15.0
"""Seconds between two heartbeats of a rank."""
SILENT_SECONDS = 3600.0
"""Seconds without a heartbeat after which processes of another machine or container count as gone."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that makes directories for the rank `rank_id`; it is a part of their names.

    `place` stands for host, boot and process namespace, `started` for the time at which the process began, in the
    kernel's ticks since its boot (0 where nobody tells).
    """

    rank_id: str
    place: str
    pid: int
    started: int

    @classmethod
    def of_this_process(cls, rank_id: str) -> "Owner":
        """The calling process, on behalf of `rank_id`."""
        return cls(rank_id, this_place(), os.getpid(), start_time(os.getpid()) or 0)

    @classmethod
    def parse(cls, text: str) -> "Owner | None":
        """Parse the result of `str`; None if it is not one."""
        parts = text.split("-")
        if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            return None
        return cls(parts[0], parts[1], int(parts[2]), int(parts[3]))

    def __str__(self) -> str:
        return f"{self.rank_id}-{self.place}-{self.pid}-{self.started}"

    def is_same_process(self, other: "Owner") -> bool:
        """Whether both are one process, for whichever rank."""
        return (self.place, self.pid, self.started) == (other.place, other.pid, other.started)

    @property
    def is_gone(self) -> bool | None:
        """Whether the process has ended; None if it cannot be seen from here."""
        if self.place != this_place():
            return None
        found = start_time(self.pid)
        return found is None or (found != self.started and 0 not in (found, self.started))


@lru_cache(maxsize=1)
def this_place() -> str:
    """Identifies host, boot and PID namespace: equal in two processes only if each can look up the other by its PID."""
    parts = [socket.gethostname(), "", ""]
    with contextlib.suppress(OSError):  # no /proc: no containers either
        parts[1] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        parts[2] = str(Path("/proc/self/ns/pid").stat().st_ino)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:16]


def new_rank_id() -> str:
    """A name that no other rank has."""
    return uuid.uuid4().hex[:16]


def start_time(pid: int) -> int | None:
    """The start time of a local process (ticks since boot); 0 if only its existence is known; None if it has ended.

    A process that nobody has collected yet has ended: in a container whose first process collects nobody's children,
    those of a killed process stay for good.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:  # it has ended, or there is no /proc, or that hides the processes of other users
        return 0 if _answers(pid) else None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def clock_of(directory: Path) -> float:
    """The time (seconds since the epoch) on the clock of the file system, which sets the times of files."""
    probe = directory / f".clock~{Owner.of_this_process(new_rank_id())}"
    try:
        probe.touch(exist_ok=False)
        os.utime(probe)  # of a new file alone, some network file systems take the time from the client
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def list_anew(folder: Path) -> None:
    """Let the next listing of a folder have all that is in it: after a change of our own, it comes from no cache.

    A network file system may list a file some seconds late.
    """
    probe = folder / f".list~{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):  # there is no such folder, or nothing can be written there
        probe.mkdir()
        probe.rmdir()


@contextmanager
def heartbeat(*beats: Callable[[], object]) -> Iterator[None]:
    """Call `beats` every `BEAT_SECONDS` in a thread, even while the main thread waits for a model.

    The thread does nothing but such calls, and holds no lock that a forked process would need.
    """
    ended = threading.Event()

    def beat() -> None:
        # Signals must reach the main thread and interrupt its system calls.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        while not ended.wait(BEAT_SECONDS):
            for one in beats:
                with contextlib.suppress(OSError):  # a full disk ends the run where it matters
                    one()

    thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
    with no_interruption():
        thread.start()
    try:
        yield
    finally:
        ended.set()
        with no_interruption():
            thread.join()


def owner_of(entry: Path) -> Owner | None:
    """The owner of a temporary directory, from its name."""
    return Owner.parse(entry.name.split("~")[1]) if "~" in entry.name else None


def last_change(directory: Path, now: float) -> float:
    """The last change of the directory or a file in it (seconds since the epoch); `now` if it is being removed."""
    with contextlib.suppress(OSError):
        files = list(directory.iterdir()) if directory.is_dir() else []
        return max(path.stat().st_mtime for path in [directory, *files])
    return now
