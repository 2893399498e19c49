"""A directory in the place of a file in OUT or OUT.prepcli: the message names it and what to do; nothing is lost."""

import shutil
from pathlib import Path

import pytest

from prepcli.engine.state.workspace import Workspace
from tests.conftest import SHORT_CORPUS, tree
from tests.engine.state_files import state_file
from tests.support.running import Outcome, prepcli

COMMAND = ("manifest-to-tarred", SHORT_CORPUS / "manifest.json")
OPTIONS = ("--num-shards", 2)
UNITS = ("units/shard_000001/unit.json", "units/finish/unit.json")
FILES = ("owner.json", "plan.json", "report.json", "rejects.jsonl", *UNITS)
WHAT_TO_DO = "is a directory, but a file belongs there; move it away, and run the same command again"


def command(out: Path, *more: object) -> Outcome:
    return prepcli(*COMMAND, out, *OPTIONS, *more)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    assert command(folder / "out").code == 0
    return folder / "out"


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "out")
    shutil.copytree(made.with_name("out.prepcli"), tmp_path / "out.prepcli")
    return tmp_path / "out"


@pytest.mark.parametrize("name", FILES)
def test_a_directory_where_a_record_of_the_run_belongs(made: Path, out: Path, name: str) -> None:
    path = state_file(out, name)
    path.unlink(missing_ok=True)
    (path / "inside").mkdir(parents=True)
    done = [prepcli(word, out) for word in ("status", "verify", "inspect")]
    done += [command(out), command(out, "--overwrite")]
    told = [outcome for outcome in done if outcome.code]
    assert len(told) >= 2 if name != "rejects.jsonl" else told  # nothing else reads that one
    for outcome in told:
        assert (outcome.code, outcome.error_line) == (2, f"prepcli: {path} {WHAT_TO_DO}")
    assert tree(out) == tree(made)
    path.rename(out.with_name("aside"))
    is_known = name not in (*UNITS, "owner.json")  # without this, nothing shows whose the files of a unit are
    assert command(out, *["--overwrite"] * is_known).code == 0
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


def test_a_file_where_a_directory_belongs(made: Path, out: Path) -> None:
    """The units are made again, in another folder."""
    folder = Workspace(out).run / "units"
    folder.rename(out.with_name("old"))
    folder.touch()
    assert (command(out).code, folder.exists()) == (0, False)
    assert tree(out) == tree(made)


def test_a_file_where_the_folder_of_the_state_belongs(tmp_path: Path) -> None:
    state = tmp_path / "out.prepcli"
    state.touch()
    done = prepcli(*COMMAND, tmp_path / "out", *OPTIONS)
    assert done.code == 2
    assert f"cannot write to {state}: it is a file; " in done.error_line
    state.unlink()
    assert prepcli(*COMMAND, tmp_path / "out", *OPTIONS).code == 0
