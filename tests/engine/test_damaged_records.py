"""What stands beside a data set may be damaged (a power failure): it counts as missing, and nothing is lost."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import tree
from tests.engine.state_files import COMMANDS, state_file
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
CASES = [(kind, name) for kind in COMMANDS for name in (*FILES, *["owner.json"] * (kind == "tarred"))]


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a manifest, and a set of each kind."""
    folder = tmp_path_factory.mktemp("made")
    write_short_corpus(folder, 6).rename(folder / "m.json")
    for kind in COMMANDS:
        assert prepcli(*command(kind, folder / kind, folder / "m.json")).code == 0
    return folder


@pytest.fixture
def made(every: Path) -> Path:
    return every / "tarred"


def command(kind: str, out: Path, manifest: Path, size: int | None = None) -> tuple[object, ...]:
    name, option = COMMANDS[kind]
    return (name, manifest, out, option, size or (3 if kind == "tarred" else 2))


def copied(made: Path, folder: Path) -> Path:
    shutil.copytree(made, folder / "out")
    shutil.copytree(made.with_name(f"{made.name}.prepcli"), folder / "out.prepcli")
    return folder / "out"


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [(*case, name) for case in CASES for name in (CONTENTS if case[0] == "tarred" else ["no fields"])],
)
def test_a_damaged_file_is_treated_as_missing(every: Path, tmp_path: Path, kind: str, name: str, content: str) -> None:
    out = copied(every / kind, tmp_path)
    state_file(out, name).write_bytes(CONTENTS[content])
    verified, inspected, status = (prepcli(word, out) for word in ("verify", "inspect", "status"))
    unfinished = name not in ("progress/rank_00000.json", "plan.json", "owner.json")
    assert (verified.code, status.code) == (int(unfinished), 2 if "plan" in name else 0)
    assert inspected.code == (2 if kind == "shar" and name in FILES[:3] else 0)
    assert "bug" not in verified.err + inspected.err + status.err
    assert ("the run is not finished" in verified.out) == unfinished
    again = prepcli(*command(kind, out, every / "m.json"))
    assert again.code == 0, again.err
    assert tree(out) == tree(every / kind)
    assert prepcli("verify", out).code == 0
    assert prepcli("status", out, "--json").json["state"] == "finished"
    assert prepcli(*command(kind, out, every / "m.json")).out.startswith(f"manifest-to-{kind}: nothing to do")


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_damaged_file_is_named_once(every: Path, tmp_path: Path, kind: str, name: str) -> None:
    out = copied(every / kind, tmp_path)
    path = state_file(out, name)
    path.write_bytes(b"{}" if name != "owner.json" else b"[]")  # all that `owner.json` says has defaults
    done = prepcli_process("status" if "progress" in name else "inspect", out)
    if "finish" in name:
        done = prepcli_process(*command(kind, out, every / "m.json"))
    assert done.err.startswith(f"note: {path} is damaged")
    assert done.err.count("is damaged") == 1


@pytest.mark.parametrize(("kind", "name"), [("shar", "plan.json"), ("tarred", "plan.json"), ("tarred", "owner.json")])
def test_a_damaged_plan_does_not_open_what_others_made(every: Path, tmp_path: Path, kind: str, name: str) -> None:
    """Without the units of the same plan, nothing shows whose the output is."""
    out = copied(every / kind, tmp_path)
    state_file(out, name).write_bytes(b"{}")
    done = prepcli(*command(kind, out, every / "m.json", 4))
    assert done.code == 2
    assert "hoose another " in done.err.splitlines()[-1]
    assert tree(out) == tree(every / kind)


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
