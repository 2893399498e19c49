"""The counter across processes, and what a killed worker must not do to it."""

import io
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prepcli.engine.ranks.progress import RankProgress, Reporter, SharedCounter, describe, format_seconds, new_progress
from prepcli.engine.ranks.progress import progress_file as file_of
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.processes.owner import Owner
from prepcli.processes.ranks import Rank
from prepcli.processes.signals import InterruptedBySignal, stop_on_signals
from prepcli.processes.workers import worker_context
from tests.support.running import HANG_SECONDS


def _count(counter: SharedCounter, times: int) -> None:
    for _ in range(times):
        counter.add(2, 0.5)


def test_counts_of_several_processes_are_added_up() -> None:
    context = worker_context()
    counter = SharedCounter()
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
    """Nobody waits for ever."""

    def too_long(*_: object) -> None:
        raise TimeoutError("reading the counter hangs")

    previous = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(int(HANG_SECONDS))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


@pytest.mark.slow
@pytest.mark.usefixtures("no_hang")
def test_workers_killed_while_they_count_do_not_stop_the_reader() -> None:
    """Killed two dozen times at random: with a lock in shared memory one of them would take it along."""
    context = worker_context()
    counter = SharedCounter()
    before = 0
    for turn in range(24):
        process = context.Process(target=_count_for_ever, args=(counter,))  # type: ignore[attr-defined]
        process.start()
        assert counter._receive.poll(HANG_SECONDS)  # it counts
        time.sleep(0.001 * turn)
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
    counter = SharedCounter()
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


def progress_of(number: int, world_size: int = 1, **changes: float) -> RankProgress:
    """A rank that began at 1000 s and was heard of at 1100 s."""
    progress = new_progress(Rank(number, world_size), Owner.of_this_process("x"))
    values = {"started": 1000.0, "updated": 1100.0, "seconds_total": 7200.0, "records_total": 3000} | changes
    for name, value in values.items():
        setattr(progress, name, value)
    return progress


def test_whole_numbers_hours_and_time_left() -> None:
    own = progress_of(0, records_done=1234, seconds_done=3600.0, rejects=5)
    words = "1,234 of 3,000 records, 1:40 left, 1.00 of 2.00 hours, 36 x real time, 5 rejects"
    assert describe(1234, 3000, [own], 1100.0) == words
    other = progress_of(1, seconds_done=1800.0, rejects=1)
    words = "1,234 of 6,000 records, 5:00 left, 1.50 of 4.00 hours, 54 x real time, 6 rejects"
    assert describe(1234, 6000, [own, other], 1100.0) == words


def test_before_the_first_record_and_after_the_last() -> None:
    words = "0 of 3,000 records, unknown time left, 0.00 of 2.00 hours, 0 x real time, 0 rejects"
    assert describe(0, 3000, [progress_of(0)], 1000.0) == words
    assert "0:00 left" in describe(3000, 3000, [progress_of(0, seconds_done=7200.0)], 1100.0)
    assert describe(0, 0, [progress_of(0, seconds_total=0.0)], 1000.0).startswith("0 of 0 records, 0:00 left")


def test_where_the_plan_does_not_know_seconds() -> None:
    """As make-manifest, which measures them: the time left follows from the records."""
    own = progress_of(0, records_done=750, seconds_done=3600.0, knows_seconds=False)
    words = "750 of 3,000 records, 5:00 left, 1.00 hours, 36 x real time, 0 rejects"
    assert describe(750, 3000, [own], 1100.0) == words


def test_what_does_not_fit_is_left_out() -> None:
    """A bar of 80 columns has 48 for these words, behind the longest name of a command."""
    own = progress_of(0, records_done=1234, seconds_done=3600.0, rejects=5)
    assert describe(1234, 3000, [own], 1100.0, 48) == "1,234 of 3,000 records, 1:40 left, 5 rejects"
    assert describe(1234, 3000, [own], 1100.0, 66).endswith("1.00 of 2.00 hours, 5 rejects")
    assert describe(1234, 3000, [own], 1100.0, 20) == "1:40 left, 5 rejects"


@pytest.mark.parametrize("columns", [80, 200])
def test_the_bar_ends_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    workspace = Workspace(tmp_path / "out")
    workspace.prepare()
    monkeypatch.setattr(sys, "stderr", Terminal())
    reporter = Reporter(workspace, "manifest-to-tarred", progress_of(0), records_before=0, records_all=1_234_567)
    reporter._bar.ncols = columns
    reporter.update()
    bar = str(reporter._bar)
    reporter.close("done")
    assert bar.endswith(" left, 0 rejects" if columns == 80 else " 0 x real time, 0 rejects")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_counts_all_ranks_and_what_was_done_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path / "out")
    workspace.prepare()
    write_json(file_of(workspace, 1), progress_of(1, 2, records_done=500, seconds_done=1800.0))
    monkeypatch.setattr(sys, "stderr", Terminal())
    own = progress_of(0, 2, records_done=60, seconds_done=3600.0)
    reporter = Reporter(workspace, "toy", own, records_before=2000, records_all=5120)
    reporter.update()
    bar = str(reporter._bar)
    reporter.close("done")
    assert bar.startswith("toy:  50%|")
    assert "| 2,560 of 5,120 records, " in bar
    assert " left, 1.50 of 4.00 hours, " in bar


def test_the_line_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = Workspace(tmp_path / "out")
    workspace.prepare()
    monkeypatch.setattr("prepcli.engine.ranks.progress.LINE_INTERVAL", 0.0)
    own = progress_of(0, records_done=1234, seconds_done=3600.0)
    own.units_done, own.units_total = 1, 2000
    Reporter(workspace, "toy", own, 0, 3000).update()
    line = capsys.readouterr().err
    assert line.startswith("[0/1] toy: 41%, 1,234 of 3,000 records, ")
    assert line.endswith("1 of 2,000 units\n")
