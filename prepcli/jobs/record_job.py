"""A job over the records of manifests: settings, rejects, units, and the loop over the records of a unit."""

import glob
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.run.job import Job
from prepcli.engine.state.plan import Plan, Unit, UnitT
from prepcli.engine.state.workspace import Workspace
from prepcli.jobs.inputs.named import refuse_one_pass
from prepcli.jobs.records import LeftOut, Records, settings_over
from prepcli.jobs.row_names import BY_ID
from prepcli.manifest.parts import KeyFunction
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.split import Indices, by_count, in_order, seconds_of
from prepcli.storage.paths import AnyPath


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


class OverRecords(Job[UnitT, ContentsT]):
    """The base of every job over records, with or without a model.

    Attributes:
        manifests: their paths.
        options: the dataclass of options that shape the output, with `audio_base_dir`; None only if a subclass
            overrides the methods that read it.
        num_workers: number of processes for planning.
    """

    manifests: Sequence[str]
    options: Any = None
    num_workers: int

    @property
    def audio_base_dir(self) -> AnyPath | None:
        """The folder from which relative audio paths start; None: they start from the folder of their manifest."""
        folder: AnyPath | None = self.options.audio_base_dir
        return folder

    @property
    def file_name(self) -> str:
        """The name of the output file. Only for a job whose output is one file, not a folder."""
        name: str = self.options.out.name
        return name

    def output_patterns(self, plan: Plan[UnitT, ContentsT]) -> Sequence[str]:
        """The pattern that matches only the file of the output."""
        return (glob.escape(self.file_name),)

    def own_settings(self) -> dict[str, Any]:
        """The options and the audio folders: settings that do not depend on the plan."""
        return settings_over(self.manifests, self.audio_base_dir, self.options)

    def settings(self, plan: Plan[UnitT, ContentsT]) -> dict[str, Any]:
        """The options, the audio folders and, if names are made from ids, `BY_ID`."""
        return self.own_settings() | (BY_ID if plan.contents.by_id else {})

    def read(
        self,
        workspace: Workspace,
        keys: Mapping[str, KeyFunction] | None = None,
        looks_for: Callable[[bytes], bool] | None = None,
    ) -> Records:
        """Index the manifests; `keys` and `looks_for` as in `prepcli.manifest.index.index_manifests`.

        Raises:
            UsageError: as by `Records`, or the records must be shuffled and a container can only be read in order.
        """
        if getattr(getattr(self, "options", None), "shuffle", False):
            refuse_one_pass(self.manifests)
        return Records(
            self.manifests,
            self.audio_base_dir,
            keys=keys,
            looks_for=looks_for,
            workspace=workspace,
            num_workers=self.num_workers,
        )

    def layout(self, records: Records, make: Callable[[Scratch], Values], *more: object) -> Values:
        """The values of the job's plan: one rank calls `make` for all ranks (see `Records.layout`).

        `more`: everything else on which the values depend, besides the records and the settings of the job.
        """
        return records.layout([self.command, self.own_settings(), *more], make)

    def shards(
        self, records: Records, size: int, seed: int | None, more: Callable[[Scratch], Values]
    ) -> tuple[list[RecordUnit], Indices, dict[str, Any]]:
        """Divide the records into units (`shards_of`)."""
        return shards_of(records, size, seed, self.layout, more)


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
