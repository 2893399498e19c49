"""What stands beside a data set may be damaged (a power failure): it counts as missing, and nothing is lost."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import tree
from tests.engine.state_files import state_file
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
FILES = (
    "owner.json",
    "plan.json",
    "report.json",
    "units/shard_000001/unit.json",
    "units/finish/unit.json",
    "progress/rank_00000.json",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set, beside its manifest."""
    folder = tmp_path_factory.mktemp("made")
    write_short_corpus(folder, 6).rename(folder / "m.json")
    assert prepcli(*command(folder / "tarred", folder / "tarred")).code == 0
    return folder / "tarred"


def command(made: Path, out: Path, num_shards: int = 3) -> tuple[object, ...]:
    return ("manifest-to-tarred", made.with_name("m.json"), out, "--num-shards", num_shards)


def copied(made: Path, folder: Path) -> Path:
    shutil.copytree(made, folder / "out")
    shutil.copytree(made.with_name(f"{made.name}.prepcli"), folder / "out.prepcli")
    return folder / "out"


@pytest.mark.slow
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_treated_as_missing(made: Path, tmp_path: Path, name: str, content: str) -> None:
    out = copied(made, tmp_path)
    state_file(out, name).write_bytes(CONTENTS[content])
    verified, inspected, status = (prepcli(word, out) for word in ("verify", "inspect", "status"))
    unfinished = name not in ("progress/rank_00000.json", "plan.json", "owner.json")
    assert (verified.code, status.code) == (int(unfinished), 2 if "plan" in name else 0)
    assert inspected.code == 0
    assert "bug" not in verified.err + inspected.err + status.err
    assert ("the run is not finished" in verified.out) == unfinished
    again = prepcli(*command(made, out))
    assert again.code == 0, again.err
    assert tree(out) == tree(made)
    assert prepcli("verify", out).code == 0
    assert prepcli("status", out, "--json").json["state"] == "finished"
    assert prepcli(*command(made, out)).out.startswith("manifest-to-tarred: nothing to do")


@pytest.mark.parametrize("name", FILES)
def test_the_damaged_file_is_named_once(made: Path, tmp_path: Path, name: str) -> None:
    out = copied(made, tmp_path)
    path = state_file(out, name)
    path.write_bytes(b"{}" if name != "owner.json" else b"[]")  # all that `owner.json` says has defaults
    done = prepcli_process("status" if "progress" in name else "inspect", out)
    if "finish" in name:
        done = prepcli_process(*command(made, out))
    assert done.err.startswith(f"note: {path} is damaged")
    assert done.err.count("is damaged") == 1


@pytest.mark.parametrize("name", ["plan.json", "owner.json"])
def test_a_damaged_plan_does_not_open_what_others_made(made: Path, tmp_path: Path, name: str) -> None:
    """Without the units of the same plan, nothing shows whose the output is."""
    out = copied(made, tmp_path)
    state_file(out, name).write_bytes(b"{}")
    done = prepcli(*command(made, out, 4))
    assert done.code == 2
    assert "hoose another " in done.err.splitlines()[-1]
    assert tree(out) == tree(made)


@pytest.mark.parametrize("content", ["", "{}", "[1]", "dataset_config: [1]", "dataset_config: {num_shards: many}"])
def test_damaged_metadata(made: Path, tmp_path: Path, content: str) -> None:
    out = Path(shutil.copytree(made, tmp_path / "out"))
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
