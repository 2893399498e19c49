"""A job over the records of manifests: settings, rejects, units, and the loop over the records of a unit."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeVar

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.run.job import Advance, Job
from prepcli.engine.run.workers import UnitJob
from prepcli.engine.state.plan import Plan, Unit, UnitT
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected
from prepcli.jobs.records import LeftOut, Records, settings_over
from prepcli.manifest.parts import KeyFunction
from prepcli.manifest.record import Record
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.split import Indices


@dataclass(frozen=True, slots=True)
class RecordUnit(Unit):
    """The records with the positions `lo` to `hi` - 1 in the order of the job; `number` counts the units."""

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
    """Return the units `name_000000` and so on, made by `make`: unit k has the records `bounds[k]` to `bounds[k + 1]`.

    Args:
        name: the beginning of each unit's id.
        bounds: ascending positions, one more than units.
        seconds: the seconds of audio of each unit.
        first: the number of the first unit.
        make: `RecordUnit`, or a subclass with what is bound to it.
    """
    places = zip(pairwise(bounds), seconds, strict=True)
    return [
        make(f"{name}_{number:06d}", cost, hi - lo, number, lo, hi)
        for number, ((lo, hi), cost) in enumerate(places, first)
    ]


@dataclass(frozen=True, slots=True)
class RecordContents:
    """What a job over records has planned; a job adds its own in a subclass.

    Attributes:
        records: all usable records.
        order: their numbers in the order of the units; None for the order of the input.
        left_out: the records that no unit has, with the reasons.
    """

    records: Records
    order: Indices | None = field(default=None, kw_only=True)
    left_out: LeftOut = field(default=(), kw_only=True)

    def numbers(self, unit: RecordUnit) -> list[int]:
        """The numbers of the unit's records, in its order."""
        if self.order is None:
            return list(range(unit.lo, unit.hi))
        numbers: list[int] = self.order[unit.lo : unit.hi].tolist()
        return numbers


ContentsT = TypeVar("ContentsT", bound=RecordContents)


class OverRecords(Job[UnitT, ContentsT]):
    """What every job over records has, one with a model (`ModelJob`) too.

    Attributes:
        manifests: their paths.
        options: the dataclass of what shapes the output, with `audio_base_dir`.
        num_workers: the number of processes that plan.
    """

    manifests: Sequence[str]
    options: Any
    num_workers: int

    @property
    def audio_base_dir(self) -> Path | None:
        """The folder of relative audio paths; None for the folder of each manifest."""
        folder: Path | None = self.options.audio_base_dir
        return folder

    def own_settings(self) -> dict[str, Any]:
        """The options and the audio folders: the settings that do not depend on the plan."""
        return settings_over(self.manifests, self.audio_base_dir, self.options)

    def settings(self, plan: Plan[UnitT, ContentsT]) -> dict[str, Any]:
        """The options and the audio folders."""
        return self.own_settings()

    def read(
        self,
        workspace: Workspace,
        keys: Mapping[str, KeyFunction] | None = None,
        looks_for: Callable[[bytes], bool] | None = None,
    ) -> Records:
        """Index the manifests; `keys` and `looks_for` are those of `prepcli.manifest.index.index_manifests`."""
        return Records(
            self.manifests,
            self.audio_base_dir,
            keys=keys,
            looks_for=looks_for,
            workspace=workspace,
            num_workers=self.num_workers,
        )

    def layout(self, records: Records, make: Callable[[Scratch], Values], *more: object) -> Values:
        """Plan over the records, once for all ranks, by the settings and by `more` (`Records.layout`)."""
        return records.layout([self.command, self.own_settings(), *more], make)

    def missing_sample(self, plan: Plan[UnitT, ContentsT]) -> str | None:
        """Look for a few audio files of the manifests."""
        return plan.contents.records.missing_sample()

    def planned_rejects(self, plan: Plan[UnitT, ContentsT]) -> Iterator[bytes]:
        """The lines that cannot be read and the records that are left out, in input order."""
        return plan.contents.records.planned_rejects(plan.contents.left_out)


class RecordWriter(Protocol):
    """Writes the records of one unit."""

    def add(self, number: int, record: Record) -> float:
        """Write record `number`, completely or not at all; returns its seconds of audio.

        Raises:
            RecordRejected: the record cannot be used; nothing of it was written.
        """

    def close(self) -> None:
        """Write what is still missing after the last record."""


class RecordJob(OverRecords[RecordUnitT, ContentsT], UnitJob[RecordUnitT, ContentsT]):
    """A job that writes records one by one, in worker processes. A subclass opens the files of a unit."""

    @abstractmethod
    def open_unit(self, contents: ContentsT, unit: RecordUnitT, writer: UnitWriter) -> RecordWriter:
        """Open the files of a unit."""

    def process(
        self, plan: Plan[RecordUnitT, ContentsT], unit: RecordUnitT, writer: UnitWriter, advance: Advance
    ) -> None:
        """Write the records of a unit."""
        contents = plan.contents
        records = contents.records
        opened = self.open_unit(contents, unit, writer)
        each_record(
            records,
            records.reading_ahead(contents.numbers(unit)),
            lambda number: opened.add(number, records.record(number)),
            writer,
            advance,
        )
        opened.close()


def each_record(
    records: Records,
    numbers: Iterable[int],
    write: Callable[[int], float | None],
    writer: UnitWriter,
    advance: Advance | None = None,
) -> None:
    """Write records one after the other; count those that were written, and reject the others.

    Args:
        records: the records of the job.
        numbers: which of them.
        write: writes a record, and returns its seconds of audio; or None if another loop will count it. Raises
            `RecordRejected`.
        writer: counts and rejects.
        advance: shows progress; None if another loop has done so.
    """
    durations = records.index.duration
    for number in numbers:
        try:
            seconds = write(number)
        except RecordRejected as rejected:
            writer.reject(records.reject_source(number), rejected, records.origin(number))
        else:
            if seconds is None:
                continue
            writer.count(1, seconds)
        if advance is not None:
            advance(1, float(durations[number]))
