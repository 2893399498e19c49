"""The kill matrix over shards for WeNet: a tar for each unit, and a list of all at the end."""

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.killing import Case, KillMatrix, kill_a_worker, kill_main, with_reference
from tests.support.running import prepcli

pytestmark = pytest.mark.slow

NUM_SHARDS = 12
BAD = 3


@dataclass(frozen=True)
class ListCase(Case):
    """`shards.list` has the same bytes in every folder if its paths are relative to that folder."""

    def arguments(self, out: Path) -> list[object]:
        return [*super().arguments(out), "--relative-to", out]


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
    size = -(-len(records) // NUM_SHARDS)
    options = ("--shard-size", size, "--target-sample-rate", 44100, "--shuffle")
    case = ListCase("manifest-to-wenet", manifest, options, NUM_SHARDS, BAD, {})
    done = prepcli(*case.arguments(folder / "out"))
    assert done.code == 0, done.err
    return with_reference(case, folder / "out")


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


class TestKills(KillMatrix):
    kills = ((kill_main, 0, 2), (kill_main, 4, 1), (kill_a_worker, 3, 5))
    signals = (signal.SIGUSR1,)
