import errno
import os
import stat
import time
from pathlib import Path

import pytest

from prepcli.engine.publishing import output_files
from prepcli.engine.publishing.publish import MANY_FILES, UnitWriter, read_marker
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace

UNIT = Unit("u", 1.0, 3)


def workspace(folder: Path) -> Workspace:
    made = Workspace(folder / "out")
    made.prepare()
    return made


def write(writer: UnitWriter) -> None:
    for number in range(3):
        writer.add(f"a/{number}.wav", bytes([number]) * 100)
        writer.count(1, 0.5)


def test_whole_files_are_published_in_folders_that_are_made(tmp_path: Path) -> None:
    place = workspace(tmp_path)
    with UnitWriter(place, "digest", UNIT) as writer:
        write(writer)
        marker = writer.publish()
    assert read_marker(place, UNIT, "digest") == marker
    assert read_marker(place, UNIT, "of another plan") is None
    assert [(place.out / name).read_bytes()[:1] for name in marker.files] == [b"\0", b"\1", b"\2"]


@pytest.mark.parametrize("content", [None, b"", b"longer than it was"])
@pytest.mark.parametrize("name", ["out/a/1.wav", "out.prepcli/parts/list"])
def test_a_file_that_is_lost_or_torn_makes_the_unit_missing(tmp_path: Path, name: str, content: bytes | None) -> None:
    place = workspace(tmp_path)
    with UnitWriter(place, "digest", UNIT) as writer:
        write(writer)
        writer.open_part("parts/list").write(b"1\n")
        writer.publish()
    assert read_marker(place, UNIT, "digest") is not None
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    assert read_marker(place, UNIT, "digest") is None


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks into /proc")
def test_a_unit_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    """Neither a file nor an open descriptor: a run may give up thousands of units."""
    place = workspace(tmp_path)
    before = set(os.listdir("/proc/self/fd"))
    writer = UnitWriter(place, "digest", UNIT)
    with pytest.raises(ZeroDivisionError), writer:
        write(writer)
        writer.open("shard.tar").write(b"half")
        writer.open_part("parts/list").write(b"1\n")
        assert len(os.listdir("/proc/self/fd")) > len(before)
        raise ZeroDivisionError
    assert set(os.listdir("/proc/self/fd")) == before
    assert not writer.folder.exists()
    assert not list(place.folder.rglob("*"))


MANY = MANY_FILES + 1


def write_many(writer: UnitWriter) -> None:
    """Whole files of 1 to MANY bytes, and two files that are open longer."""
    for number in range(MANY):
        writer.add(f"a/{number}.wav", bytes(number + 1))
    writer.open("shard.tar").write(bytes(MANY + 1))
    writer.open_part("parts/list").write(bytes(MANY + 2))


@pytest.mark.parametrize("size", [1, MANY - 1, MANY, MANY + 1, MANY + 2])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_to_take_a_file_leaves_no_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, number: int
) -> None:
    """Whichever file it is, and however late. A disk that fails in `fsync` cannot be had here."""
    place = workspace(tmp_path)
    flush = os.fsync

    def fail(file: int) -> None:
        if os.fstat(file).st_size == size:
            time.sleep(0.1)
            raise OSError(number, os.strerror(number))
        flush(file)

    with UnitWriter(place, "digest", Unit("u", 1.0, 0)) as writer:
        monkeypatch.setattr(os, "fsync", fail)
        write_many(writer)
        with pytest.raises(OSError, match=os.strerror(number)):
            writer.publish()
    assert not [*place.done.iterdir(), *place.out.iterdir(), *place.tmp.iterdir()]


def test_every_file_is_on_the_disk_before_the_first_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is written after a file's flush: a power failure must not take back what a marker promises."""
    place = workspace(tmp_path)
    flushed: dict[int, int] = {}
    flush, move = os.fsync, output_files._move

    def note_flush(file: int) -> None:
        if os.fstat(file).st_size == MANY:
            time.sleep(0.1)
        flush(file)
        if stat.S_ISREG(os.fstat(file).st_mode):  # folders are flushed as well
            flushed[os.fstat(file).st_ino] = os.fstat(file).st_size

    def check(source: Path, target: Path) -> None:
        (note,) = place.owned.iterdir()
        assert sorted(flushed.values()) == [*range(1, MANY + 3), note.stat().st_size]
        assert flushed[source.stat().st_ino] == source.stat().st_size
        assert not list(place.done.iterdir())
        move(source, target)

    monkeypatch.setattr(output_files, "_move", check)
    with UnitWriter(place, "digest", Unit("u", 1.0, 0)) as writer:
        monkeypatch.setattr(os, "fsync", note_flush)
        write_many(writer)
        marker = writer.publish()
    assert len(marker.files) + len(marker.work_files) == MANY + 2


@pytest.mark.parametrize("num_files", [2, 40])
def test_what_describes_files_comes_after_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_files: int) -> None:
    """In the order of the renames, and by their times; also where many files are flushed at once."""
    place = workspace(tmp_path)
    moved: list[str] = []
    move = output_files._move

    def note(source: Path, target: Path) -> None:
        moved.append(target.name)
        move(source, target)

    monkeypatch.setattr(output_files, "_move", note)
    with UnitWriter(place, "digest", Unit("u", 1.0, 0)) as writer:
        for number in range(num_files):
            file = writer.open(f"{number}.tar")
            writer.add_after(f"{number}.tar.idx", b"12345678")
            file.write(bytes(1000))
        marker = writer.publish()
    names = [f"{number}.tar" for number in range(num_files)]
    assert moved == [*names, *(f"{name}.idx" for name in names)] == list(marker.files)
    for name in names:
        data, index = place.out / name, place.out / f"{name}.idx"
        assert index.stat().st_mtime_ns >= data.stat().st_mtime_ns
        assert marker.files[f"{name}.idx"].num_bytes == 8


@pytest.mark.parametrize("moves", range(4))
def test_no_index_of_earlier_data_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
    """A unit that is done again, and stopped after so many renames: no file is described by another one's index."""
    place = workspace(tmp_path)
    move = output_files._move
    left = 4

    def fail(source: Path, target: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))
        move(source, target)

    monkeypatch.setattr(output_files, "_move", fail)
    for content in (b"old", b"new"):
        with UnitWriter(place, "digest", Unit("u", 1.0, 0)) as writer:
            for name in ("a", "b"):
                writer.open(name).write(content)
                writer.add_after(f"{name}.idx", b"of " + content)
            if content == b"old":
                writer.publish()
            else:
                with pytest.raises(OSError, match="Input/output error"):
                    writer.publish()
        left = moves
    for name in ("a", "b"):
        index = place.out / f"{name}.idx"
        assert not index.exists() or index.read_bytes() == b"of " + (place.out / name).read_bytes()
