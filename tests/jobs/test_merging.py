"""The lines of units in the order of the records, in bounded memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.jobs import merging
from prepcli.jobs.merging import PartWriter, index_of, write_merged


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
    workspace = Workspace(tmp_path / "out")
    for folder in (workspace.tmp, workspace.done):
        folder.mkdir(parents=True)
    # The last unit has no line.
    markers = [part(workspace, f"u{unit}", np.flatnonzero(kept & (owner == unit)).tolist()) for unit in range(8)]
    index: Any = None
    for name, some in (("all", markers), ("none", markers[7:]), ("nothing", [])):
        with UnitWriter(workspace, "digest", Unit(name, 0.0, 0)) as writer:
            write_merged(f"{name}.json", some, writer)
            index = index_of(some[2], writer) if some == markers else index
            writer.publish()
    merged = (tmp_path / "out/all.json").read_bytes()
    assert [int(line.rstrip(b"x")) for line in merged.split()] == np.flatnonzero(kept).tolist()
    assert (tmp_path / "out/none.json").read_bytes() == (tmp_path / "out/nothing.json").read_bytes() == b""
    assert index["half"].tolist() == [record / 2 for record in index["record"].tolist()]
