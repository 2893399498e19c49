"""Jobs over records: their units, and the loop that counts or rejects each record."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason
from prepcli.jobs.record_job import RecordContents, RecordUnit, each_record, even_bounds, units_of
from prepcli.jobs.records import Records
from tests.conftest import SHORT_CORPUS

MANIFEST = str(SHORT_CORPUS / "manifest.json")


def test_units_lie_between_neighbouring_bounds() -> None:
    units = units_of("shard", [0, 3, 5], [1.5, 2.5], first=7, make=RecordUnit)
    assert units == [
        RecordUnit("shard_000007", 1.5, 3, 7, 0, 3),
        RecordUnit("shard_000008", 2.5, 2, 8, 3, 5),
    ]
    assert units_of("shard", [0], [], make=partial(RecordUnit)) == []


@pytest.mark.parametrize(
    ("count", "size", "sizes"), [(10, 4, [4, 3, 3]), (8, 4, [4, 4]), (3, 4, [3]), (4, 1, [1] * 4), (0, 4, [])]
)
def test_shards_are_even(count: int, size: int, sizes: list[int]) -> None:
    assert sorted(np.diff(even_bounds(count, size)).tolist(), reverse=True) == sizes


def test_without_an_order_units_follow_the_input() -> None:
    contents = RecordContents(Records([MANIFEST]))
    (unit,) = units_of("shard", [2, 5], [1.0], make=RecordUnit)
    assert contents.numbers(unit) == [2, 3, 4]


def test_each_record_is_counted_rejected_or_left_to_another_loop(tmp_path: Path) -> None:
    records = Records([MANIFEST])
    advanced: list[int] = []

    def write(number: int) -> float | None:
        if number == 1:
            raise RecordRejected(RejectReason.BAD_FIELD, "it is the second")
        return None if number == 2 else 2.0

    workspace = Workspace(tmp_path / "out")
    workspace.tmp.mkdir(parents=True)
    with UnitWriter(workspace, "digest", Unit("one", 0.0, 4)) as writer:
        each_record(records, range(4), write, writer, lambda count, _: advanced.append(count))
        assert (writer.records_out, writer.seconds, writer.num_rejects) == (2, 4.0, 1)
    assert len(advanced) == 3
