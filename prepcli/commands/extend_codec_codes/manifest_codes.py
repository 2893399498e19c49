"""extend-codec-codes for plain manifests: writes a file of codes per segment, and a manifest that names the files."""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prepcli.commands.extend_codec_codes.content import record_audio
from prepcli.commands.extend_codec_codes.encoding import Codes, UnitEncoder
from prepcli.commands.extend_codec_codes.file_segments import UsedSegment, find_segments
from prepcli.commands.extend_codec_codes.on_device import (
    TELEMETRY,
    CodecOnDevice,
    frame_shift_of_units,
    settings_of_records,
    statistics,
    unchanged_files,
)
from prepcli.commands.extend_codec_codes.settings import CodecSettings
from prepcli.commands.extend_codec_codes.shard_index import Found, ShardIndex
from prepcli.commands.extend_codec_codes.uses import (
    FIELDS,
    SegmentTable,
    Use,
    context_use,
    group_records,
    read_uses,
    target_of,
)
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.function import Output
from prepcli.engine.run.report import Report
from prepcli.engine.run.unit import Advance
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import PrepcliError, RecordRejected, RejectReason, option
from prepcli.formats.names import absolute_folder
from prepcli.formats.npy import npy_bytes
from prepcli.formats.plain_codes import CODES_PATH, FRAME_SHIFT, MANIFEST_NAME, codes_bytes
from prepcli.formats.shar import CONTEXT, TARGET
from prepcli.interface.printing import number_of
from prepcli.jobs.line_job import LINES_NAME
from prepcli.jobs.model_job import Begin, Take, Tick, run_with_model
from prepcli.jobs.prefetch import Batch, Decoded, DecodingPool
from prepcli.jobs.record_job import RecordContents, RecordUnit, each_record
from prepcli.jobs.records import Records, extended_name
from prepcli.jobs.source import RecordSource
from prepcli.manifest.context import in_context
from prepcli.models.codecs import notes_on_codec_model
from prepcli.models.running import ModelRunner
from prepcli.planning.hashing import Hashes
from prepcli.processes.workers import wait_for

LOST_NAME, RELIED_NAME = "parts/{}.lost.npy", "parts/{}.relied.npy"
"""The names of two files of a unit, which hold keys of segments (`Use.key`).

The first file has the segments that the unit was to encode and could not, due to a lack of memory or a crash. The
second file has the segments that other units encode, and whose codes are named in the manifest lines of this unit.
"""
_CHECKED_AT_ONCE, _PROBED_AT_ONCE = 64, 256
_ELSEWHERE = np.empty((0, 0), np.int16)
"""Stands for codes that another unit writes."""


class NamedSegments:
    """The segments that the records of a unit name; worker processes probe their files in the background."""

    def __init__(
        self, records: Records, unit: RecordUnit, workers: DecodingPool[UsedSegment], *, contexts: bool = True
    ) -> None:
        """`contexts`: whether the contexts of the records are included."""
        self._seconds: list[float] = records.index.duration[unit.lo : unit.hi].tolist()
        self._targets: list[Use | RecordRejected | None] = []
        self._contexts: list[Use | RecordRejected | None] = []
        for number in range(unit.lo, unit.hi):
            target: Use | RecordRejected | None = None
            context: Use | RecordRejected | None = None
            try:
                record = records.record(number)
                target = target_of(records, number, record)
                context = context_use(records, number, record) if contexts else None
            except RecordRejected as rejected:
                target, context = (rejected, None) if target is None else (target, rejected)
            self._targets.append(target)
            self._contexts.append(context)
        uses = {use.key: use for use in (*self._targets, *self._contexts) if isinstance(use, Use)}
        self._keys, each = list(uses), list(uses.values())
        self._futures: list[Future[list[UsedSegment | RecordRejected]]] = [
            workers.submit(find_segments, each[at : at + _PROBED_AT_ONCE])
            for at in range(0, len(each), _PROBED_AT_ONCE)
        ]

    def index(self, tick: Tick) -> ShardIndex:
        """Wait for the workers, and return the segments of targets and contexts."""
        each = [segment for future in self._futures for segment in wait_for(future, tick)]
        segments = dict(zip(self._keys, each, strict=True))
        targets: list[Found] = [segments[use.key] if isinstance(use, Use) else use for use in self._targets]
        contexts: list[Found] = []
        for use in self._contexts:
            segment = segments[use.key] if isinstance(use, Use) else use
            is_lost = isinstance(use, Use) and isinstance(segment, RecordRejected)
            contexts.append(in_context(segment) if is_lost and isinstance(segment, RecordRejected) else segment)
        return ShardIndex([], self._seconds, {TARGET: targets, CONTEXT: contexts}, {})


