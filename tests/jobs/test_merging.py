"""The lines of units in the order of the records, in bounded memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prepcli.engine.publishing.publish import FinishWriter, Marker, UnitWriter
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.jobs import merging
from prepcli.jobs.merging import PartWriter, index_of, write_merged
from tests.engine.folder_runs import begun_workspace

NAMES = ("all", "none", "nothing")


def part(workspace: Workspace, name: str, records: list[int]) -> Marker:
    """A unit with a line for each of these records."""
    with UnitWriter(workspace, "digest", Unit(name, 0.0, len(records))) as writer:
        lines = PartWriter(writer, ("half", "<f4"))
        for record in records:
            lines.add(record, b"%d%s\n" % (record, b"x" * (record % 40)), record / 2)
        lines.close()
        writer.count(len(records), 0.0)
        return writer.publish()


def test_merge_puts_the_lines_of_all_parts_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "CHUNK_RECORDS", 64)
    rng = np.random.default_rng(1)
    kept = rng.random(1000) < 0.9
    kept[320:460] = False  # whole chunks without a line
    owner = rng.integers(0, 7, 1000)
    workspace = begun_workspace(tmp_path / "out")
    # The last unit has no line.
    markers = [part(workspace, f"u{unit}", np.flatnonzero(kept & (owner == unit)).tolist()) for unit in range(8)]
    with FinishWriter(workspace, "digest", markers) as writer:
        for name, some in zip(NAMES, (markers, markers[7:], []), strict=True):
            write_merged(f"{name}.json", some, writer)
        index: Any = index_of(markers[2], writer)
        writer.publish()
    merged, *empty = ((workspace.unit_folder("finish") / f"files/{name}.json").read_bytes() for name in NAMES)
    assert [int(line.rstrip(b"x")) for line in merged.split()] == np.flatnonzero(kept).tolist()
    assert empty == [b"", b""]
    assert index["half"].tolist() == [record / 2 for record in index["record"].tolist()]
