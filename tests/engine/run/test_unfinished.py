"""Data sets as inputs: what reads one of which a part is missing would end with exit code 0 and fewer records."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS
from tests.engine.state_files import state_file
from tests.support.running import prepcli

SIZES = {"tarred": "--num-shards", "shar": "--shard-size", "wenet": "--shard-size", "parquet": "--shard-size"}
READERS = {
    "convert-audio SET out": ("tarred", "shar", "wenet", "parquet"),
    "index SET": ("tarred", "shar", "wenet", "parquet"),
    "estimate-bins SET -b 2": ("tarred", "shar", "parquet"),
    "find-duplicates OTHER SET out.jsonl --by text --between": ("tarred", "wenet"),
    "blend a=SET out.yaml --no-check": ("tarred", "shar", "parquet"),
    "extend-text-context SET": ("shar",),
}
OTHER = MINI_CORPUS / "manifest_with_context.json"


def make(kind: str, out: Path, *words: object) -> None:
    number = 4 if kind == "tarred" else 12
    assert prepcli(f"manifest-to-{kind}", OTHER, out, SIZES[kind], number, *words).code == 0


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of four shards, of which one rank of two has made its own."""
    folder = tmp_path_factory.mktemp("halves")
    for kind in SIZES:
        make(kind, folder / kind, "--rank", 0, "--world-size", 2, "--no-steal")
    return folder


@pytest.mark.parametrize(("reader", "kind"), [(reader, kind) for reader in READERS for kind in READERS[reader]])
def test_a_set_that_is_not_finished_is_refused(reader: str, kind: str, halves: Path, tmp_path: Path) -> None:
    before = sorted(halves.rglob("*"))
    words = [str({"SET": halves / kind, "OTHER": OTHER}.get(word, word)) for word in reader.split()]
    words = [word.replace("=SET", f"={halves / kind}") for word in words]
    done = prepcli(*words, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    told = f"{halves / kind} is not finished: 2 of 4 units are done; continue with: cd "
    assert told in done.error_line
    assert f"prepcli manifest-to-{kind} {OTHER} {halves / kind}" in done.error_line
    assert sorted(halves.rglob("*")) == before


@pytest.mark.parametrize("kind", ["shar", "parquet"])
def test_a_set_that_lacks_files(kind: str, tmp_path: Path) -> None:
    source = tmp_path / "set"
    make(kind, source)
    gone = [path for path in source.rglob("*000001*") if path.is_file()]
    for path in gone:
        path.unlink()
    command = ("manifest-to-tarred", source, tmp_path / "out", "--num-shards", 2)
    done = prepcli(*command)
    assert (done.code, f"{source} lacks " in done.error_line) == (2, True)
    assert "; copy it again, or make it again: cd " in done.error_line
    shutil.rmtree(f"{source}.prepcli")
    done = prepcli(*command)
    assert (done.code, f"{source} lacks shard 1, and has shard 3; copy it again" in done.error_line) == (2, True)


@pytest.mark.parametrize("kind", ["tarred", "shar"])
def test_a_set_whose_units_are_done_again_is_not_finished(kind: str, tmp_path: Path) -> None:
    make(kind, tmp_path / "set")
    state_file(tmp_path / "set", "units/shard_000001/unit.json").unlink()
    done = prepcli("convert-audio", tmp_path / "set", tmp_path / "out")
    assert (done.code, "is not finished: 3 of 4 units are done" in done.error_line) == (2, True)


def test_a_set_without_its_indexes_is_complete(tmp_path: Path) -> None:
    make("shar", tmp_path / "set", "--audio-format", "wav", "--indexed")
    indexes = [path for path in (tmp_path / "set").rglob("*.idx") if path.is_file()]
    assert indexes
    for path in indexes:
        path.unlink()
    assert prepcli("convert-audio", tmp_path / "set", tmp_path / "out").code == 0
