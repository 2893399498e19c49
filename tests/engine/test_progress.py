"""The counter across processes, and what a killed worker must not do to it."""

import itertools
import os
import signal
import time
from collections.abc import Iterator

import pytest

from prepcli.engine.progress import SharedCounter, format_seconds
from prepcli.engine.signals import InterruptedBySignal, stop_on_signals
from prepcli.processes import worker_context


def _count(counter: SharedCounter, times: int) -> None:
    for _ in range(times):
        counter.add(2, 0.5)


def test_counts_of_several_processes_are_added_up() -> None:
    context = worker_context()
    counter = SharedCounter(context)
    processes = [context.Process(target=_count, args=(counter, 100)) for _ in range(3)]  # type: ignore[attr-defined]
    for process in processes:
        process.start()
    counter.add(1, 0.25)
    for process in processes:
        process.join()
    assert counter.read() == (601, 150.25)
    assert counter.read() == (601, 150.25)


def _count_for_ever(counter: SharedCounter) -> None:
    while True:
        counter.add(1, 1.0)


@pytest.fixture
def no_hang() -> Iterator[None]:
    """Half a minute is enough."""

    def too_long(*_: object) -> None:
        raise TimeoutError("reading the counter hangs")

    previous = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


@pytest.mark.usefixtures("no_hang")
def test_workers_killed_while_they_count_do_not_stop_the_reader() -> None:
    """Killed two dozen times at random: with a lock in shared memory one of them would take it along."""
    context = worker_context()
    counter = SharedCounter(context)
    before = 0
    for turn in range(24):
        process = context.Process(target=_count_for_ever, args=(counter,))  # type: ignore[attr-defined]
        process.start()
        time.sleep(0.005 + 0.001 * turn)
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        records, seconds = counter.read()
        assert records == seconds
        before = max(before, records)
    assert before > 0


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("moment", range(4))
def test_a_signal_within_a_piece_leaves_no_half_of_it(monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    """A piece is its length, then its content; the signal comes after the first, second, ... reading of either."""
    context = worker_context()
    counter = SharedCounter(context)
    process = context.Process(target=_count, args=(counter, 2))  # type: ignore[attr-defined]
    process.start()
    process.join()
    receive, readings = counter._receive._recv, itertools.count()  # type: ignore[attr-defined]

    def interrupted(size: int) -> object:
        found = receive(size)
        if next(readings) == moment:
            signal.raise_signal(signal.SIGUSR1)
        return found

    monkeypatch.setattr(counter._receive, "_recv", interrupted)
    with stop_on_signals(), pytest.raises(InterruptedBySignal):
        counter.read()
    assert counter.read() == (4, 1.0)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (75, "1:15"), (3700, "1:01:40"), (59.6, "1:00")])
def test_seconds_for_people(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
