"""The records that a command reads, their division into units, and the loop over the records of a unit."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.run.function import Output, OutputFile
from prepcli.engine.run.starting import revisions_of
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected
from prepcli.interface.calls import current_call
from prepcli.interface.options import Paths, PathText
from prepcli.jobs.inputs.named import OtherInputs, manifests_of, refuse_one_pass, refuse_unused
from prepcli.jobs.record_job import RecordContents, RecordUnit, shards_of, units_of
from prepcli.jobs.records import Records, settings_over
from prepcli.manifest.parts import KeyFunction
from prepcli.manifest.record import Record
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.split import Indices, by_seconds
from prepcli.storage.input_files import refuse_swapped
from prepcli.storage.paths import AnyPath


class RecordSource:
    """The manifests, or the containers of a data set, that the current command reads.

    Attributes:
        manifests: their paths.
        input_of: for each of them, the number of the input from which it is, from 0.
        audio_base_dir: the folder from which relative audio paths start; None: from the folder of their manifest.
    """

    def __init__(self, manifest: Paths, output: Output, *more: PathText, others: OtherInputs | None = None) -> None:
        """`manifest` is the input that the user has named; `more`: further inputs; `others`: as in `manifests_of`.

        Raises:
            UsageError: MANIFEST and OUT are swapped, or a manifest cannot be found.
        """
        self._asked, self._command = current_call().options, current_call().command
        asked = self._asked
        if not isinstance(output, OutputFile):  # an OUT that is a file may be there, and MANIFEST a data set
            refuse_swapped(str(manifest), output.path)
        commits = partial(revisions_of, output.workspace, output.engine)
        inputs = [manifests_of(str(spec), asked, commits, others) for spec in (manifest, *more)]
        self.manifests = [path for paths in inputs for path in paths]
        refuse_unused(self.manifests, asked)
        self.input_of = [number for number, paths in enumerate(inputs) for _ in paths]
        self.audio_base_dir: AnyPath | None = asked.audio_base_dir
        self._num_workers = output.engine.num_workers

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
        if getattr(self._asked, "shuffle", False):
            refuse_one_pass(self.manifests)
        return Records(
            self.manifests,
            self.audio_base_dir,
            keys=keys,
            looks_for=looks_for,
            workspace=workspace,
            num_workers=self._num_workers,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The options that shape the output, and the folders of the audio."""
        return settings_over(self.manifests, self.audio_base_dir, self._asked)

    def layout(self, records: Records, make: Callable[[Scratch], Values], *more: object) -> Values:
        """The values of the plan: one rank calls `make` for all ranks (see `Records.layout`).

        `more`: everything else on which the values depend, besides the records and the settings.
        """
        return records.layout([self._command, self.settings, *more], make)

    def shards(
        self, records: Records, size: int, seed: int | None, more: Callable[[Scratch], Values] = lambda _: {}
    ) -> tuple[list[RecordUnit], Indices, dict[str, Any]]:
        """Divide the records into units (`prepcli.jobs.record_job.shards_of`)."""
        return shards_of(records, size, seed, self.layout, more)


def blocks(records: Records, seconds: float, num_records: int) -> list[RecordUnit]:
    """Divide the records, in their order, into units of about `seconds` of audio and `num_records` of mean duration."""
    duration = records.index.duration
    if not len(records):
        return []
    bounds = by_seconds(duration, min(seconds, num_records * float(duration.mean())))
    costs = np.add.reduceat(duration, bounds[:-1])
    return units_of("records", bounds.tolist(), costs.tolist(), make=RecordUnit)


class RecordItem:
    """A record of a unit: its `with` block writes it completely, or not at all.

    If the block raises `RecordRejected`, the record is a reject; else it is counted with `seconds` of audio, by default
    those of the record.
    """

    __slots__ = ("_record", "_records", "_writer", "number", "seconds")

    def __init__(self, records: Records, writer: UnitWriter, number: int) -> None:
        self._records, self._writer = records, writer
        self._record: Record | None = None
        self.number, self.seconds = number, records.index.duration.item(number)

    @property
    def record(self) -> Record:
        """The record; raises `RecordRejected` if its line cannot be read after all."""
        if self._record is None:
            self._record = self._records.record(self.number)
        return self._record

    def __enter__(self) -> "RecordItem":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        writer = self._writer
        if error is None:
            writer.records_out += 1
            writer.seconds += self.seconds
        elif isinstance(error, RecordRejected):
            line, origin = self._records.original(self.number)
            writer.reject(line, error, origin)
        else:
            return False
        writer.advance(1, self._records.index.duration.item(self.number))
        return True


def items(contents: RecordContents, unit: RecordUnit, writer: UnitWriter) -> Iterator[RecordItem]:
    """Yield the records of a unit in its order; the loop enters each: `with item:`."""
    records = contents.records
    for number in records.reading_ahead(contents.numbers(unit)):
        yield RecordItem(records, writer, number)
