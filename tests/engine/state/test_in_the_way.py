"""A directory in the place of a file in OUT or OUT.prepcli: the message names it and what to do; nothing is lost."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS, tree
from tests.support.running import prepcli

COMMAND = ("manifest-to-tarred", SHORT_CORPUS / "manifest.json")
OPTIONS = ("--num-shards", 2)
FILES = ("plan.json", "report.json", "rejects.jsonl", "done/shard_000001.json", "done/finish.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "out"
    assert prepcli(*COMMAND, out, *OPTIONS).code == 0
    return out


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "out"
    shutil.copytree(made, copy)
    shutil.copytree(made.with_name("out.prepcli"), copy.with_name("out.prepcli"))
    return copy


@pytest.mark.parametrize("name", FILES)
def test_a_directory_where_a_record_of_the_run_belongs(made: Path, out: Path, name: str) -> None:
    path = out.with_name("out.prepcli") / name
    path.unlink(missing_ok=True)
    (path / "inside").mkdir(parents=True)
    done = [prepcli(command, out) for command in ("status", "verify", "inspect")]
    done.append(prepcli(*COMMAND, out, *OPTIONS))
    if "done/" not in name:  # a folder that --overwrite removes as a whole
        done.append(prepcli(*COMMAND, out, *OPTIONS, "--overwrite"))
    told = [one for one in done if one.code]
    assert len(told) >= 2 if name != "rejects.jsonl" else len(told) == 2  # nobody else reads that one
    for one in told:
        assert one.code == 2
        assert one.error_line == (
            f"prepcli: {path} is a directory, but a file belongs there; move it away, and run the same command again"
        )
    assert tree(out) == tree(made)
    path.rename(out.with_name("aside"))
    is_known = "done/" not in name  # without its marker, nobody knows whose the files of a unit are
    assert prepcli(*COMMAND, out, *OPTIONS, *["--overwrite"] * is_known).code == 0
    assert tree(out) == tree(made)


def test_it_is_found_before_the_work(tmp_path: Path) -> None:
    """A directory where the list of rejects will be, which only the end of a run writes."""
    path = tmp_path / "out.prepcli/rejects.jsonl"
    path.mkdir(parents=True)
    done = prepcli(*COMMAND, tmp_path / "out", *OPTIONS)
    assert (done.code, done.error_line) == (
        2,
        f"prepcli: {path} is a directory, but a file belongs there; move it away, and run the same command again",
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
    folder = out.with_name("out.prepcli") / "done"
    folder.rename(out.with_name("old_done"))
    folder.touch()
    done = prepcli(*COMMAND, out, *OPTIONS)
    assert done.code == 2
    assert f"cannot write to {folder}: it is a file; move it away, and run" in done.error_line
    folder.unlink()
    assert prepcli(*COMMAND, out, *OPTIONS).code == 0
    assert tree(out) == tree(made)