class RecordEncoder(UnitEncoder):
    """Encodes the segments of a unit of records, and writes files of codes and lines of the manifest.

    Segments that other units encode are only decoded, to find out whether records that name them can be used.
    """

    def __init__(
        self,
        on_device: CodecOnDevice[Any, Any],
        contents: "ManifestContents",
        unit: RecordUnit,
        index: ShardIndex,
        out: str,
    ) -> None:
        """`out`: the absolute path of the output folder."""
        self._unit = unit
        self._record_source, self._table, self._out = contents.records, contents.table, out
        here = slice(unit.lo, unit.hi)
        keys, owners = self._table.keys[:, here], self._table.owners[:, here]
        is_own = (unit.lo <= owners) & (owners < unit.hi)
        self._own = {int(key).to_bytes(8, "little") for key in np.unique(keys[is_own]).tolist()}
        super().__init__((), [index], on_device, Path())
        self._checks = self._plan_checks()

    def _is_encoded_here(self, member: UsedSegment) -> bool:
        return member.digest in self._own

    def _plan_checks(self) -> list[list[int]]:
        """The numbers of the segments that other units encode, and that this unit only decodes as a check.

        They are divided into groups of up to `_CHECKED_AT_ONCE`.
        """
        others = [
            number
            for number, member in enumerate(self._members)
            if not self._is_encoded_here(member) and number not in self._unusable
        ]
        return [others[at : at + _CHECKED_AT_ONCE] for at in range(0, len(others), _CHECKED_AT_ONCE)]

    def batches(self) -> Iterator[Batch[UsedSegment]]:
        """The batches to decode; segments of other units are decoded and discarded."""
        yield from super().batches()
        for numbers in self._checks:
            yield Batch(tuple(self._members[number] for number in numbers), 0)

    def start(self, number: int, decoded: Decoded, runner: ModelRunner, advance: Advance) -> Take:
        """Start the codec on a batch of own segments, or note which segments of other units can be decoded."""
        if number < len(self._batches):
            return super().start(number, decoded, runner, advance)
        checked = self._checks[number - len(self._batches)]

        def take() -> None:
            for row, member in enumerate(checked):
                self._found[member] = decoded.rejects.get(row, _ELSEWHERE)
                advance(self._records[member], self._seconds[member])

        return take

    def write(self, computed: "list[Codes | RecordRejected]", writer: UnitWriter) -> None:
        """Write the files of codes and the lines; a record whose target or context has no codes is a reject."""
        records, (index,) = self._record_source, self.indices
        lines = writer.open_part(LINES_NAME.format(writer.unit.id))
        named: dict[int, tuple[str, Codes]] = {}
        relied: set[int] = set()

        def write(number: int) -> float:
            position = number - self._unit.lo
            codes = [self._codes_of(computed, index.fields[field][position], field) for field in FIELDS]
            rejected = next((result for result in codes if isinstance(result, RecordRejected)), None)
            paths: dict[str, str] = {}
            for field, result in enumerate(codes):
                if result is not None and not isinstance(result, RecordRejected):
                    name = self._name(field, number)
                    paths[CODES_PATH[FIELDS[field]]] = os.path.join(self._out, name)
                    key = int(self._table.keys[field, number])
                    if result is _ELSEWHERE:
                        if rejected is None:
                            relied.add(key)
                    elif rejected is None or self._is_used_elsewhere(field, number):
                        named.setdefault(key, (name, result))
            if rejected is not None:
                raise rejected
            record = records.record(number)
            stale = [name for name in CODES_PATH.values() if name not in paths]
            lines.write(record.to_json(records.merged_changes(number, record) | paths, stale) + b"\n")
            return index.seconds[position]

        each_record(records, range(self._unit.lo, self._unit.hi), write, writer)
        for name, own in named.values():
            writer.add(name, codes_bytes(own))
        self._write_keys(writer, LOST_NAME, self._lost(computed))
        self._write_keys(writer, RELIED_NAME, relied)
        encoded = filter(self._is_encoded_here, self._members)
        states = {segment.segment.name: segment.state for segment in encoded if segment.state is not None}
        record_audio(writer, states)
        writer.extra.update(self.extra | {FRAME_SHIFT: self._codec.samples_per_frame / self._codec.sampling_rate})

    def _name(self, field: int, number: int) -> str:
        records = self._record_source
        record = records.record(number)
        use = context_use(records, number, record) if field else target_of(records, number, record)
        assert use is not None
        return self._table.file_of(self._settings.codec_name, use, records.base_dir(number), field, number)

    def _is_used_elsewhere(self, field: int, number: int) -> bool:
        """Whether records of other units use the segment that is field `field` of record `number`."""
        key = self._table.keys[field, number]
        here = self._table.keys[:, self._unit.lo : self._unit.hi] == key
        return int(self._table.num_uses[field, number]) > int(here.sum())

    def _lost(self, computed: "list[Codes | RecordRejected]") -> list[int]:
        """The keys of the segments that this unit failed to encode, due to a lack of memory or a crash.

        Another unit whose records use such a segment does not encode it: it only checks that the audio can be decoded.
        If that succeeds, the lines of the other unit name a file of codes that does not exist.
        """
        reasons = (RejectReason.OUT_OF_MEMORY, RejectReason.CRASHED_DECODER)
        return [
            int.from_bytes(member.digest, "little")
            for member, result in zip(self._members, computed, strict=True)
            if isinstance(result, RecordRejected) and result.reason in reasons and self._is_encoded_here(member)
        ]

    @staticmethod
    def _write_keys(writer: UnitWriter, name: str, keys: Iterable[int]) -> None:
        array: Hashes = np.array(sorted(keys), np.uint64)
        writer.open_part(name.format(writer.unit.id)).write(npy_bytes(array))


