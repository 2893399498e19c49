"""The kill matrix over Parquet files."""

import signal
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.killing import Case, KillMatrix, kill_a_worker, kill_main, undisturbed_case

pytestmark = pytest.mark.slow

NUM_FILES = 12
BAD = 3


def make_case(folder: Path) -> Case:
    """The mini corpus three times over as segments that are resampled, and three records without audio."""
    records = []
    for turn in range(3):
        for record in read_lines(MINI_CORPUS / "manifest.json"):
            path = str(MINI_CORPUS / record["audio_filepath"])
            records.append(record | {"audio_filepath": path, "offset": turn * 0.01, "duration": 0.9})
    for number in range(BAD):
        records.insert(40 * number, {"audio_filepath": f"missing_{number}.wav", "duration": 1.0, "text": ""})
    manifest = write_lines(folder / "manifest.json", records)
    options = ("--shard-size", -(-len(records) // NUM_FILES), "--target-sample-rate", 44100, "--shuffle")
    return undisturbed_case(folder, "manifest-to-parquet", manifest, options, NUM_FILES, BAD)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


class TestKills(KillMatrix):
    kills = ((kill_main, 0, 2), (kill_main, 4, 1), (kill_a_worker, 3, 5))
    signals = (signal.SIGINT,)
