"""Locks: one holder at a time, whoever dies or stands still, on this machine or another; and work that is done once."""

import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import pytest

from prepcli.engine import lock as locks
from prepcli.engine.lock import Lock, do_once, is_held, is_left, locked
from prepcli.errors import PrepcliError
from prepcli.processes.owner import Owner
from prepcli.processes.signals import InterruptedBySignal, stop_on_signals

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


def test_it_touches_only_its_own(path: Path) -> None:
    with patch.object(locks, "TOUCH_SECONDS", 0.01), locked(path):
        path.write_text(str(ELSEWHERE))
        os.utime(path, (1, 1))
        time.sleep(0.1)
        assert path.stat().st_mtime == 1


def test_its_folder_is_removed_while_a_process_waits(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(str(ELSEWHERE))
    remover = threading.Timer(0.1, shutil.rmtree, [path.parent])
    remover.start()
    with locked(path) as lock:
        assert remover.finished.is_set()
        lock.check()


def test_a_signal_ends_the_wait(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(str(ELSEWHERE))
    timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM])
    with pytest.raises(InterruptedBySignal, match="SIGTERM"), stop_on_signals():
        timer.start()
        with locked(path):
            pass
    assert path.read_text() == str(ELSEWHERE)


def test_a_process_that_is_stopped_just_after_it_has_taken_it(path: Path) -> None:
    with (
        patch.object(threading.Thread, "start", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
        locked(path),
    ):
        pass
    assert not path.exists()


def test_one_note_says_that_a_process_waits(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with patch.object(locks, "NOTE_SECONDS", 0.05):
        for _ in range(2):
            path.parent.mkdir(exist_ok=True)
            path.write_text(str(ELSEWHERE))
            threading.Timer(0.5, path.unlink).start()
            with locked(path, "is planning"):
                pass
    assert capsys.readouterr().err == f"note: another process is planning; this one waits for it ({path})\n"


@pytest.mark.parametrize("ahead", [-1000.0, 1000.0])
def test_who_looks_once_compares_with_the_clock_of_the_file_server(path: Path, ahead: float) -> None:
    assert not is_held(path)
    with locked(path):
        assert is_held(path)
    path.parent.mkdir(exist_ok=True)
    path.write_text(str(ELSEWHERE))
    real = time.time
    with patch.object(time, "time", lambda: real() + ahead):
        assert is_held(path)
        os.utime(path, (real() - 200,) * 2)
        assert not is_held(path)
    path.write_bytes(b"")
    assert not is_held(path)


def in_processes(count: int, work: Callable[[int], object]) -> list[int | None]:
    """Call `work` with 0, 1, ... in processes of their own at once; returns their exit codes."""
    processes = [get_context("fork").Process(target=work, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def test_one_process_does_it_and_the_others_wait(path: Path, tmp_path: Path) -> None:
    result, log = tmp_path / "result", tmp_path / "log"

    def do(lock: Lock) -> None:
        with log.open("a") as file:
            file.write("done\n")
        time.sleep(0.3)
        lock.check()
        result.touch()

    def work(_: int) -> None:
        do_once(path, do, result.exists, "is at work")
        assert result.exists()

    assert in_processes(4, work) == [0] * 4
    assert log.read_text() == "done\n"
    assert list(path.parent.iterdir()) == []


def test_who_waits_goes_on_as_soon_as_it_is_done(path: Path, tmp_path: Path) -> None:
    """Not one after the other: the holder may already be at the next step."""
    result = tmp_path / "result"
    path.parent.mkdir()
    path.write_text(str(ELSEWHERE))
    threading.Timer(0.2, result.touch).start()
    do_once(path, lambda _: pytest.fail("it is done"), result.exists, "is at work")
    assert path.read_text() == str(ELSEWHERE)


def test_the_next_one_goes_on_with_the_work_of_one_that_was_killed(path: Path, tmp_path: Path) -> None:
    steps = [tmp_path / str(number) for number in range(3)]

    def work(number: int) -> None:
        def do(_: Lock) -> None:
            for step in steps:
                if not step.exists():
                    step.write_text(f"{number}")
                    if number == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

        while number and not steps[0].exists():
            time.sleep(0.01)
        do_once(path, do, steps[-1].exists, "is at work")

    assert in_processes(2, work) == [-signal.SIGKILL, 0]
    assert [step.read_text() for step in steps] == ["0", "1", "1"]


def test_after_an_error_the_next_one_tries(path: Path, tmp_path: Path) -> None:
    result = tmp_path / "result"

    def fail(_: Lock) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        do_once(path, fail, result.exists, "is at work")
    assert not path.exists()
    do_once(path, lambda _: result.touch(), result.exists, "is at work")
    assert result.exists()
