"""Ranks are killed while they read the manifests together, between the stages, and at work: the bytes stay the same."""

import gzip
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, tree
from tests.running import HANG_SECONDS, Process, prepcli, start_prepcli

pytestmark = pytest.mark.slow

NUM_SHARDS = 8
COMMANDS = {
    "manifest-to-tarred": ("--num-shards", NUM_SHARDS, "--shuffle", "--num-workers", 1, "--max-rejects", 0.9),
    "manifest-to-shar": ("--shard-size", 6, "--shuffle", "--num-workers", 1, "--max-rejects", 0.9),
}
Moment = Callable[[Path], bool]
MOMENTS: dict[str, Moment] = {
    "reading": lambda root: any(root.glob("index/*/parts")),
    "read": lambda root: any(root.glob("index/*/index.json")),
    "planned": lambda root: any(root.glob("index/*/plan-*/plan.json")),
    "at work": lambda root: any(root.glob("done/*.json")),
}


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A plain manifest and a compressed one, made long by their texts, so that ranks share the reading."""
    folder = tmp_path_factory.mktemp("long")
    records = read_lines(MINI_CORPUS / "manifest.json")
    lines = [
        json.dumps(record | {"audio_filepath": str(MINI_CORPUS / record["audio_filepath"]), "text": "ab " * 110_000})
        for record in records
    ]
    (folder / "a.json").write_text("\n".join(lines[:30]) + "\n{oops\n")
    (folder / "b.json.gz").write_bytes(gzip.compress(("\n".join(lines[30:]) + "\n").encode(), 1))
    return f"{folder}/a.json,{folder}/b.json.gz"


@pytest.fixture(scope="module")
def undisturbed(manifests: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    found = {}
    for command, options in COMMANDS.items():
        done = prepcli(command, manifests, folder / command, *options)
        assert done.code == 0, done.err
        assert any((folder / f"{command}.prepcli").glob("index/*/plan-*/plan.json"))
        found[command] = tree(folder / command)
    return found


def start(command: str, manifests: str, out: Path, world_size: int, launch: str) -> list[Process]:
    ranks = [("--rank", rank, "--world-size", world_size, "--launch-id", launch) for rank in range(world_size)]
    return [start_prepcli(command, manifests, out, *COMMANDS[command], *rank) for rank in ranks]


CASES = [
    *(("manifest-to-tarred", 1, moment) for moment in ("reading", "planned")),
    *(("manifest-to-tarred", 2, moment) for moment in MOMENTS),
    *(("manifest-to-tarred", 5, moment) for moment in ("read", "at work")),
    *(("manifest-to-shar", 2, moment) for moment in ("reading", "at work")),
]


@pytest.mark.parametrize(("command", "world_size", "moment"), CASES)
def test_killed_ranks(
    command: str,
    world_size: int,
    moment: str,
    manifests: str,
    undisturbed: dict[str, dict[str, str]],
    tmp_path: Path,
    draw: random.Random,
) -> None:
    """One rank is killed: the others finish. If it was the only one, another number of ranks continues."""
    out = tmp_path / "out"
    root = tmp_path / "out.prepcli"
    ranks = start(command, manifests, out, world_size, "first")
    victim = ranks[draw.randrange(world_size)]
    end = time.monotonic() + HANG_SECONDS
    while not MOMENTS[moment](root) and victim.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.002)
    time.sleep(draw.random() / 50)
    victim.kill()
    for process in ranks:
        said = process.communicate(timeout=HANG_SECONDS)
        if process is not victim:
            assert process.returncode == 0, said
    if world_size > 1:
        assert prepcli("status", out, "--json").json["state"] == "finished"
    else:
        for process in start(command, manifests, out, 3, "second"):
            said = process.communicate(timeout=HANG_SECONDS)
            assert process.returncode == 0, said
    assert tree(out) == undisturbed[command]
    assert len(read_lines(root / "rejects.jsonl")) >= 1
    assert not list(root.glob("index/*/parts"))
