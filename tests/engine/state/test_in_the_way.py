"""A directory in the place of a file in OUT or OUT.prepcli: the message names it and what to do; nothing is lost."""

import shutil
from pathlib import Path

import pytest

from prepcli.engine.state.workspace import Workspace
from tests.conftest import SHORT_CORPUS, tree
from tests.engine.state_files import COMMANDS, state_file
from tests.support.running import Outcome, prepcli

COMMAND = ("manifest-to-tarred", SHORT_CORPUS / "manifest.json")
OPTIONS = ("--num-shards", 2)
FILES = ("plan.json", "report.json", "rejects.jsonl", "done/shard_000001.json", "done/finish.json")
CASES = [(kind, name) for kind in COMMANDS for name in (*FILES, *["owner.json"] * (kind == "tarred"))]
WHAT_TO_DO = "is a directory, but a file belongs there; move it away, and run the same command again"


def command(kind: str, out: Path, *more: object) -> Outcome:
    name, option = COMMANDS[kind]
    return prepcli(name, SHORT_CORPUS / "manifest.json", out, option, 2 if kind == "tarred" else 24, *more)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a set of each kind."""
    folder = tmp_path_factory.mktemp("made")
    for kind in COMMANDS:
        assert command(kind, folder / kind).code == 0
    return folder


@pytest.fixture
def made(every: Path) -> Path:
    return every / "tarred"


def copied(made: Path, folder: Path) -> Path:
    shutil.copytree(made, folder / "out")
    shutil.copytree(made.with_name(f"{made.name}.prepcli"), folder / "out.prepcli")
    return folder / "out"


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return copied(made, tmp_path)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_directory_where_a_record_of_the_run_belongs(every: Path, tmp_path: Path, kind: str, name: str) -> None:
    made, out = every / kind, copied(every / kind, tmp_path)
    path = state_file(out, name)
    path.unlink(missing_ok=True)
    (path / "inside").mkdir(parents=True)
    done = [prepcli(word, out) for word in ("status", "verify", "inspect")]
    done.append(command(kind, out))
    if "done/" not in name or kind == "tarred":  # a folder that --overwrite removes as a whole
        done.append(command(kind, out, "--overwrite"))
    told = [one for one in done if one.code]
    assert len(told) >= 2 if name != "rejects.jsonl" else told  # nothing else reads that one
    for one in told:
        assert (one.code, one.error_line) == (2, f"prepcli: {path} {WHAT_TO_DO}")
    assert tree(out) == tree(made)
    path.rename(out.with_name("aside"))
    is_known = "done/" not in name and name != "owner.json"  # without this, nothing shows whose the files of a unit are
    assert command(kind, out, *["--overwrite"] * is_known).code == 0
    assert tree(out) == tree(made)


def test_it_is_found_before_the_work(tmp_path: Path) -> None:
    """A directory where the list of rejects will be, which only the end of a run writes."""
    path = tmp_path / "out.prepcli/rejects.jsonl"
    path.mkdir(parents=True)
    done = prepcli(*COMMAND, tmp_path / "out", *OPTIONS)
    assert (done.code, done.error_line) == (
        2,
        f"prepcli: {path} {WHAT_TO_DO}",
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["audio_1.tar", "tarred_audio_manifest.json"])
def test_a_directory_where_an_output_belongs(made: Path, out: Path, name: str) -> None:
    (out / name).unlink()
    (out / name / "inside").mkdir(parents=True)
    done = prepcli(*COMMAND, out, *OPTIONS)
    assert done.code == 2
    assert f"{out / name} is a directory" in done.error_line
    (out / name).rename(out.with_name("aside"))
    assert prepcli(*COMMAND, out, *OPTIONS).code == 0
    assert tree(out) == tree(made)


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_file_where_a_directory_belongs(every: Path, tmp_path: Path, kind: str) -> None:
    made, out = every / kind, copied(every / kind, tmp_path)
    folder = Workspace(out).run / ("units" if kind == "tarred" else "done")
    folder.rename(out.with_name("old"))
    folder.touch()
    done = command(kind, out)
    if kind == "shar":
        assert done.code == 2
        assert f"cannot write to {folder}: it is a file; move it away, and run" in done.error_line
        folder.unlink()
        assert command(kind, out).code == 0
    else:  # the units are made again, in another folder
        assert (done.code, done.err) == (0, "")
        assert not folder.exists()
    assert tree(out) == tree(made)


def test_a_file_where_the_folder_of_the_state_belongs(tmp_path: Path) -> None:
    state = tmp_path / "out.prepcli"
    state.touch()
    done = prepcli(*COMMAND, tmp_path / "out", *OPTIONS)
    assert done.code == 2
    assert f"cannot write to {state}: it is a file; " in done.error_line
    state.unlink()
    assert prepcli(*COMMAND, tmp_path / "out", *OPTIONS).code == 0
