"""extend-context-audio, killed at random points and continued by other numbers of ranks."""

import random
import signal
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.killing import (
    Case,
    KillMatrix,
    Victim,
    kill_a_worker,
    kill_main,
    kill_one_of_a_launch,
    undisturbed_case,
)

pytestmark = pytest.mark.slow

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
    options = ("--speaker-model", "toy", "--context-min-ssim", 0, "--context-min-duration", 1)
    more = {"units": "bundle_*", "module": "tests.support.toy_voice", "verified": False}
    return undisturbed_case(folder, "extend-context-audio", manifest, (*options, "--max-rejects", BAD), 16, BAD, **more)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


class TestKills(KillMatrix):
    kills = ((kill_a_worker, 0, 2), (kill_main, 2, 1), (kill_a_worker, 6, 5))
    world_sizes = (5,)
    signals = (signal.SIGINT,)


@pytest.mark.parametrize(("victim", "markers"), [(kill_main, 3), (kill_a_worker, 1)])
def test_ranks_of_a_launch_do_the_work_of_a_killed_one(
    case: Case, draw: random.Random, tmp_path: Path, victim: Victim, markers: int
) -> None:
    kill_one_of_a_launch(case, tmp_path / "out", victim, markers, draw)
