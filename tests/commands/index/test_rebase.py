"""Indexes of a set that was moved: renamed, refused, and repaired after a kill."""

import os
import shutil
from pathlib import Path

import pytest

from prepcli.engine.state.workspace import Workspace
from prepcli.formats.indexes import mirrored
from tests.commands.index.conftest import CONTEXT
from tests.commands.index.test_command import index, indexes_in, pasted
from tests.conftest import copy_set
from tests.support.running import prepcli


def test_a_set_that_was_moved(sets: Path, tmp_path: Path) -> None:
    """The mirror is renamed, also to a place below the old one, and the state of the run with it."""
    before = sorted(indexes_in(sets / "shar").values())
    where = copy_set(sets / "shar", tmp_path / "first", records=True)
    moved = index(where, "--check")
    assert moved.code == 1
    assert f"has the indexes of {sets}/shar; if the set was moved: prepcli index --rebase {where}" in moved.out
    checked = prepcli("verify", where)
    assert checked.code == 0
    assert f"after a move: prepcli index --rebase {where}" in checked.out
    planned = index(where, "--rebase", "--dry-run", "--json").json
    assert (planned["renamed"], planned["notes"]) == (len(before), [f"the indexes were those of {sets}/shar"])
    assert index(where, "--check").code == 1
    done = index(where, "--rebase")
    assert (done.code, f"the indexes were those of {sets}/shar" in done.out) == (0, True), done
    assert pasted(done)["indexes_root"] == f"{where}/index"
    for place in (tmp_path / "first/shar/data/shar", tmp_path / "codes_up", tmp_path / "codes_a/codes_b"):
        other = tmp_path / "other"
        for suffix in ("", ".prepcli"):
            os.rename(where.with_name(where.name + suffix), other.with_name(other.name + suffix))
        place.parent.mkdir(parents=True, exist_ok=True)
        for suffix in ("", ".prepcli"):
            os.rename(other.with_name(other.name + suffix), place.with_name(place.name + suffix))
        where = place
        assert index(where, "--rebase").code == 0
        assert index(where, "--check").code == 0
        assert sorted(indexes_in(where).values()) == before
        assert all(name.startswith(f"index{where}/") for name in indexes_in(where))
        assert all(any(path.iterdir()) for path in (where / "index").rglob("*") if path.is_dir())
        assert prepcli("verify", where).code == 0
        assert "nothing to do" in index(where, "--rebase").out
    again = prepcli("manifest-to-shar", CONTEXT, where, "--shard-size", 20, "--indexed", "--audio-format", "wav")
    assert (again.code, "nothing to do" in again.out) == (0, True), again


def test_indexes_that_an_earlier_rebase_has_misplaced(sets: Path, tmp_path: Path) -> None:
    """Those of a set with a name like a folder of codes went one folder too deep."""
    where = copy_set(sets / "shar", tmp_path).rename(tmp_path / "codes_train")
    assert index(where, "--rebase").code == 0
    own = where / "index" / str(where)[1:]
    own.rename(where / "aside")
    (own / where.name).parent.mkdir(parents=True)
    (where / "aside").rename(own / where.name)
    assert index(where, "--check").code == 1
    assert index(where, "--rebase").code == 0
    assert index(where, "--check").code == 0
    assert not (own / where.name).exists()


@pytest.mark.parametrize("moment", ["aside", "half moved in", "records"])
def test_a_rebase_that_was_killed(sets: Path, tmp_path: Path, moment: str) -> None:
    where = copy_set(sets / "shar", tmp_path, records=True)
    mirror = where / "index"
    old = mirror / str(sets / "shar")[1:]
    if moment == "records":
        done_files = {path: path.read_bytes() for path in Workspace(where).marker_files()}
        assert index(where, "--rebase").code == 0
        for path, content in done_files.items():
            path.write_bytes(content)
    else:
        os.rename(old, mirror / ".moving")
        if moment == "half moved in":
            target = mirror / str(where)[1:]
            target.mkdir(parents=True)
            os.rename(mirror / ".moving/cuts", target / "cuts")
    assert index(where, "--rebase").code == 0
    assert index(where, "--check").code == 0
    assert not (mirror / ".moving").exists()
    assert sorted(indexes_in(where).values()) == sorted(indexes_in(sets / "shar").values())
    checked = prepcli("verify", where)
    assert checked.code == 0, checked.out


def flat_set(sets: Path, folder: Path) -> Path:
    """A flat Shar, as lhotse writes it; its mirror lies beside it."""
    folder.mkdir()
    for number in range(2):
        shutil.copy(sets / f"shar/cuts/cuts.{number:06d}.jsonl", folder)
        shutil.copy(sets / f"shar/target_audio/recording.{number:06d}.tar", folder)
    assert index(folder).code == 0
    return folder


def test_a_flat_set_that_was_moved(sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = flat_set(sets, tmp_path / "flat")
    mirror, before = tmp_path / "flat.index", indexes_in(tmp_path / "flat.index")
    assert "nothing to do" in index(flat, "--rebase").out
    assert indexes_in(mirror) == before

    where = tmp_path / "moved/new"
    where.parent.mkdir()
    flat.rename(where)
    alone = index(where, "--rebase")
    assert (alone.code, f"no indexes in {where}.index to rename; move that folder" in alone.error_line) == (2, True)
    mirror.rename(tmp_path / "moved/new.index")
    assert f"has the indexes of {flat}; if the set was moved" in index(where, "--check").out
    assert index(where, "--rebase", "--json").json["renamed"] == 4
    monkeypatch.chdir(where)
    assert index(".", "--check").code == 0
    moved = indexes_in(tmp_path / "moved/new.index")
    assert sorted(moved) == sorted(mirrored(path) for path in where.iterdir())
    assert sorted(moved.values()) == sorted(before.values())


def test_what_cannot_be_rebased(sets: Path, tmp_path: Path) -> None:
    where = copy_set(sets / "shar", tmp_path)
    refused = index(sets / "tarred", "--rebase")
    assert (refused.code, "--rebase takes folders of Shar sets" in refused.error_line) == (2, True)
    tar = where / "target_audio/recording.000001.tar"
    tar.write_bytes(tar.read_bytes() + bytes(512))
    other = index(where, "--rebase")
    assert (other.code, "which has another size" in other.error_line) == (2, True)
    shutil.rmtree(where / "index")
    none = index(where, "--rebase")
    assert (none.code, "has no indexes in index/ to rename" in none.error_line) == (2, True)
