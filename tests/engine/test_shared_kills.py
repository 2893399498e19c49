"""Ranks are killed while they read the manifests together, between the stages, and at work: the bytes stay the same."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, tree
from tests.support.running import HANG_SECONDS, Process, prepcli, start_prepcli
from tests.support.sharing_ranks import KILL_AT, MOMENTS

pytestmark = pytest.mark.slow

COMMANDS: dict[str, tuple[object, ...]] = {
    "manifest-to-tarred": ("--num-shards", 8, "--shuffle"),
    "manifest-to-shar": ("--shard-size", 6, "--shuffle"),
    "manifest-to-wenet": ("--shard-size", 6, "--shuffle"),
    "manifest-to-parquet": ("--shard-size", 6),
    "manifest-to-mels": ("--devices", "cpu"),
    "extend-context-audio": ("--speaker-model", "toy", "--context-min-ssim", 0, "--context-min-duration", 1),
    "extend-codec-codes": ("--codec-model", "toy", "--pool-duration", 5),
}
"""Every command whose ranks share an index."""
COMMON = ("--num-workers", 1, "--max-rejects", 0.9)
UNPLANNED = ("extend-codec-codes", "planned")
"""Its units follow from the index so quickly that they are not kept."""
CASES = [
    *((command, 2, moment) for command in COMMANDS for moment in MOMENTS if (command, moment) != UNPLANNED),
    *((command, 1, MOMENTS[(number + 1) % len(MOMENTS)]) for number, command in enumerate(COMMANDS)),
    *(("manifest-to-tarred", 5, moment) for moment in ("reading", "at work")),
]


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A plain manifest and a compressed one, with a line that cannot be read and a missing file."""
    folder = tmp_path_factory.mktemp("manifests")
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")
    for record in records:
        for name in ("audio_filepath", "context_audio_filepath"):
            record[name] = str(MINI_CORPUS / record[name])
    records[20]["audio_filepath"] = "missing.wav"
    lines = [*map(json.dumps, records[:30]), "{oops", *map(json.dumps, records[30:])]
    (folder / "a.json").write_text("\n".join(lines[:32]) + "\n")
    (folder / "b.json.gz").write_bytes(gzip.compress(("\n".join(lines[32:]) + "\n").encode(), 1))
    return f"{folder}/a.json,{folder}/b.json.gz"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all runs are, one after the other: some outputs name their place."""
    return tmp_path_factory.mktemp("place")


def start(command: str, manifests: str, out: Path, *more: object, kill_at: str | None = None) -> Process:
    where = ["--output-dir", out] if command == "extend-codec-codes" else [out]
    environ = {} if kill_at is None else {KILL_AT: kill_at}
    arguments = (command, manifests, *where, *COMMANDS[command], *COMMON, *more)
    return start_prepcli(*arguments, module="tests.support.sharing_ranks", environ=environ)


def finish(process: Process) -> None:
    said = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, said


def is_finished(out: Path) -> bool:
    done = prepcli("status", out, "--json")
    return done.code == 0 and done.json["state"] == "finished"


def result(out: Path) -> dict[str, str]:
    rejects = next(out.with_name("out.prepcli").glob("**/rejects.jsonl"))
    return tree(out) | {"rejects": rejects.read_text()}


@pytest.fixture(scope="module")
def undisturbed(manifests: str, place: Path) -> dict[str, dict[str, str]]:
    found = {}
    for command in COMMANDS:
        finish(start(command, manifests, place / "out"))
        assert any(place.glob("out.prepcli/**/index/*/index.json"))
        found[command] = result(place / "out")
        assert len(found[command]["rejects"].splitlines()) >= 2
        clear(place)
    return found


def clear(place: Path) -> None:
    for folder in place.iterdir():
        shutil.rmtree(folder)


@pytest.mark.parametrize(("command", "world_size", "moment"), CASES)
def test_killed_ranks(
    command: str,
    world_size: int,
    moment: str,
    manifests: str,
    undisturbed: dict[str, dict[str, str]],
    place: Path,
) -> None:
    """The first rank is killed: the others go on. What nobody has done, two ranks do afterwards."""
    out = place / "out"

    def launch(name: str, number: int, kill_at: str | None) -> list[Process]:
        return [
            start(
                command,
                manifests,
                out,
                *("--rank", rank, "--world-size", number, "--launch-id", name),
                kill_at=None if rank else kill_at,
            )
            for rank in range(number)
        ]

    clear(place)
    victim, *others = launch("first", world_size, moment)
    for process in others:
        finish(process)
    victim.communicate(timeout=HANG_SECONDS)
    # With others, work may be over before the victim comes to where it dies.
    assert victim.returncode == -9 or (world_size > 1 and victim.returncode == 0)
    if not is_finished(out):
        for process in launch("second", 2, None):
            finish(process)
    assert is_finished(out)
    assert result(out) == undisturbed[command]
    assert not list(place.glob("out.prepcli/**/index/*/parts"))
