"""extend-context-audio, killed at random points and continued by other numbers of ranks."""

import signal
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.killing import (
    Case,
    Victim,
    check_kill_of_one_process,
    check_kill_of_one_rank,
    check_signal,
    kill_a_worker,
    kill_main,
    undisturbed_case,
)

pytest.importorskip("resemblyzer", exc_type=ImportError)

BAD = 3


def make_case(folder: Path) -> Case:
    """The mini corpus with each speaker in two groups: 16 bundles; three records without audio."""
    records = read_lines(MINI_CORPUS / "manifest.json")
    for number, record in enumerate(records):
        record["audio_filepath"] = str(MINI_CORPUS / record["audio_filepath"])
        record["speaker"] += f" {number % 2}"
    for number in range(BAD):
        records.insert(11 * number, dict(records[0], audio_filepath=f"missing_{number}.wav"))
    manifest = write_lines(folder / "manifest.json", records)
    options = ("--speaker-model", "resemblyzer", "--context-min-ssim", 0, "--context-min-duration", 1)
    more = {"units": "bundle_*", "verified": False}
    return undisturbed_case(folder, "extend-context-audio", manifest, (*options, "--max-rejects", BAD), 16, BAD, **more)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


@pytest.mark.parametrize("victim", [kill_main, kill_a_worker])
@pytest.mark.parametrize(("markers", "world_size"), [(0, 1), (2, 2), (6, 5)])
def test_kill_one_process(case: Case, tmp_path: Path, victim: Victim, markers: int, world_size: int) -> None:
    check_kill_of_one_process(case, tmp_path / "out", victim, markers, world_size)


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_kill_one_of_two_ranks(case: Case, tmp_path: Path, world_size: int) -> None:
    check_kill_of_one_rank(case, tmp_path / "out", world_size)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_signals_end_the_run_in_good_order(case: Case, tmp_path: Path, number: signal.Signals) -> None:
    check_signal(case, tmp_path / "out", number)
