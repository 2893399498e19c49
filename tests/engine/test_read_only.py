"""What a run has left on a disk that is read-only now: it can be looked at, and a run there is refused in one line."""

import builtins
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHORT_CORPUS, tree
from tests.engine.state_files import state_file
from tests.support.running import prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"


@pytest.fixture
def make_read_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Everything that changes the disk below a folder fails as on a read-only file system, for root as well."""

    def refusing(real: Any, folder: Path, writes: Callable[..., bool] = lambda *_, **__: True) -> Any:
        def call(path: Any, *more: Any, **named: Any) -> Any:
            name = path if isinstance(path, str | os.PathLike) else ""
            if Path(os.path.abspath(name)).is_relative_to(folder) and writes(*more, **named):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return real(path, *more, **named)

        return call

    def opens_to_write(mode: str = "r", *_: Any, **__: Any) -> bool:
        return not set(mode).isdisjoint("wax+")

    def flags_to_write(flags: int = 0, *_: Any, **__: Any) -> bool:
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))

    def make(folder: Path) -> None:
        for name in ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link", "utime"):
            monkeypatch.setattr(os, name, refusing(getattr(os, name), folder))
        for module in (io, builtins):
            monkeypatch.setattr(module, "open", refusing(module.open, folder, opens_to_write))
        monkeypatch.setattr(os, "open", refusing(os.open, folder, flags_to_write))

    return make


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_set_can_be_looked_at(is_finished: bool, tmp_path: Path, make_read_only: Callable[[Path], None]) -> None:
    out = tmp_path / "disk/out"
    command = ("manifest-to-tarred", MANIFEST, out, "--num-shards", 2)
    assert prepcli(*command).code == 0
    if not is_finished:
        state_file(out, "units/shard_000001/unit.json").unlink()
    before = tree(tmp_path)
    make_read_only(tmp_path / "disk")
    status = prepcli("status", out)
    assert (status.code, status.err) == (0, "")
    assert f"units    {1 + is_finished} of 2 done" in status.out
    verified = prepcli("verify", out)
    assert (verified.code, verified.err) == (int(not is_finished), "")
    assert ("the run is not finished: 1 of 2 units" in verified.out) == (not is_finished)
    assert prepcli("inspect", out).code == 0
    again = prepcli(*command)
    assert (again.code, "nothing to do" in again.out) == ((0, True) if is_finished else (2, False))
    estimated = prepcli("estimate-bins", out, "-b", 2)
    assert (estimated.code, "1 of 2 units are done" in estimated.err) == ((0, False) if is_finished else (2, True))
    assert prepcli(*command, "--dry-run").code == 0
    overwriting = [(*command, "--overwrite")] if is_finished else []  # else no marker names the files in the way
    for words in (*overwriting, ("manifest-to-tarred", MANIFEST, tmp_path / "disk/new", "--num-shards", 2)):
        done = prepcli(*words)
        assert done.code == 2
        assert "Read-only file system; choose another output directory" in done.error_line
    assert tree(tmp_path) == before


@pytest.mark.parametrize("command", ["make-manifest", "fix-durations", "filter", "split", "convert-audio"])
def test_every_command_refuses_in_the_same_way(
    command: str, tmp_path: Path, make_read_only: Callable[[Path], None]
) -> None:
    """Before the work, also if it writes while it plans."""
    (tmp_path / "disk").mkdir()
    make_read_only(tmp_path / "disk")
    source = SHORT_CORPUS if command == "make-manifest" else MANIFEST
    out = tmp_path / "disk/out.json"
    done = prepcli(command, source, out, *(["--part", "a=0.5"] if command == "split" else []))
    assert (done.code, list((tmp_path / "disk").iterdir())) == (2, [])
    assert f"cannot write to {tmp_path}/disk" in done.error_line
    assert "Read-only file system; choose another output directory" in done.error_line


def test_indexes_of_a_set_are_written_elsewhere(tmp_path: Path, make_read_only: Callable[[Path], None]) -> None:
    out = tmp_path / "disk/out"
    assert prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 1, "--no-index").code == 0
    make_read_only(tmp_path / "disk")
    done = prepcli("index", out)
    assert done.code == 2
    assert "Read-only file system; --indexes-root DIR writes all indexes below another folder" in done.error_line
    assert f"cannot write to {out}" in done.error_line
    assert ".idx" not in done.error_line
    assert prepcli("index", out, "--indexes-root", tmp_path / "indexes").code == 0


def test_marks_of_a_set_name_no_draft(tmp_path: Path, make_read_only: Callable[[Path], None]) -> None:
    out = tmp_path / "disk/out"
    assert prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 1).code == 0
    make_read_only(tmp_path / "disk")
    done = prepcli("filter", out, "--skipme", "--drop", "duration > 0.2")
    assert (done.code, "~" in done.err) == (2, False), done.err
    assert f"cannot write to {out}.prepcli/skipme.json: Read-only file system" in done.err
