"""The kill matrix over Shar: three files per shard, which must appear together or not at all."""

import signal
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.killing import Case, KillMatrix, kill_a_worker, kill_main, undisturbed_case

pytestmark = pytest.mark.slow

NUM_SHARDS = 12
BAD = 7


def make_case(folder: Path, *more: str) -> Case:
    """The mini corpus three times over with other offsets, and seven records whose target or context is missing."""
    corpus = read_lines(MINI_CORPUS / "manifest.json")
    records = []
    for turn in range(3):
        for number, record in enumerate(corpus):
            other = corpus[number + 1 if number % 6 == 0 else number - 1]
            context = {"context_audio_offset": turn * 0.01, "context_audio_duration": 0.9}
            context["context_audio_filepath"] = other["audio_filepath"]
            records.append(record | {"offset": turn * 0.01, "duration": 0.9} | context)
    for number in range(BAD):
        which = "context_audio_filepath" if number % 2 else "audio_filepath"
        records.insert(20 * number, records[number] | {which: f"missing_{number}.wav"})
    manifest = write_lines(folder / "manifest.json", records)
    size = -(-len(records) // NUM_SHARDS)
    options = ("--audio-base-dir", MINI_CORPUS, "--shard-size", size, "--target-sample-rate", 44100, "--shuffle", *more)
    return undisturbed_case(folder, "manifest-to-shar", manifest, options, NUM_SHARDS, BAD)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


class TestKills(KillMatrix):
    world_sizes = (5,)
    signals = (signal.SIGUSR1,)


class TestKillsWithIndexes(KillMatrix):
    """Plain cuts, and indexes of all fields beside the shards; an index appears after its data."""

    kills = ((kill_main, 3, 2), (kill_a_worker, 8, 1))
    world_sizes = (1,)

    @pytest.fixture(scope="class")
    def case(self, tmp_path_factory: pytest.TempPathFactory) -> Case:
        return make_case(tmp_path_factory.mktemp("indexed"), "--indexed")

    def test_indexes_are_part_of_the_output(self, case: Case) -> None:
        assert sum(name.endswith(".idx") for name in case.undisturbed) == 3 * NUM_SHARDS
