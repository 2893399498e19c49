"""A unit appears by one rename, with all that it has made, or not at all."""

import errno
import os
import stat
import time
from pathlib import Path

import msgspec
import pytest

from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.publishing.publish import (
    MANY_FILES,
    AccountingError,
    FinishWriter,
    Marker,
    UnitWriter,
    changing,
    forget,
    read_marker,
)
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.ranks.progress import SharedCounter
from prepcli.engine.run.unit import Execution
from prepcli.engine.state.plan import FINISH_UNIT, Unit
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import RecordRejected, RejectReason
from tests.engine.folder_runs import begun_workspace

UNIT = Unit("unit_000", 1.0, 2)
DIGEST = "0" * 64
MANY = MANY_FILES + 1


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return begun_workspace(tmp_path / "out")


def make(workspace: Workspace, text: bytes = b"text", records: int = 1) -> Marker:
    with UnitWriter(workspace, DIGEST, UNIT) as writer:
        writer.open("a/b.txt").write(text)
        writer.open_part("parts/c.txt").write(b"part")
        writer.add_after("a/b.idx", b"index")
        writer.count(records, 1.0)
        writer.reject(b"{}", RecordRejected(RejectReason.MISSING_AUDIO, "it is"), Origin("m.json", 1))
        return writer.publish()


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_all_that_a_unit_has_made_is_in_its_folder(workspace: Workspace) -> None:
    marker = make(workspace)
    files = ["files/a/b.idx", "files/a/b.txt", "parts/c.txt", "rejects/unit_000.jsonl", "unit.json"]
    assert below(workspace.unit_folder(UNIT.id)) == files
    assert below(workspace.folder) == below(workspace.tmp) == []
    assert read_marker(workspace, UNIT, DIGEST) == marker
    assert read_marker(workspace, UNIT, "1" * 64) is None


@pytest.mark.parametrize("num_files", [2, 40])
def test_what_describes_files_comes_after_them(workspace: Workspace, num_files: int) -> None:
    """In the order of the commit, and by their times; also where many files are flushed at once."""
    with UnitWriter(workspace, DIGEST, Unit(UNIT.id, 1.0, 0)) as writer:
        for number in range(num_files):
            file = writer.open(f"{number}.tar")
            writer.add_after(f"{number}.tar.idx", b"12345678")
            file.write(bytes(1000))
        marker = writer.publish()
    names = [f"{number}.tar" for number in range(num_files)]
    assert list(marker.files) == [*names, *(f"{name}.idx" for name in names)]
    folder = workspace.unit_folder(UNIT.id) / "files"
    for name in names:
        assert (folder / f"{name}.idx").stat().st_mtime_ns >= (folder / name).stat().st_mtime_ns
        assert marker.files[f"{name}.idx"].num_bytes == 8


def test_records_that_do_not_add_up_make_no_unit(workspace: Workspace) -> None:
    with pytest.raises(AccountingError, match="2 records in, but 2 out and 1 rejected"):
        make(workspace, records=2)
    assert below(workspace.run) == []


def test_of_two_that_make_a_unit_the_first_one_counts(workspace: Workspace) -> None:
    first = make(workspace)
    inode = workspace.marker_file(UNIT.id).stat().st_ino
    assert make(workspace) == first
    assert workspace.marker_file(UNIT.id).stat().st_ino == inode
    assert below(workspace.tmp) == []


@pytest.mark.parametrize("content", [None, b"", b"longer than it was"])
@pytest.mark.parametrize("name", ["files/a/b.txt", "parts/c.txt", "rejects/unit_000.jsonl"])
def test_a_unit_that_has_lost_a_file_is_replaced(workspace: Workspace, name: str, content: bytes | None) -> None:
    make(workspace)
    path = workspace.unit_folder(UNIT.id) / name
    path.unlink() if content is None else path.write_bytes(content)
    assert read_marker(workspace, UNIT, DIGEST) is None
    marker = make(workspace)
    assert read_marker(workspace, UNIT, DIGEST) == marker


def test_a_rename_that_fails_makes_no_unit(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename

    def refuse(source: Path, target: Path) -> None:
        if Path(target).parent.name == "units":
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="Input/output"):
        make(workspace)
    assert below(workspace.run) == []


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks into /proc")
def test_a_unit_that_is_given_up_leaves_nothing(workspace: Workspace) -> None:
    """Neither a file nor an open descriptor: a run may give up thousands of units."""
    before = set(os.listdir("/proc/self/fd"))
    writer = UnitWriter(workspace, DIGEST, UNIT)
    with pytest.raises(ZeroDivisionError), writer:
        writer.add("a/0.wav", b"whole")
        writer.open("shard.tar").write(b"half")
        writer.open_part("parts/list").write(b"1\n")
        assert len(os.listdir("/proc/self/fd")) > len(before)
        raise ZeroDivisionError
    assert set(os.listdir("/proc/self/fd")) == before
    assert not writer.folder.exists()
    assert not list(workspace.folder.rglob("*"))


