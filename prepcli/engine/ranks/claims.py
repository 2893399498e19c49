"""Claims: ranks tell each other through files what they are doing, and go on with the work of a rank that has died.

A claim is a file that only one process can create. It says which process works on what. If that process ends, or its
rank gives no sign of life, the next claim for the same work has the next number: nothing is ever taken away, so no two
ranks can take over from the same one. A rank that was only slow works on as well; both publish the same bytes.

Signs of life are a counter in a file. Each observer measures with its own clock for how long it has not changed: the
clocks of machines and file servers may differ by any amount.
"""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from prepcli.errors import naming
from prepcli.processes.owner import Owner, heartbeat
from prepcli.processes.pools import map_in_order
from prepcli.processes.workers import TICK

SILENT_SECONDS = 90.0
"""Seconds without a sign of life after which a rank counts as dead: several times `BEAT_SECONDS`,
because network file systems show a change some seconds later."""

EMPTY_SECONDS = 15.0
"""Seconds after which a claim without an owner counts as left by a process that was killed before it wrote its name,
which it does at once; other machines see that some seconds later."""

CLAIMS = "claims"
"""The folder of claims, by its usual name."""
BEAT = "beat~"
"""Names of signs of life begin with this."""


class Claims:
    """The claims in a folder, as one rank sees them; its worker processes inherit the object."""

    def __init__(self, folder: Path, rank: int, rank_id: str) -> None:
        self._folder = folder
        self.rank = rank
        self._owner = Owner.of_this_process(rank_id)
        self._beats = 0
        self._seen: dict[str, tuple[bytes, float]] = {}  # signs of life: the last one, and when it was new to us

    def begin(self) -> None:
        """Make the folder, and give the first sign of life."""
        for _ in range(10):
            # A rank that ends at this moment removes the folder and its parent if there is nothing in them. `mkdir`
            # finds a folder, and looks what it is when it is gone: then it says that a file exists.
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                self._folder.mkdir(parents=True, exist_ok=True)
                self.beat()
                return
        self._folder.mkdir(parents=True, exist_ok=True)
        self.beat()

    def beat(self) -> None:
        """Give a sign of life."""
        self._beats += 1
        path = self._folder / f"{BEAT}{self._owner.rank_id}"
        with naming(path):
            path.write_bytes(b"%d" % self._beats)

    def take(self, name: str) -> bool:
        """Claim work; False if another rank, which seems to be alive, has claimed it."""
        for number in itertools.count():
            path = self._path(name, number)
            try:
                file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                found = self._state(path)
                if found != "dead":
                    return found == "own"
                continue
            except FileNotFoundError:  # another launch has removed the folder, or a rank that has ended the run
                with contextlib.suppress(FileNotFoundError, FileExistsError):  # which may be removing its parents now
                    self._folder.mkdir(parents=True, exist_ok=True)
                return False
            try:
                with naming(path):
                    os.write(file, f"{self.rank} {self._owner}".encode())
            finally:
                os.close(file)
            return True
        raise AssertionError("unreachable")

    def is_free(self, name: str) -> bool:
        """Whether `take` would succeed."""
        for number in itertools.count():
            path = self._path(name, number)
            found = self._state(path) if path.exists() else "none"
            if found != "dead":
                return found in ("none", "own")
        raise AssertionError("unreachable")

    def release(self, name: str) -> None:
        """Remove the claims for work that is done, or that failed."""
        for number in itertools.count():
            try:
                self._path(name, number).unlink()
            except FileNotFoundError:
                return

    def give_up(self) -> None:
        """Remove all claims of this rank, so that others need not wait for it."""
        for path in _files(self._folder):
            if _is_number(path.suffix[1:]) and self._state(path) == "own":
                path.unlink(missing_ok=True)

    def end(self) -> None:
        """Remove the sign of life of this rank."""
        (self._folder / f"{BEAT}{self._owner.rank_id}").unlink(missing_ok=True)

    def _path(self, name: str, number: int) -> Path:
        return self._folder / f"{name}.{number}"

    def _state(self, path: Path) -> str:
        """Whether the holder of a claim is this rank (`own`), another one (`alive`), or `dead`."""
        holder = None
        with contextlib.suppress(FileNotFoundError):
            holder = _holder(path.read_bytes())
        if holder is None:  # it is being written, or its writer was killed before the first byte
            return "dead" if self._is_silent(path.name, b"", min(EMPTY_SECONDS, SILENT_SECONDS)) else "alive"
        owner = holder[1]
        if owner.rank_id == self._owner.rank_id:
            return "own"
        if owner.is_gone:
            return "dead"
        beat = b""
        with contextlib.suppress(FileNotFoundError):
            beat = (self._folder / f"{BEAT}{owner.rank_id}").read_bytes()
        return "dead" if self._is_silent(owner.rank_id, beat, SILENT_SECONDS) else "alive"

    def _is_silent(self, who: str, beat: bytes, seconds: float) -> bool:
        """Whether the last sign of life has not changed for so long, by the clock of this process."""
        now = time.monotonic()
        last = self._seen.get(who)
        if last is None or last[0] != beat:
            self._seen[who] = (beat, now)
            return False
        return now - last[1] > seconds