MANY_FILES = 1_000_000


@dataclass(frozen=True, slots=True)
class ManifestContents(RecordContents):
    """The records, and the segments that they use."""

    table: SegmentTable


ManifestPlan = Plan[RecordUnit, ManifestContents]


def codes_of_manifests(
    source: RecordSource, output: Output, codec: CodecSettings, shaping: Mapping[str, Any], devices: str
) -> Report:
    """Encode the targets and contexts of the records of manifests. A unit is a few consecutive records.

    The arguments and the errors are those of `prepcli.commands.extend_codec_codes.shar_codes.add_to_shar`.
    """
    file_name = extended_name(source.manifests, MANIFEST_NAME.format("", codec.codec_name))
    output.patterns = (glob.escape(file_name),)

    def plan(workspace: Workspace) -> ManifestPlan:
        records = source.read(workspace)
        table = read_uses(records)
        notes = [number_of(table.num_segments, "segment"), *notes_on_codec_model(codec.codec_model)]
        if table.num_segments > MANY_FILES:
            notes.append(
                f"{table.num_segments:,} files of codes: many file systems are slow with so many. Make a Shar of the "
                "manifest first (prepcli manifest-to-shar), whose codes are a file per shard"
            )
        units = group_records(records, table, codec.pool_duration)
        return records.plan(units, ManifestContents(records, table), notes=notes)

    def start(
        on_device: CodecOnDevice[RecordUnit, ManifestContents],
        contents: ManifestContents,
        unit: RecordUnit,
        workers: DecodingPool[UsedSegment],
    ) -> Begin:
        named = NamedSegments(contents.records, unit, workers)
        folder = absolute_folder(str(output.path))
        return lambda tick: RecordEncoder(on_device, contents, unit, named.index(tick), folder)

    def finish(made: ManifestPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        out = writer.workspace.out
        _check_relied(writer, markers)
        writer.join(file_name, (LINES_NAME.format(marker.unit) for marker in markers))
        num_files = sum(marker.num_files for marker in markers)
        details: dict[str, Any] = {"manifest": out / file_name, "files_of_codes": f"{num_files:,}"}
        details |= frame_shift_of_units(markers)
        return details | made.contents.records.merged_details(out) | statistics(markers)

    return run_with_model(
        output,
        devices,
        lambda device: CodecOnDevice(device, codec, start),
        plan,
        finish,
        settings=settings_of_records(codec, shaping, source, output.path),
        input_files=[codec.codec_model],
        check_done=unchanged_files(output),
        telemetry=TELEMETRY,
    )


def _check_relied(writer: UnitWriter, markers: Sequence[Marker]) -> None:
    """Check that no manifest line names a file of codes that was not written.

    Only one unit encodes a segment; other units that use it only check that it can be decoded. If the codec has too
    little memory for the segment, the lines of the other units name codes that do not exist.

    Raises:
        PrepcliError: a line names codes that do not exist.
    """
    lost = [np.load(writer.part(LOST_NAME.format(marker.unit))) for marker in markers]
    relied = [np.load(writer.part(RELIED_NAME.format(marker.unit))) for marker in markers]
    if any(map(len, lost)) and (both := np.intersect1d(np.concatenate(lost), np.concatenate(relied))).size:
        unit = next(marker.unit for marker, keys in zip(markers, lost, strict=True) if np.isin(keys, both).any())
        raise PrepcliError(
            f"{number_of(len(both), 'segment')} that other records use too, mostly as their context, could not be "
            f"encoded: see {writer.part(f'rejects/{unit}.jsonl')}, take a device with more memory, and give "
            f"{option('--retry-rejects')}, or leave these records out"
        )
