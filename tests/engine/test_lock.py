"""The lock of an output: one holder at a time, whoever dies or stands still, on this machine or another."""

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from prepcli.engine import lock as locks
from prepcli.engine.lock import is_left, locked
from prepcli.errors import PrepcliError
from prepcli.processes.owner import Owner

ELSEWHERE = Owner("0" * 16, "another-machine".replace("-", "_"), 1, 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.prepcli/commit.lock"


@pytest.fixture
def short_silence() -> Iterator[None]:
    with patch.object(locks, "SILENCE_SECONDS", 0.3), patch.object(locks, "EMPTY_SECONDS", 0.3):
        yield


def test_one_holder_at_a_time(path: Path) -> None:
    held, most = 0, 0

    def work() -> None:
        nonlocal held, most
        for _ in range(3):
            with locked(path) as lock:
                held += 1
                most = max(most, held)
                time.sleep(0.01)
                lock.check()
                held -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    with patch.object(locks, "_WAIT", 0.001):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == 1
    assert list(path.parent.iterdir()) == []


def test_a_holder_that_was_killed_is_noticed_at_once(path: Path) -> None:
    child = os.fork()
    if not child:
        with locked(path):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert is_left(path)
    with locked(path) as lock:  # the limit for other machines is two minutes
        lock.check()
        assert not is_left(path)
    assert list(path.parent.iterdir()) == []


def test_a_holder_on_another_machine_is_dead_when_it_is_silent(path: Path, short_silence: None) -> None:
    path.parent.mkdir()
    path.write_text(str(ELSEWHERE))
    ended = threading.Event()

    def touch() -> None:
        for _ in range(20):
            time.sleep(0.05)
            os.utime(path)
        ended.set()

    thread = threading.Thread(target=touch)
    thread.start()
    assert not is_left(path)
    with locked(path):
        assert ended.is_set()
    thread.join()


@pytest.mark.parametrize("content", ["", "no owner"])
def test_a_lock_without_a_name(path: Path, short_silence: None, content: str) -> None:
    """Its maker was killed before it had written its name, or the power failed."""
    path.parent.mkdir()
    path.write_text(content)
    with locked(path) as lock:
        lock.check()
    assert not path.exists()


def test_the_holder_touches_it(path: Path) -> None:
    with patch.object(locks, "TOUCH_SECONDS", 0.01), locked(path):
        first = path.stat().st_mtime_ns
        deadline = time.monotonic() + 60
        while path.stat().st_mtime_ns == first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert path.stat().st_mtime_ns != first


def test_who_has_lost_it_stops_and_leaves_it_to_the_new_holder(path: Path) -> None:
    with locked(path) as lock:
        path.unlink()
        path.write_text(str(ELSEWHERE))
        with pytest.raises(PrepcliError, match=r"commit\.lock was taken over"):
            lock.check()
    assert path.read_text() == str(ELSEWHERE)


def test_a_lock_that_was_taken_meanwhile_is_put_back(path: Path) -> None:
    """Two processes have seen that a holder is dead; the slower one meets the lock of the faster one."""
    path.parent.mkdir()
    path.write_text(str(ELSEWHERE))
    locks._take_away(path, b"the dead one")
    assert path.read_text() == str(ELSEWHERE)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_no_room_for_its_name(path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as error, locked(path):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert error.value.filename == str(path)
    assert not path.exists()