def holders(folder: Path) -> dict[str, int]:
    """For each work that is claimed in a folder, the rank that has claimed it last."""
    return {name: rank for name, (rank, _) in owners(folder).items()}


def owners(folder: Path) -> dict[str, tuple[int, Owner]]:
    """For each work that is claimed in a folder, the rank and the process that have claimed it last."""
    found: dict[str, tuple[int, tuple[int, Owner]]] = {}
    for path in _files(folder):
        name, _, number = path.name.rpartition(".")
        with contextlib.suppress(FileNotFoundError):
            holder = _holder(path.read_bytes())
            if holder is not None and _is_number(number) and (name not in found or int(number) > found[name][0]):
                found[name] = int(number), holder
    return {name: holder for name, (_, holder) in found.items()}


def _files(folder: Path) -> list[Path]:
    """The claims in a folder, and what else is in it; none where a rank that has ended the run removes it now."""
    with contextlib.suppress(FileNotFoundError):
        return list(folder.glob("*.*"))
    return []


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _holder(content: bytes) -> tuple[int, Owner] | None:
    rank, _, name = content.decode(errors="replace").partition(" ")
    owner = Owner.parse(name)
    return (int(rank), owner) if owner is not None and _is_number(rank) else None


class Named(Protocol):
    """A task: its name is that of its claim."""

    @property
    def name(self) -> str:
        """A name that can be that of a file."""


TaskT = TypeVar("TaskT", bound=Named)


def do_together(
    tasks: Sequence[TaskT],
    do: Callable[[TaskT], object],
    is_done: Callable[[TaskT], bool],
    claims: Claims,
    world_size: int = 1,
    num_workers: int = 1,
) -> None:
    """Do all tasks together with the other ranks; returns when all are done, whoever did them.

    Every rank begins at another place. At the end it waits for what others have claimed, and does what they leave.

    Args:
        tasks: what there is to do, the same for all ranks.
        do: does one task, in a worker process, and publishes the result as a whole; doing it twice is harmless.
        is_done: whether the result is published.
        claims: those of this rank.
        world_size: the number of ranks.
        num_workers: the number of processes of this rank.

    Raises:
        IncompleteError: a worker process was killed.
        Exception: what `do` raises.
    """
    left = [task for task in tasks if not is_done(task)]
    if not left:
        return
    begin = claims.rank * len(left) // world_size
    left = left[begin:] + left[:begin]
    attempt = partial(_attempt, do=do, is_done=is_done, claims=claims)
    claims.begin()
    try:
        with heartbeat(claims.beat):
            while left:
                free = [task for task in left if claims.is_free(task.name)]
                if not free:
                    time.sleep(TICK)
                for _ in map_in_order(attempt, free, num_workers):
                    pass
                left = [task for task in left if not is_done(task)]
    finally:
        claims.give_up()
        claims.end()


def _attempt(task: TaskT, do: Callable[[TaskT], object], is_done: Callable[[TaskT], bool], claims: Claims) -> None:
    if is_done(task) or not claims.take(task.name):
        return
    try:
        if not is_done(task):  # by the one whose claim was there before
            do(task)
    finally:
        claims.release(task.name)
