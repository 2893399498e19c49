"""A job over the records of manifests: settings, rejects, units, and the loop over the records of a unit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.state.plan import Unit
from prepcli.jobs.records import LeftOut, Records
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.split import Indices, by_count, in_order, seconds_of


@dataclass(frozen=True, slots=True)
class RecordUnit(Unit):
    """A unit of the records with the positions `lo` to `hi` - 1 in the order of the job; `number` counts units."""

    number: int
    lo: int
    hi: int


RecordUnitT = TypeVar("RecordUnitT", bound=RecordUnit)


def units_of(
    name: str,
    bounds: Sequence[int],
    seconds: Sequence[float],
    *,
    first: int = 0,
    make: Callable[..., RecordUnitT],
) -> list[RecordUnitT]:
    """Return the units `name_000000`, `name_000001`, ... of consecutive records.

    Args:
        name: the beginning of each unit's id.
        bounds: ascending positions of records, one more than units: the unit at index k begins at `bounds[k]` and ends
            before `bounds[k + 1]`.
        seconds: the seconds of audio of each unit.
        first: the number of the first unit.
        make: makes a unit: `RecordUnit`, or a partial of a subclass.
    """
    places = zip(pairwise(bounds), seconds, strict=True)
    return [
        make(f"{name}_{number:06d}", cost, hi - lo, number, lo, hi)
        for number, ((lo, hi), cost) in enumerate(places, first)
    ]


def even_bounds(count: int, size: int) -> Indices:
    """The bounds of units that divide `count` records evenly, each with at most `size` records; [0] if `count` is 0."""
    return by_count(count, -(-count // size)) if count else np.zeros(1, np.int64)


def shards_of(
    records: Records,
    size: int,
    seed: int | None,
    layout: Callable[[Records, Callable[[Scratch], Values]], Values],
    more: Callable[[Scratch], Values],
) -> tuple[list[RecordUnit], Indices, dict[str, Any]]:
    """Divide records into units of nearly equal numbers of records, each with at most `size` records.

    The records are shuffled with `seed`; None keeps the order of the input. `layout` makes the values of the plan, once
    for all ranks.

    Returns:
        The units; the numbers of all records in the order of the units; and the result of `more`, which makes further
        values of the plan.
    """
    bounds = even_bounds(len(records), size)

    def make(scratch: Scratch) -> Values:
        order = in_order(len(records), seed, scratch)
        return {"order": order, "seconds": seconds_of(records.index.duration, order, bounds), **more(scratch)}

    values = dict(layout(records, make))
    order, seconds = values.pop("order"), values.pop("seconds")
    return units_of("shard", bounds.tolist(), seconds.tolist(), make=RecordUnit), order, values


@dataclass(frozen=True, slots=True)
class RecordContents:
    """The plan of a job over records; a job adds its own data in a subclass.

    Attributes:
        records: all usable records.
        order: their numbers in the order of the units; None for the order of the input.
        left_out: the records that are in no unit, with the reasons.
        by_id: whether names are made from ids (`prepcli.jobs.row_names`).
    """

    records: Records
    order: Indices | None = field(default=None, kw_only=True)
    left_out: LeftOut = field(default=(), kw_only=True)
    by_id: bool = field(default=False, kw_only=True)

    def numbers(self, unit: RecordUnit) -> list[int]:
        """The numbers of the unit's records, in the order in which the unit has them."""
        if self.order is None:
            return list(range(unit.lo, unit.hi))
        numbers: list[int] = self.order[unit.lo : unit.hi].tolist()
        return numbers


ContentsT = TypeVar("ContentsT", bound=RecordContents)


def each_record(
    records: Records,
    numbers: Iterable[int],
    write: Callable[[int], float | None],
    writer: UnitWriter,
    advance: Callable[[int, float], object] | None = None,
) -> None:
    """Write records one after the other; count each record that is written, and reject the others.

    Args:
        records: the records of the job.
        numbers: the numbers of the records to write.
        write: writes a record, and returns its seconds of audio; or None if the caller will count the record later.
            Raises `RecordRejected`.
        writer: counts and rejects.
        advance: shows progress; None if the caller shows it.
    """
    writer.write_each(numbers, write, records.original, advance, records.index.duration.item)
