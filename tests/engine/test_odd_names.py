"""Odd names: folders in OUT.prepcli that are not of a run, directories without a name, links to themselves."""

import os
from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS
from tests.support.running import prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"


def test_folders_that_are_not_of_a_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("manifest-to-tarred", MANIFEST, out, "--num-shards", 2)
    assert prepcli(*command).code == 0
    for name in ("version_", "version_old", "version_1.bak", "version_٣", "version_" + 30 * "9"):
        (tmp_path / "out.prepcli" / name).mkdir()
    for name in ("status", "verify", "inspect"):
        done = prepcli(name, out)
        assert done.code == 0, done.err
    assert prepcli(*command, "--overwrite").code == 0  # no shards were added
    made = prepcli("blend", f"a={out}", tmp_path / "blend.yaml")
    assert made.code == 0, made.err


@pytest.mark.parametrize("name", [".", "/"])
def test_directories_without_a_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "/":
        monkeypatch.setattr(os, "walk", lambda *_: iter(()))  # inspect would list all files of the machine
    for command in ("status", "inspect", "verify"):
        done = prepcli(command, name)
        assert done.code == 2, done.err
        assert "bug" not in done.err


def test_the_directory_of_a_run_from_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepcli("manifest-to-tarred", MANIFEST, tmp_path / "out", "--num-shards", 2).code == 0
    monkeypatch.chdir(tmp_path / "out")
    done = [prepcli(command, ".") for command in ("status", "verify", "inspect")]
    assert [one.code for one in done] == [0, 0, 0]
    assert "units    2 of 2 done" in done[0].out


def test_links_that_lead_to_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("self").symlink_to("self")
    commands = (
        *(("status", "self"), ("verify", "self"), ("inspect", "self"), ("estimate-bins", "self", "-b", 2)),
        *(("manifest-to-tarred", "self", "out", "--num-shards", 2), ("make-manifest", "self", "m.json")),
        *(("manifest-to-tarred", MANIFEST, "self", "--num-shards", 2), ("verify", "self/out"), ("inspect", "self/out")),
    )
    for command in commands:
        done = prepcli(*command)
        assert done.code == 2, (command, done)
        assert "self" in done.error_line
    assert [path.name for path in tmp_path.iterdir()] == ["self"]


@pytest.mark.parametrize("command", ["status", "manifest-to-tarred"])
def test_below_such_a_link(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("self").symlink_to("self")
    done = prepcli(
        command,
        *([] if command == "status" else [MANIFEST]),
        "self/out",
        *(["--num-shards", 2] * (command != "status")),
    )
    assert done.code == 2
    assert "Too many levels of symbolic links" in done.error_line
    assert "bug" not in done.err
