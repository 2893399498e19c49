"""Which objects in a store count as ours, and which are removed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from xxhash import xxh3_128

from prepcli.engine.objects import NOTED, note, records_of_objects, remove_objects, retire
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.state.workspace import Workspace
from tests.engine.folder_store import Stored, stored


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Stored]:
    with stored(tmp_path) as found:
        found.run()
        yield found


def record(data: bytes) -> PublishedFile:
    """The record of an object before its ETag is known."""
    return PublishedFile(len(data), xxh3_128(data).hexdigest())


def prepared(runs: Stored) -> Workspace:
    """The workspace of the finished run, with the folder for drafts."""
    workspace = runs.workspace()
    workspace.prepare()
    return workspace


def notes(workspace: Workspace) -> list[str]:
    return sorted(path.name.split("~")[0] for path in (workspace.root / NOTED).iterdir())


def test_documents_and_notes_name_our_objects(runs: Stored) -> None:
    workspace = prepared(runs)
    assert records_of_objects(workspace).keys() == runs.objects().keys()
    note(workspace, "unit_007", {"unit_007.txt": record(b"late")})
    assert records_of_objects(workspace).keys() == {*runs.objects(), "unit_007.txt"}
    assert records_of_objects(workspace, "unit_007").keys() == {"unit_007.txt"}
    assert records_of_objects(workspace, "unit_003").keys() == {"unit_003.txt", "list/unit_003.txt"}


def test_a_unit_that_is_taken_back_is_still_named(runs: Stored) -> None:
    workspace = prepared(runs)
    retire(workspace, "unit_003")
    retire(workspace, "unit_099")  # there is none
    assert notes(workspace) == ["unit_003"]
    (workspace.run / "units/unit_003/unit.json").unlink()
    assert records_of_objects(workspace).keys() == runs.objects().keys()


def test_objects_are_removed_if_they_are_as_recorded_and_not_kept(runs: Stored) -> None:
    workspace, before = prepared(runs), runs.objects()
    runs.put("unit_001.txt", b"changed")
    runs.put("unit_008.txt", b"noted")
    runs.put("unit_009.txt", b"of others")
    note(workspace, "unit_008", {"unit_008.txt": record(b"noted")})
    retire(workspace, "unit_002")
    remove_objects(workspace, {"unit_002.txt", "all.txt"}, ["unit_009.txt"])
    expected = {"unit_001.txt": b"changed", "unit_002.txt": before["unit_002.txt"], "all.txt": before["all.txt"]}
    assert runs.objects() == expected
    assert notes(workspace) == ["unit_008"], "its process is alive, and may complete an upload"


def test_the_content_decides_if_only_the_etag_differs(runs: Stored) -> None:
    data = runs.objects()["unit_001.txt"]
    runs.store.salt = b"salt"
    runs.put("unit_001.txt", data)
    remove_objects(prepared(runs), ())
    assert runs.objects() == {}
