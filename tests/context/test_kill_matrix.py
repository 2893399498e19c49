"""extend-context-audio, killed at random points and continued by other numbers of ranks."""

from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.killing import Case, KillMatrix, kill_a_worker, kill_main, undisturbed_case

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
    more = {"units": "bundle_*", "module": "tests.toy_voice", "verified": False}
    return undisturbed_case(folder, "extend-context-audio", manifest, (*options, "--max-rejects", BAD), 16, BAD, **more)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


class TestKills(KillMatrix):
    kills = tuple((victim, *moment) for victim in (kill_main, kill_a_worker) for moment in ((0, 1), (2, 2), (6, 5)))
