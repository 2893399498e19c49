"""extend-codec-codes, killed at random points, continued by other numbers of ranks, and started twice by mistake."""

import random
import shutil
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.support.killing import (
    Case,
    KillMatrix,
    Victim,
    kill_a_worker,
    kill_main,
    kill_one_of_a_launch,
    resume,
    undisturbed_case,
    wait_for_markers,
)
from tests.support.running import HANG_SECONDS, start_prepcli
from tests.support.shar_sets import make, rewrite_tar
from tests.support.toy_codec import HOLD

pytestmark = pytest.mark.slow

BAD = 3
MODULE = "tests.support.toy_codec"


def make_case(folder: Path) -> Case:
    """The mini corpus in 12 shards, three of its recordings damaged; a unit is a shard."""
    shar = folder / "shar"
    make(MINI_CORPUS / "manifest_with_context.json", shar, "--shard-size", 4)
    for number in range(BAD):
        tar = shar / f"target_audio/recording.{3 * number:06d}.tar"
        rewrite_tar(tar, lambda content: content.__setitem__(2, (content[2][0], b"noise")))
    options = ("--codec-model", "toy", "--pool-duration", 1, "--max-rejects", BAD)
    more = {"units": "shards_*", "module": MODULE, "out_option": "--output-dir", "records": "codes_toy"}
    return undisturbed_case(folder, "extend-codec-codes", shar, options, 12, BAD, **more)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


class TestKills(KillMatrix):
    kills = ((kill_main, 0, 1), (kill_a_worker, 3, 2), (kill_main, 6, 5))
    world_sizes = (5,)


@pytest.mark.parametrize(("victim", "markers"), [(kill_main, 0), (kill_a_worker, 2)])
def test_ranks_of_a_launch_do_the_work_of_a_killed_one(
    case: Case, draw: random.Random, tmp_path: Path, victim: Victim, markers: int
) -> None:
    kill_one_of_a_launch(case, tmp_path / "out", victim, markers, draw)


def test_started_twice_by_mistake(case: Case, tmp_path: Path) -> None:
    """The first waits in the middle of its work; the second says so, does all of it, and neither harms the other."""
    out, go = tmp_path / "out", tmp_path / "go"
    first = start_prepcli(*case.arguments(out), module=MODULE, environ={HOLD: str(go)})
    wait_for_markers(out, 0, first, case.units, case.records)
    progress = case.workspace(out) / "progress/rank_00000.json"
    while not progress.exists():
        assert first.poll() is None
    second = start_prepcli(*case.arguments(out), module=MODULE)
    _, err = second.communicate(timeout=HANG_SECONDS)
    assert second.returncode == 0, err
    assert f"note: rank 0 seems to be running already (process {first.pid} on" in err
    assert tree(out) == case.undisturbed
    go.touch()
    _, err = first.communicate(timeout=HANG_SECONDS)
    assert first.returncode == 0, err
    assert tree(out) == case.undisturbed
    assert len(read_lines(case.workspace(out) / "rejects.jsonl")) == BAD


def manifest_case(folder: Path) -> Case:
    """The mini corpus as a manifest, three of its files missing; contexts are in other units, and other ranks."""
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")
    for number, record in enumerate(records):
        for field in ("audio_filepath", "context_audio_filepath"):
            record[field] = str(MINI_CORPUS / record[field])
        if number % 16 == 15:
            record["audio_filepath"] = f"missing_{number}.wav"
    manifest = write_lines(folder / "manifest.json", records)
    options = ("--codec-model", "toy", "--pool-duration", 5, "--max-rejects", BAD)
    more = {
        "units": "records_*",
        "module": MODULE,
        "out_option": "--output-dir",
        "records": "codes_toy",
        "one_place": True,
    }
    return undisturbed_case(folder, "extend-codec-codes", manifest, options, 20, BAD, **more)


def test_kills_of_a_run_over_a_manifest(tmp_path: Path, draw: random.Random) -> None:
    """The lines have the whole paths of the codes: all runs are in one place."""
    case, out = manifest_case(tmp_path), tmp_path / "out"
    for victim, markers, world_size in ((kill_main, 1, 2), (kill_a_worker, 3, 1), (kill_main, 6, 3)):
        shutil.rmtree(out)
        shutil.rmtree(tmp_path / "out.prepcli")
        process = case.start(out)
        wait_for_markers(out, markers, process, case.units, case.records)
        victim(process, draw)
        process.communicate(timeout=HANG_SECONDS)
        half = {name for name, digest in tree(out).items() if case.undisturbed.get(name) != digest}
        assert half == set()  # nothing half under a final name
        resume(case, out, world_size)
        assert len(read_lines(case.workspace(out) / "rejects.jsonl")) == BAD
    shutil.rmtree(out)
    shutil.rmtree(tmp_path / "out.prepcli")
    kill_one_of_a_launch(case, out, kill_main, 2, draw)
