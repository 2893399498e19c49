"""The counter across processes, and what a killed worker must not do to it."""

import os
import signal
import time

import pytest

from prepcli.processes import worker_context
from prepcli.run.progress import SharedCounter, format_seconds


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


def test_workers_killed_while_they_count_do_not_stop_the_reader() -> None:
    """Killed two dozen times at random: with a lock in shared memory one of them would take it along."""

    def too_long(*_: object) -> None:
        raise TimeoutError("reading the counter hangs")

    context = worker_context()
    counter = SharedCounter(context)
    previous = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(30)
    try:
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
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (75, "1:15"), (3700, "1:01:40"), (59.6, "1:00")])
def test_seconds_for_people(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
