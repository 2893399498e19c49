"""Claims: files by which ranks show their current work, so that others continue the work of a rank that has died.

A claim is a file that only one process can create; it names the process and its work. If the process ends, or its rank
gives no sign of life, another rank takes the work over with a claim that has the next number. The old claim stays, so
only one rank can create the claim with the next number. If the first rank was only slow, it finishes the work too; both
publish the same bytes.

Signs of life are a counter in a file (`prepcli.processes.owner.Life`). Each observer measures with its own clock for
how long the counter has not changed: the clocks of machines and file servers may differ by any amount.
"""

import contextlib
import itertools
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from prepcli.engine.state.folders import while_others_remove
from prepcli.errors import naming
from prepcli.processes.owner import EMPTY_SECONDS, REPEAT_SECONDS, Life, Owner

CLAIMS = "claims"
"""The name of the folder of claims."""


class Claims:
    """The claims in a folder, as one rank sees them; its worker processes inherit the object."""

    def __init__(self, folder: Path, rank: int, life: Life, silence: float = REPEAT_SECONDS) -> None:
        """`life`: the signs of life of this rank.

        `silence`: the seconds without a sign of life after which another rank counts as dead.
        """
        self._folder = folder
        self.rank = rank
        self._life = life
        self._silence = silence
        self._seen: dict[str, tuple[bytes, float]] = {}  # by rank: the last beat, and when it was first seen

    def begin(self) -> None:
        """Make the folder of the claims, which has a file for each unit that a rank works on."""
        while_others_remove(partial(self._folder.mkdir, parents=True, exist_ok=True))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Within the context this rank gives signs of life; at its end it gives up its claims."""
        self.begin()
        with self._life.at_work():
            try:
                yield
            finally:
                self.give_up()

    def take(self, name: str) -> bool:
        """Claim the work `name`. Returns False if another rank that seems to be alive has claimed it.

        Returns False also if another process has removed the folder of claims meanwhile: the folder is made again, and
        the next attempt may succeed.
        """
        for number in itertools.count():
            path = self._path(name, number)
            try:
                file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                found = self._last_state(name, number)
                if found != "dead":
                    return found == "own"
                continue
            except FileNotFoundError:  # another launch, or a rank that has ended the run, has removed the folder
                with contextlib.suppress(FileNotFoundError, FileExistsError):  # or is removing its parents
                    self._folder.mkdir(parents=True, exist_ok=True)
                return False
            try:
                with naming(path):
                    os.write(file, f"{self.rank} {self._life.owner}".encode())
            finally:
                os.close(file)
            if not self._path(name, number + 1).exists():  # if it exists, another rank took this claim for a dead one
                return True
        raise AssertionError("unreachable")

    def count_as_dead(self, owner: Owner) -> None:
        """Count the rank of `owner` as dead from now on, unless it gives another sign of life."""
        self._seen[owner.rank_id] = self._life.last_beat(owner), -math.inf

    def is_free(self, name: str) -> bool:
        """Whether `take` would succeed now: no other rank that seems to be alive has claimed the work `name`."""
        for number in itertools.count():
            found = self._last_state(name, number) if self._path(name, number).exists() else "none"
            if found != "dead":
                return found in ("none", "own")
        raise AssertionError("unreachable")

    def release(self, name: str) -> None:
        """Remove all claims for the work `name`, which is done or has failed."""
        for number in itertools.count():
            try:
                self._path(name, number).unlink()
            except FileNotFoundError:
                return

    def give_up(self) -> None:
        """Remove all claims of this rank, so that other ranks need not wait for it."""
        for path in _files(self._folder):
            if _is_number(path.suffix[1:]) and self._state(path) == "own":
                path.unlink(missing_ok=True)

    def _path(self, name: str, number: int) -> Path:
        return self._folder / f"{name}.{number}"

    def _last_state(self, name: str, number: int) -> str:
        """The state (`_state`) of claim `number` for the work `name`.

        Our own claim also counts as `dead` if another rank has taken it over, with claim `number + 1`.
        """
        found = self._state(self._path(name, number))
        return "dead" if found == "own" and self._path(name, number + 1).exists() else found

    def _state(self, path: Path) -> str:
        """The state of the claim at `path`: `own` (of this rank), `alive` (of another rank) or `dead`."""
        holder = None
        with contextlib.suppress(FileNotFoundError):
            holder = _holder(path.read_bytes())
        if holder is None:  # the claim is being written, or its writer was killed before the first byte
            return "dead" if self._is_silent(path.name, b"", min(EMPTY_SECONDS, self._silence)) else "alive"
        owner = holder[1]
        if owner.rank_id == self._life.owner.rank_id:
            return "own"
        if owner.is_gone or self._is_silent(owner.rank_id, self._life.last_beat(owner), self._silence):
            return "dead"
        return "alive"

    def _is_silent(self, who: str, beat: bytes, seconds: float) -> bool:
        """Whether `beat`, the last sign of life of `who`, was first seen more than `seconds` ago, by our own clock."""
        now = time.monotonic()
        last = self._seen.get(who)
        if last is None or last[0] != beat:
            self._seen[who] = (beat, now)
            return False
        return now - last[1] > seconds


def owners(folder: Path) -> dict[str, tuple[int, Owner]]:
    """For each piece of work that is claimed in `folder`, by name: the rank and the process that claimed it last."""
    found: dict[str, tuple[int, tuple[int, Owner]]] = {}
    for path in _files(folder):
        name, _, number = path.name.rpartition(".")
        with contextlib.suppress(FileNotFoundError):
            holder = _holder(path.read_bytes())
            if holder is not None and _is_number(number) and (name not in found or int(number) > found[name][0]):
                found[name] = int(number), holder
    return {name: holder for name, (_, holder) in found.items()}


def _files(folder: Path) -> list[Path]:
    """The files in a folder of claims; empty if another rank, which has finished the run, is removing the folder."""
    with contextlib.suppress(FileNotFoundError):
        return list(folder.glob("*.*"))
    return []


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _holder(content: bytes) -> tuple[int, Owner] | None:
    rank, _, name = content.decode(errors="replace").partition(" ")
    owner = Owner.parse(name)
    return (int(rank), owner) if owner is not None and _is_number(rank) else None
