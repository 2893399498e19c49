"""What stands beside a data set may be damaged (a power failure): it counts as missing, and nothing is lost."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import tree
from tests.support.audio_files import write_short_corpus
from tests.support.running import prepcli, prepcli_process

CONTENTS = {
    "empty": b"",
    "zeros": b"\0" * 512,
    "no fields": b"{}",
    "a list": b"[1]",
    "a null": b"null",
    "not UTF-8": b'{"unit": "\xff"}',
    "deep": b"[" * 100_000,
}
FILES = ("plan.json", "report.json", "done/shard_000001.json", "done/finish.json", "progress/rank_00000.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_short_corpus(folder, 6).rename(folder / "m.json")
    assert prepcli(*tarred(folder / "out", folder / "m.json")).code == 0
    return folder / "out"


def tarred(out: Path, manifest: Path, num_shards: int = 3) -> tuple[object, ...]:
    return ("manifest-to-tarred", manifest, out, "--num-shards", num_shards)


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_treated_as_missing(made: Path, tmp_path: Path, name: str, content: bytes) -> None:
    out, work = tmp_path / "out", tmp_path / "out.prepcli"
    shutil.copytree(made, out)
    shutil.copytree(made.with_name("out.prepcli"), work)
    (work / name).write_bytes(content)
    verified, inspected, status = (prepcli(command, out) for command in ("verify", "inspect", "status"))
    unfinished = "progress" not in name and "plan" not in name
    assert (verified.code, inspected.code, status.code) == (int(unfinished), 0, 2 if "plan" in name else 0)
    assert "bug" not in verified.err + inspected.err + status.err
    assert ("the run is not finished" in verified.out) == unfinished
    again = prepcli(*tarred(out, made.with_name("m.json")))
    assert again.code == 0, again.err
    assert tree(out) == tree(made)
    assert prepcli("verify", out).code == 0
    assert prepcli("status", out, "--json").json["state"] == "finished"


@pytest.mark.parametrize("name", FILES)
def test_the_damaged_file_is_named_once(made: Path, tmp_path: Path, name: str) -> None:
    out, work = tmp_path / "out", tmp_path / "out.prepcli"
    shutil.copytree(made, out)
    shutil.copytree(made.with_name("out.prepcli"), work)
    (work / name).write_bytes(b"{}")
    done = prepcli_process("status" if "progress" in name else "inspect", out)
    if "finish" in name:
        done = prepcli_process(*tarred(out, made.with_name("m.json")))
    assert done.error_line.startswith(f"note: {work / name} is damaged")


def test_a_damaged_plan_does_not_open_what_others_made(made: Path, tmp_path: Path) -> None:
    """Without markers of the same plan nobody knows whose the output is."""
    out, work = tmp_path / "out", tmp_path / "out.prepcli"
    shutil.copytree(made, out)
    shutil.copytree(made.with_name("out.prepcli"), work)
    (work / "plan.json").write_bytes(b"{}")
    done = prepcli(*tarred(out, made.with_name("m.json"), 4))
    assert done.code == 2
    assert "choose another directory" in done.err.splitlines()[-1]
    assert tree(out) == tree(made)


@pytest.mark.parametrize("content", ["", "{}", "[1]", "dataset_config: [1]", "dataset_config: {num_shards: many}"])
def test_damaged_metadata(made: Path, tmp_path: Path, content: str) -> None:
    out = tmp_path / "out"
    shutil.copytree(made, out)
    (out / "metadata.yaml").write_text(content)
    verified, inspected = prepcli("verify", out), prepcli("inspect", out)
    added = prepcli("manifest-to-tarred", made.with_name("m.json"), "--concat-to", out)
    assert inspected.code == 0, inspected.err
    if content == "{}":  # of a set that NeMo's script made long ago, maybe
        assert (verified.code, added.code) == (0, 2)
    else:
        assert (verified.code, added.code) == (1, 2)
        assert "PROBLEM  metadata.yaml" in verified.out
        assert "does not hold the metadata" in added.error_line
        assert "does not hold the metadata" in inspected.out
    assert "bug" not in verified.err + added.err