def write_many(writer: UnitWriter) -> None:
    """Whole files of 1 to MANY bytes, and two files that are open longer."""
    for number in range(MANY):
        writer.add(f"a/{number}.wav", bytes(number + 1))
    writer.open("shard.tar").write(bytes(MANY + 1))
    writer.open_part("parts/list").write(bytes(MANY + 2))


@pytest.mark.parametrize("size", [1, MANY - 1, MANY, MANY + 1, MANY + 2])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_to_take_a_file_leaves_no_unit(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, size: int, number: int
) -> None:
    """Whichever file it is, and however late. A disk that fails in `fsync` cannot be had here."""
    flush = os.fsync

    def fail(file: int) -> None:
        if os.fstat(file).st_size == size and stat.S_ISREG(os.fstat(file).st_mode):
            time.sleep(0.1)
            raise OSError(number, os.strerror(number))
        flush(file)

    with UnitWriter(workspace, DIGEST, Unit(UNIT.id, 1.0, 0)) as writer:
        monkeypatch.setattr(os, "fsync", fail)
        write_many(writer)
        with pytest.raises(OSError, match=os.strerror(number)):
            writer.publish()
    assert below(workspace.run) == []


def test_everything_is_on_the_disk_before_the_unit_appears(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is written after a file's flush: a power failure must not take back what a document promises."""
    flushed: dict[int, int] = {}
    flush, rename = os.fsync, os.rename
    appeared = []

    def note_flush(file: int) -> None:
        if os.fstat(file).st_size == MANY:
            time.sleep(0.1)
        flush(file)
        flushed[os.fstat(file).st_ino] = os.fstat(file).st_size

    def check(source: Path, target: Path) -> None:
        if Path(target).parent == workspace.run / "units":
            appeared.append(target)
            for path in (Path(source), *Path(source).rglob("*")):
                assert flushed[path.stat().st_ino] == path.stat().st_size, path
        rename(source, target)

    monkeypatch.setattr(os, "rename", check)
    with UnitWriter(workspace, DIGEST, Unit(UNIT.id, 1.0, 0)) as writer:
        monkeypatch.setattr(os, "fsync", note_flush)
        write_many(writer)
        marker = writer.publish()
    assert appeared == [workspace.unit_folder(UNIT.id)]
    assert len(marker.files) + len(marker.work_files) == MANY + 2


def test_a_unit_is_left_until_it_is_done(workspace: Workspace) -> None:
    execution = Execution(workspace, DIGEST, 1, SharedCounter(), lambda: None)
    assert execution.is_left(UNIT)
    assert execution.claim(UNIT)
    make(workspace)
    assert not execution.claim(UNIT)
    forget(workspace, UNIT.id)
    assert execution.is_left(UNIT)
    assert below(workspace.run) == []


def test_the_merge_finds_what_units_have_made(workspace: Workspace) -> None:
    markers = [make(workspace)]
    with FinishWriter(workspace, DIGEST, markers) as writer:
        made = writer.made(UNIT.id, "a/b.txt")
        assert isinstance(made, Path)
        assert (made.read_bytes(), writer.part("parts/c.txt").read_bytes()) == (b"text", b"part")
        assert not writer.part("parts/unknown.txt").exists()
        writer.join("all.txt", ["parts/c.txt", "parts/c.txt"])
        writer.publish()
    made.rename(workspace.folder / "moved.txt")
    assert below(workspace.unit_folder(FINISH_UNIT.id)) == ["files/all.txt", "unit.json"]
    assert (workspace.unit_folder(FINISH_UNIT.id) / "files/all.txt").read_bytes() == b"partpart"
    assert FinishWriter(workspace, DIGEST, markers).made(UNIT.id, "a/b.txt") == workspace.folder / "a/b.txt"


def test_a_file_that_a_command_changes_is_ours_in_both_states(workspace: Workspace) -> None:
    marker = make(workspace)
    new = msgspec.structs.replace(marker.files["a/b.txt"], num_bytes=7)
    recorded: list[list[PublishedFile]] = []
    with changing(workspace, marker, {"a/b.txt": new}):
        during = read_document(workspace.marker_file(UNIT.id), Marker)
        assert during is not None
        recorded = [[during.files["a/b.txt"]], during.earlier["a/b.txt"]]
    assert recorded == [[new], [marker.files["a/b.txt"]]]
    after = read_document(workspace.marker_file(UNIT.id), Marker)
    assert after is not None
    assert (after.files["a/b.txt"], after.earlier) == (new, {})
