"""Units whose files are objects: which objects they replace, and what happens if another process was faster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from prepcli.engine.object_writers import ObjectWriter
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.state.plan import Unit
from prepcli.errors import PrepcliError
from tests.engine.folder_store import Stored, stored


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Stored]:
    with stored(tmp_path) as found:
        found.run()
        yield found


def write(runs: Stored, unit: str, **files: bytes) -> Marker:
    """Write a unit of the finished run, with these files."""
    workspace = runs.workspace()
    workspace.prepare()
    workspace.writes = True
    with ObjectWriter(workspace, "digest", Unit(unit, 1.0, 0)) as writer:
        for name, data in files.items():
            writer.open(f"{name}.txt").write(data)
        return writer.publish()


def test_the_document_has_the_etags(runs: Stored) -> None:
    document = write(runs, "unit_100", unit_100=b"new", index_100=b"newer")
    for name, file in document.files.items():
        info = runs.store.object_info(f"{runs.out}/{name}")
        assert (file.num_bytes, file.etag) == (info.num_bytes, info.etag)
    assert not list((runs.state / "noted").iterdir())


@pytest.mark.parametrize(("name", "data"), [("mine", b"the same"), ("unit_002", None)])
def test_the_same_content_and_our_own_objects_are_replaced(name: str, data: bytes | None, runs: Stored) -> None:
    if data is not None:
        runs.put(f"{name}.txt", data)
    write(runs, "unit_100", **{name: data or b"other"})
    assert runs.objects()[f"{name}.txt"] == (data or b"other")


def test_objects_of_others_and_changed_ones_are_not_replaced(runs: Stored) -> None:
    runs.put("mine.txt", b"mine")
    with pytest.raises(PrepcliError, match=r"mine.txt is there already, and no record in"):
        write(runs, "unit_100", mine=b"other")
    runs.put("unit_002.txt", b"changed")
    with pytest.raises(PrepcliError, match=r"unit_002.txt has changed since this run wrote it"):
        write(runs, "unit_002", unit_002=b"other")
    assert (runs.objects()["mine.txt"], runs.objects()["unit_002.txt"]) == (b"mine", b"changed")


def test_nothing_is_written_for_a_run_that_was_replaced(runs: Stored) -> None:
    before = runs.objects()
    (runs.state / "owner.json").unlink()
    with pytest.raises(PrepcliError, match="another command has started again"):
        write(runs, "unit_100", unit_100=b"new")
    assert runs.objects() == before


def test_what_was_written_is_taken_back_if_the_run_was_replaced_meanwhile(runs: Stored) -> None:
    def replace(name: str) -> None:
        if name == "put_file":
            (runs.state / "owner.json").unlink(missing_ok=True)

    before, runs.store.event = runs.objects(), replace
    with pytest.raises(PrepcliError, match="another command has started again"):
        write(runs, "unit_100", unit_100=b"new")
    assert runs.objects() == before
    assert not list((runs.state / "noted").iterdir())


def test_a_unit_that_another_process_has_made_meanwhile_is_not_written_again(runs: Stored) -> None:
    def be_late(unit: Unit) -> None:
        if unit.id == "unit_000" and not calls:
            calls.append("")
            runs.run(runs.job(seed=3, num_units=2))
            runs.store.event = calls.append

    calls: list[str] = []
    runs.run(runs.job(seed=3, num_units=1), overwrite=True)
    report = runs.run(runs.job(seed=3, num_units=2, before_unit=be_late), overwrite=True)
    assert report.status == "done"
    assert "put_file" not in calls
