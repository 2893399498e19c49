"""A lock between processes, also of several machines, that share a folder; it does not outlive its holder for long."""

import contextlib
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prepcli.errors import PrepcliError, naming, same_command
from prepcli.processes.owner import EMPTY_SECONDS, Owner
from prepcli.processes.signals import STOP_SIGNALS

TOUCH_SECONDS = 10.0
"""Seconds between two signs that the holder is alive."""
SILENCE_SECONDS = 120.0
"""Seconds without a sign after which the holder, a process of another machine, counts as dead."""
_WAIT = 0.1


class Lock:
    """A lock that this process holds."""

    def __init__(self, path: Path, token: bytes) -> None:
        self._path, self._token = path, token

    def check(self) -> None:
        """Check that the lock is still ours; called before each step that another holder must not see half done.

        Raises:
            PrepcliError: another process has taken it, because this one seemed to have ended.
        """
        if _content(self._path) != self._token:
            raise PrepcliError(
                f"{self._path} was taken over: this process stood still for more than {SILENCE_SECONDS:.0f} s; run "
                f"{same_command()} again"
            )


LOCK_FILE = "commit.lock"
"""The lock of an output, in OUT.prepcli."""


@contextmanager
def locked(path: Path) -> Iterator[Lock]:
    """Hold the lock `path` within the context; wait until no other process holds it.

    The file has the name of its holder, who touches it. A holder of this machine that has ended is noticed at once, one
    of another machine when the file has not changed for `SILENCE_SECONDS`, by the clock of the observer.
    """
    token = f"{Owner.of_this_process(uuid.uuid4().hex[:16])}".encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    seen: tuple[object, float] = (None, 0.0)
    while not _take(path, token):
        state = _content(path), _changed(path)
        if state != seen[0]:
            seen = state, time.monotonic()
        if _has_ended(state[0], time.monotonic() - seen[1]):
            _take_away(path, state[0])
        else:
            time.sleep(_WAIT)
    ended = threading.Event()

    def touch() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # they must reach the main thread
        while not ended.wait(TOUCH_SECONDS):
            with contextlib.suppress(OSError):
                os.utime(path)

    thread = threading.Thread(target=touch, daemon=True, name="lock")
    thread.start()
    try:
        yield Lock(path, token)
    finally:
        ended.set()
        thread.join()
        if _content(path) == token:
            path.unlink(missing_ok=True)


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
