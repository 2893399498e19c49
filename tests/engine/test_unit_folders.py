"""A unit appears by one rename, with all that it has made, or not at all."""

import os
from pathlib import Path

import msgspec
import pytest

from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.publishing.publish import (
    AccountingError,
    FinishWriter,
    FolderExecution,
    FolderWriter,
    Marker,
    changing,
    forget,
    read_marker,
)
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.state.plan import FINISH_UNIT, Unit
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import RecordRejected, RejectReason

UNIT = Unit("unit_000", 1.0, 2)
DIGEST = "0" * 64


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    found = Workspace(tmp_path / "out")
    found.enter(found.root / "0123456789abcdef")
    found.prepare()
    return found


def make(workspace: Workspace, text: bytes = b"text", records: int = 1) -> Marker:
    with FolderWriter(workspace, DIGEST, UNIT) as writer:
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
    assert list(marker.files) == ["a/b.txt", "a/b.idx"]  # an index follows what it describes
    assert read_marker(workspace, UNIT, DIGEST) == marker
    assert read_marker(workspace, UNIT, "1" * 64) is None


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


def test_a_unit_that_has_lost_a_file_is_replaced(workspace: Workspace) -> None:
    make(workspace)
    (workspace.unit_folder(UNIT.id) / "files/a/b.txt").unlink()
    assert read_marker(workspace, UNIT, DIGEST) is None
    marker = make(workspace)
    assert read_marker(workspace, UNIT, DIGEST) == marker


def test_a_rename_that_fails_makes_no_unit(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename

    def refuse(source: object, target: object) -> None:
        if Path(str(target)).parent.name == "units":
            raise OSError(5, "Input/output error")
        rename(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="Input/output"):
        make(workspace)
    assert below(workspace.run) == []


def test_a_unit_is_left_until_it_is_done(workspace: Workspace) -> None:
    execution = FolderExecution(workspace, DIGEST, 1, None, lambda: None)  # type: ignore[arg-type]
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
        made = writer.made("a/b.txt")
        assert isinstance(made, Path)
        assert (made.read_bytes(), writer.part("parts/c.txt").read_bytes()) == (b"text", b"part")
        assert not writer.part("parts/unknown.txt").exists()
        writer.join("all.txt", ["parts/c.txt", "parts/c.txt"])
        writer.publish()
    made.rename(workspace.folder / "moved.txt")
    assert below(workspace.unit_folder(FINISH_UNIT.id)) == ["files/all.txt", "unit.json"]
    assert (workspace.unit_folder(FINISH_UNIT.id) / "files/all.txt").read_bytes() == b"partpart"
    assert FinishWriter(workspace, DIGEST, markers).made("a/b.txt") == workspace.folder / "a/b.txt"


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
