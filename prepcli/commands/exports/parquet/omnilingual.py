"""manifest-to-parquet for omnilingual-asr: partitions by corpus, split and language, and the table of their hours."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from prepcli.audio.encode import LOSSLESS
from prepcli.audio.info import unreadable
from prepcli.audio.probe import probe_bytes
from prepcli.commands.exports.records import AudioContents, Conversion
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.function import Output, run
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.omnilingual import (
    MIN_ROWS,
    NAME_OF_CORPUS,
    NAME_OF_SPLIT,
    ROWS_PER_GROUP,
    SIZE,
    SUMMARY_NAME,
    TEXT,
    folder_of,
    language_of,
    split_of,
    summary,
)
from prepcli.formats.parquet import FILE_NAME, OmnilingualFile, file_name, omnilingual_schema
from prepcli.jobs.record_job import RecordUnit, units_of
from prepcli.jobs.records import Records
from prepcli.jobs.source import RecordSource, items
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import FieldKey, KeyFunction
from prepcli.manifest.record import Record
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.hashing import mix64
from prepcli.planning.split import by_count, in_order, order_by_group, seconds_of, selected
from prepcli.storage.paths import NUMBER

_OPTIONS = {"corpus": "--corpus", "split": "--set-split", "lang": "--set-lang"}
"""The fields that choose the partition of a record. The option of a field gives its value for records without it."""
_KEYS: dict[str, KeyFunction] = {name: FieldKey(name, str, is_optional=True) for name in _OPTIONS}
_SAMPLES = "samples"
_OUTPUT_PATTERNS = (f"{folder_of('*', '*', '*')}/{FILE_NAME.format(NUMBER)}", SUMMARY_NAME)


@dataclass(frozen=True, slots=True)
class Partition:
    """The corpus, split and language of records. If there is a `problem`, all these records are rejected."""

    corpus: str = ""
    split: str = ""
    language: str = ""
    problem: str = ""

    @classmethod
    def of(cls, values: dict[str, str | None]) -> "Partition":
        """The partition of records with these values of `corpus`, `split` and `lang`.

        If a value is missing or invalid, the partition has only a `problem`, which says so.
        """
        for name, value in values.items():
            if not value:
                return cls(problem=f"there is no {name}; {option(_OPTIONS[name])} is for records without it")
        corpus, split, lang = (str(values[name]) for name in _OPTIONS)
        language = language_of(lang)
        if language is None:
            return cls(problem=f"lang is {lang!r}, for which no language is known; write it as deu_Latn")
        split = split_of(split)
        for name, value, pattern in (("corpus", corpus, NAME_OF_CORPUS), ("split", split, NAME_OF_SPLIT)):
            if not pattern.fullmatch(value):
                return cls(problem=f"{name} is {value!r}; it must be of letters, digits, '.' and '-'")
        return cls(corpus, split, language)


@dataclass(frozen=True, slots=True)
class PartitionUnit(RecordUnit):
    """The records of an output file, or all records of a partition with a `problem`, which are rejected."""

    partition: Partition


OmnilingualPlan = Plan[PartitionUnit, AudioContents]


class Fields(NamedTuple):
    """The values of the fields `corpus`, `split` and `lang` of records without them; None: there is no such value."""

    corpus: str | None
    split: str | None
    lang: str | None


def run_omnilingual(
    output: Output, source: RecordSource, conversion: Conversion, given: Fields, seed: int | None
) -> Report:
    """Make Parquet files for omnilingual-asr; a unit is a file of a partition."""
    output.patterns = _OUTPUT_PATTERNS

    def plan(workspace: Workspace) -> OmnilingualPlan:
        return _plan(source, workspace, given._asdict(), seed)

    def write(contents: AudioContents, unit: PartitionUnit, writer: UnitWriter) -> None:
        if unit.partition.problem:
            _reject(contents, unit, writer)
        else:
            _write_file(contents, unit, writer, conversion)

    return run(output, plan, write, _finish, settings=source.settings, prepare=import_pyarrow)


def import_pyarrow() -> None:
    """Import pyarrow once, before the worker processes are forked."""
    import pyarrow.parquet  # noqa: F401


def _plan(
    source: RecordSource, workspace: Workspace, given: Mapping[str, str | None], seed: int | None
) -> OmnilingualPlan:
    """Index the manifests, and divide the records of each partition into files."""
    records = source.read(workspace, _KEYS)
    for name, flag in _OPTIONS.items():
        if given[name] is None and len(records) and not records.index.keys[name].any():
            raise UsageError(f"no record has the field {name}, which names its folder: give {option(flag)}")
    values = source.layout(records, lambda scratch: _divide(records.index, seed, scratch))
    order, bounds, seconds = (values[name] for name in ("order", "bounds", "seconds"))
    partitions = [_partition(records, number, given) for number in order[bounds[:-1]].tolist()]

    def make(id: str, cost: float, num_records: int, number: int, lo: int, hi: int) -> PartitionUnit:
        return PartitionUnit(id, cost, num_records, number, lo, hi, partitions[number])

    units = units_of("shard", bounds.tolist(), seconds.tolist(), make=make)
    return records.plan(units, AudioContents(records, order=order))


def _divide(index: ManifestIndex, seed: int | None, scratch: Scratch) -> Values:
    """The `order` of the records, partition by partition, the `bounds` of the files, and the `seconds` of each."""
    order = in_order(len(index), seed, scratch)
    groups = scratch.zeros(len(index), np.uint64)
    for name in _OPTIONS:
        groups = mix64(groups) ^ selected(index.keys[name], order, scratch)
    positions = order_by_group(groups, scratch)
    order, groups = selected(order, positions, scratch), selected(groups, positions, scratch)
    bounds = [0]
    for start, end in pairwise([0, *(np.flatnonzero(groups[1:] != groups[:-1]) + 1).tolist(), len(index)]):
        files = max(1, (end - start) // MIN_ROWS) if end > start else 0
        bounds += (start + by_count(end - start, files)[1:]).tolist() if files else []
    return {
        "order": order,
        "bounds": np.array(bounds),
        "seconds": seconds_of(index.duration, order, np.array(bounds)),
    }


def _partition(records: Records, number: int, given: Mapping[str, str | None]) -> Partition:
    """The partition of record `number`, and of all records with the same corpus, split and language."""
    record, keys = records.record(number), records.index.keys
    return Partition.of({name: str(record.get(name)) if keys[name][number] else given[name] for name in _OPTIONS})


def _reject(contents: AudioContents, unit: PartitionUnit, writer: UnitWriter) -> None:
    """Reject all records of a unit, because their partition has a `problem`."""
    for item in items(contents, unit, writer):
        with item:
            raise RecordRejected(RejectReason.BAD_FIELD, unit.partition.problem)


def _write_file(contents: AudioContents, unit: PartitionUnit, writer: UnitWriter, conversion: Conversion) -> None:
    """Write a file of a partition."""
    place = unit.partition
    name = f"{folder_of(place.corpus, place.split, place.language)}/{file_name(unit.number)}"
    file = OmnilingualFile(writer.open(name), omnilingual_schema(), ROWS_PER_GROUP)
    for item in items(contents, unit, writer):
        with item:
            text = _text(item.record)
            segment, stored = contents.load_audio(item.number, item.record, conversion)
            if len(stored.data) > OmnilingualFile.max_group_bytes:
                unreadable(segment.name, "is too long for a value of Parquet that is a list")
            size = stored.num_samples
            if not stored.is_copy and stored.format not in LOSSLESS:  # lossy codecs may add or drop samples
                size = probe_bytes(stored.data, segment.name).num_samples
            file.add(stored.data, {TEXT: text, SIZE: size})
            item.seconds = segment.duration
            writer.extra[_SAMPLES] += size
    file.close()


def _text(record: Record) -> str:
    """The text of a record whose fields are usable."""
    text = record.text("text")
    if text is None:
        raise RecordRejected(RejectReason.MISSING_FIELD, "there is no text")
    for name in _OPTIONS:
        if type(value := record.get(name)) not in (str, int) and value is not None:
            raise RecordRejected(RejectReason.BAD_FIELD, f"{name} is {value!r}; it must be a text")
    return text


def _finish(plan: OmnilingualPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
    """Write the table of hours. Returns two paths for a training config: OUT (`dataset`), and that of the table."""
    partitions = {unit.id: unit.partition for unit in plan.units}
    samples: Counter[tuple[str, str]] = Counter()
    for marker in markers:
        place = partitions[marker.unit]
        if marker.records_out:
            samples[place.corpus, place.language] += int(marker.extra[_SAMPLES])
    writer.open(SUMMARY_NAME).write(summary(samples).encode())
    out = writer.workspace.out
    return {"dataset": out, "dataset_summary_path": out / SUMMARY_NAME}
