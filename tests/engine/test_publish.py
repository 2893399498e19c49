import errno
import os
from pathlib import Path

import pytest

from prepcli.engine import publish
from prepcli.engine.plan import Unit
from prepcli.engine.publish import UnitWriter, read_marker
from prepcli.engine.workspace import Workspace

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
    assert [(place.out / name).read_bytes()[:1] for name in marker.files] == [b"\0", b"\1", b"\2"]


def test_a_disk_that_fails_to_take_a_file_leaves_no_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails in `fsync` cannot be had here."""
    place = workspace(tmp_path)

    def fail(path: Path) -> None:
        if path.name == "1.out":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(publish, "_flush", fail)
    with UnitWriter(place, "digest", UNIT) as writer:
        write(writer)
        with pytest.raises(OSError, match="Input/output error"):
            writer.publish()
    assert read_marker(place, UNIT, "digest") is None
    assert not list(place.out.rglob("*.wav"))
