"""kill -9 at random points, continue with another number of ranks: the same bytes as an undisturbed run."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.support.killing import (
    Case,
    KillMatrix,
    children,
    kill_a_worker,
    kill_main,
    undisturbed_case,
    wait_for_markers,
    wait_until_gone,
)
from tests.support.running import HANG_SECONDS

pytestmark = pytest.mark.slow

NUM_SHARDS = 12
BAD = 7


def make_case(folder: Path) -> Case:
    """The mini corpus five times over with offsets that differ, and seven records without audio: 1.5 s of work."""
    records = []
    for turn in range(5):
        for record in read_lines(MINI_CORPUS / "manifest.json"):
            path = str(MINI_CORPUS / record["audio_filepath"])
            records.append(record | {"audio_filepath": path, "offset": turn * 0.01, "duration": 0.9})
    for number in range(BAD):
        records.insert(30 * number, {"audio_filepath": f"missing_{number}.wav", "duration": 1.0, "text": ""})
    manifest = write_lines(folder / "manifest.json", records)
    options = ("--num-shards", NUM_SHARDS, "--slice-with-offset", "--target-sample-rate", 16000, "--shuffle")
    return undisturbed_case(folder, "manifest-to-tarred", manifest, options, NUM_SHARDS, BAD)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


class TestKills(KillMatrix):
    """All moments, numbers of ranks and signals."""

    kills = tuple((victim, *moment) for victim in (kill_main, kill_a_worker) for moment in ((0, 1), (3, 2), (8, 5)))
    world_sizes = (1, 2, 5)
    signals = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


def test_rank_processes_of_one_machine(case: Case, tmp_path: Path) -> None:
    """The launcher of GPU commands: one rank process per device, ended with their parent, restartable."""
    out = tmp_path / "out"
    code = (
        "import sys; from prepcli.engine.ranks.launch import spawn_ranks\n"
        "sys.exit(spawn_ranks(sys.argv[2:], int(sys.argv[1])))"
    )

    def start() -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", code, "3", *map(str, case.arguments(out))]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    first = start()
    wait_for_markers(out, 1, first)  # type: ignore[arg-type]
    ranks = children(first.pid)
    assert len(ranks) == 3
    first.kill()
    first.communicate(timeout=HANG_SECONDS)
    wait_until_gone(ranks)
    second = start()
    wait_for_markers(out, 5, second)  # type: ignore[arg-type]
    second.terminate()
    _, err = second.communicate(timeout=HANG_SECONDS)
    assert second.returncode in (0, 4, -signal.SIGTERM), err  # or it was too early for any handler
    third = start()
    _, err = third.communicate(timeout=HANG_SECONDS)
    assert third.returncode == 0, err
    assert tree(out) == case.undisturbed
