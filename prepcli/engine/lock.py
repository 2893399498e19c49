"""A lock between processes, also of several machines, that share a folder; it does not outlive its holder for long.

`do_once` makes something that many processes need: one of them makes it, and the others wait.
"""

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prepcli.errors import PrepcliError, naming, same_command
from prepcli.interface.calls import tell
from prepcli.processes.owner import Owner, clock_of, last_change, new_rank_id, touching

TOUCH_SECONDS = 10.0
"""Seconds between two signs that the holder is alive."""
EMPTY_SECONDS = 15.0
"""Seconds after which a lock that is still empty counts as left by a process that was killed.

A process writes its name into a new lock at once, and other machines see the name some seconds later. A mistake only
repeats work.
"""
SILENCE_SECONDS = 120.0
"""Seconds without a sign after which the holder, a process of another machine, counts as dead."""
NOTE_SECONDS = 5.0
"""Seconds of waiting after which a process says that it waits; about each lock it says so once."""
_WAIT = 0.1
_MAX_WAIT = 1.0
_noted: set[Path] = set()


class Lock:
    """A lock that this process holds."""

    def __init__(self, path: Path, token: bytes) -> None:
        self._path, self._token = path, token

    @property
    def is_ours(self) -> bool:
        """Whether no other process has taken the lock, because this one seemed to have ended."""
        return _content(self._path) == self._token

    def check(self) -> None:
        """Check that the lock is still ours; called before each step that another holder must not see half done.

        Raises:
            PrepcliError: another process has taken it, because this one seemed to have ended.
        """
        if not self.is_ours:
            raise PrepcliError(
                f"{self._path} was taken over: this process stood still for more than {SILENCE_SECONDS:.0f} s; run "
                f"{same_command()} again"
            )


LOCK_FILE = "commit.lock"
"""The lock of an output, in OUT.prepcli."""


@contextmanager
def locked(path: Path, doing: str = "is at work") -> Iterator[Lock]:
    """Hold the lock `path` within the context; wait until no other process holds it.

    The file has the name of its holder, who touches it. A holder of this machine that has ended is noticed at once, one
    of another machine when the file has not changed for `SILENCE_SECONDS`, by the clock of the observer.

    `doing`: the work of the holder, for the note of a process that waits.
    """
    token = _new_token()
    try:
        _wait(path, token, doing, lambda: False)
        with touching(path, TOUCH_SECONDS, lambda: _content(path) == token):
            yield Lock(path, token)
    finally:
        _release(path, token)


def do_once(path: Path, do: Callable[[Lock], object], is_done: Callable[[], bool], doing: str) -> None:
    """Do something that many processes need, unless it is done: one does it, and the others wait until it is done.

    If the holder of the lock ends before, a process that waits does the rest. One that only stood still for so long
    that it seemed to have ended goes on with it too, so doing it twice must be harmless.

    Args:
        path: the lock, as in `locked`.
        do: does it; its argument is the lock, which this process holds.
        is_done: whether it is done; called often while this process waits.
        doing: the work of the holder, for the note of a process that waits.

    Raises:
        Exception: any exception of `do`.
    """
    if is_done():
        return
    token = _new_token()
    try:
        if _wait(path, token, doing, is_done):
            with touching(path, TOUCH_SECONDS, lambda: _content(path) == token):
                if not is_done():  # the holder before this one may have done it
                    do(Lock(path, token))
    finally:
        _release(path, token)


def _new_token() -> bytes:
    return f"{Owner.of_this_process(new_rank_id())}".encode()


def _wait(path: Path, token: bytes, doing: str, is_done: Callable[[], bool]) -> bool:
    """Wait for the lock and take it; returns False if `is_done` becomes true before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    seen: tuple[object, float] = (None, 0.0)
    while not _take(path, token):
        if is_done():
            return False
        state, now = (_content(path), _changed(path)), time.monotonic()
        if state != seen[0]:
            seen = state, now
        if _has_ended(state[0], now - seen[1]):
            _take_away(path, state[0])
            continue
        if now - begun > NOTE_SECONDS and path not in _noted:
            _noted.add(path)
            tell(f"note: another process {doing}; this one waits for it ({path})")
        time.sleep(min(max(_WAIT, (now - begun) / 50), _MAX_WAIT))
    return True


def _release(path: Path, token: bytes) -> None:
    if _content(path) == token:
        path.unlink(missing_ok=True)


def is_held(path: Path) -> bool:
    """Whether a process that seems to be alive holds the lock; looks once, without waiting."""
    owner = Owner.parse((_content(path) or b"").decode(errors="replace"))
    if owner is None:
        return False
    if owner.is_gone is not None:
        return not owner.is_gone
    return clock_of(path.parent) - last_change(path) < SILENCE_SECONDS


def is_left(path: Path) -> bool:
    """Whether a process of this machine was killed while it held the lock."""
    owner = Owner.parse((_content(path) or b"").decode(errors="replace"))
    return owner is not None and owner.is_gone is True


def _take(path: Path, token: bytes) -> bool:
    """Make the lock, unless it exists."""
    try:
        with naming(path), path.open("xb", buffering=0) as file:
            try:
                file.write(token)
            except BaseException:
                path.unlink()
                raise
    except FileExistsError:
        return False
    except FileNotFoundError:  # another process has removed the folder
        path.parent.mkdir(parents=True, exist_ok=True)
        return False
    return True


def _content(path: Path) -> bytes | None:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return None


def _changed(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


def _has_ended(token: bytes | None, silence: float) -> bool:
    """Whether the holder has ended; for a holder on another machine, only silence shows that.

    A lock is empty if its maker was killed before it had written its name.
    """
    owner = Owner.parse((token or b"").decode(errors="replace"))
    if owner is None:
        return token is not None and silence > EMPTY_SECONDS
    return owner.is_gone if owner.is_gone is not None else silence > SILENCE_SECONDS


def _take_away(path: Path, token: bytes | None) -> None:
    """Remove the lock of a holder that has ended; one that another process has taken meanwhile is put back."""
    aside = path.with_name(f"{path.name}~{uuid.uuid4().hex}")
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, aside)
        if aside.read_bytes() != token:
            with contextlib.suppress(OSError):
                os.link(aside, path)
        aside.unlink()
