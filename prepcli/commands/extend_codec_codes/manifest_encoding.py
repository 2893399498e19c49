"""Encode one unit of records: their segments become files, and their lines name these files."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from prepcli.commands.extend_codec_codes.content import record_audio
from prepcli.commands.extend_codec_codes.encoding import Codes, Piece, UnitEncoder
from prepcli.commands.extend_codec_codes.file_segments import FileSegment
from prepcli.commands.extend_codec_codes.options import CodesOptions
from prepcli.commands.extend_codec_codes.shard_index import Found, ShardIndex
from prepcli.commands.extend_codec_codes.uses import FIELDS, RecordGroup, SegmentTable, Use, context_use, target_of
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.run.job import Advance
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.npy import npy_bytes
from prepcli.formats.plain_codes import CODES_PATH, FRAME_SHIFT, codes_bytes
from prepcli.formats.shar import CONTEXT, TARGET
from prepcli.jobs.prefetch import Batch, Decoded
from prepcli.jobs.records import Records
from prepcli.manifest.context import in_context
from prepcli.manifest.record import Record
from prepcli.models.protocols import Codec
from prepcli.planning.hashing import Hashes

LINES_NAME, LOST_NAME, RELIED_NAME = "parts/{}.jsonl", "parts/{}.lost.npy", "parts/{}.relied.npy"
"""Of each unit: its lines; the keys of its segments that have no codes; and those of other units' that it names."""
_CHECKED_AT_ONCE = 64
_ELSEWHERE = np.empty((0, 0), np.int16)
"""In the place of codes that another unit writes."""


class NamedSegments:
    """The segments that the records of a unit name."""

    def __init__(self, records: Records, unit: RecordGroup) -> None:
        self.targets: list[Use | RecordRejected] = []
        self.contexts: list[Use | RecordRejected | None] = []
        for number in range(unit.lo, unit.hi):
            try:
                record = Record.parse(records.line(number))
                self.targets.append(target_of(records, number, record))
            except RecordRejected as rejected:
                self.targets.append(rejected)
                self.contexts.append(None)
                continue
            try:
                self.contexts.append(context_use(records, number, record))
            except RecordRejected as rejected:
                self.contexts.append(rejected)

    @property
    def distinct(self) -> dict[int, Use]:
        """Each segment once, by its key."""
        both = [*self.targets, *self.contexts]
        return {use.key: use for use in both if isinstance(use, Use)}

    def index(self, seconds: Sequence[float], found: Mapping[int, FileSegment | RecordRejected]) -> ShardIndex:
        """What was found for the targets and contexts of the records; `seconds` are those of the records."""
        targets: list[Found] = [found[one.key] if isinstance(one, Use) else one for one in self.targets]
        contexts: list[Found] = []
        for one in self.contexts:
            segment = found[one.key] if isinstance(one, Use) else one
            is_lost = isinstance(one, Use) and isinstance(segment, RecordRejected)
            contexts.append(in_context(segment) if is_lost and isinstance(segment, RecordRejected) else segment)
        return ShardIndex([], list(seconds), {TARGET: targets, CONTEXT: contexts}, {})


class RecordEncoder(UnitEncoder):
    """The segments of a unit of records.

    Segments that other units encode are only decoded, so that it is known whether the records that name them can be
    used.
    """

    def __init__(
        self,
        unit: RecordGroup,
        index: ShardIndex,
        records: Records,
        table: SegmentTable,
        folder: str,
        codec: Codec,
        options: CodesOptions,
        *,
        on_gpu: bool,
        mixes_lengths: bool,
    ) -> None:
        """`folder`: OUT, as paths in the lines have it; for the rest see `UnitEncoder`."""
        self._unit = unit
        self._record_source = records
        self._table = table
        self._out = folder
        here = slice(unit.lo, unit.hi)
        keys, owners = table.keys[:, here], table.owners[:, here]
        is_own = (unit.lo <= owners) & (owners < unit.hi)
        self._own = {int(key).to_bytes(8, "little") for key in np.unique(keys[is_own]).tolist()}
        super().__init__((), [index], codec, options, Path(), on_gpu=on_gpu, mixes_lengths=mixes_lengths)
        self._checks = self._plan_checks()

    def _is_encoded_here(self, member: Piece) -> bool:
        return member.digest in self._own

    def _plan_checks(self) -> list[list[int]]:
        """Segments of other units, a few at a time."""
        others = [
            number
            for number, member in enumerate(self._members)
            if not self._is_encoded_here(member) and number not in self._unusable
        ]
        return [others[at : at + _CHECKED_AT_ONCE] for at in range(0, len(others), _CHECKED_AT_ONCE)]

    def batches(self) -> Iterator[Batch[Piece]]:
        """The batches to decode, in the order of `compute`; nothing is kept of those that are only decoded."""
        yield from super().batches()
        for numbers in self._checks:
            yield Batch(tuple(self._members[number] for number in numbers), 0)

    def compute(self, decoded: Iterator[Decoded], device: str, advance: Advance) -> "list[Codes | RecordRejected]":
        """The codes of the unit's own segments, and of others whether they can be decoded."""
        found = super().compute(decoded, device, advance)
        for number in self._unusable:
            advance(self._records[number], self._seconds[number])
        for numbers in self._checks:
            rows = next(decoded)
            for row, number in enumerate(numbers):
                found[number] = rows.rejects.get(row, _ELSEWHERE)
                advance(self._records[number], self._seconds[number])
        return found

    def write(self, computed: "list[Codes | RecordRejected]", writer: UnitWriter) -> None:
        """Write the files and the lines; a record whose target or context has no codes is a reject."""
        records, (index,) = self._record_source, self.indices
        lines = writer.open_part(LINES_NAME.format(writer.unit.id))
        named: dict[int, tuple[str, Codes]] = {}
        relied: set[int] = set()
        for position, number in enumerate(range(self._unit.lo, self._unit.hi)):
            codes = [self._codes_of(computed, index.fields[field][position], field) for field in FIELDS]
            rejected = next((one for one in codes if isinstance(one, RecordRejected)), None)
            paths: dict[str, str] = {}
            for field, one in enumerate(codes):
                if one is not None and not isinstance(one, RecordRejected):
                    name = self._name(field, number)
                    paths[CODES_PATH[FIELDS[field]]] = os.path.join(self._out, name)
                    key = int(self._table.keys[field, number])
                    if one is _ELSEWHERE:
                        relied |= {key} if rejected is None else set()
                    elif rejected is None or self._is_used_elsewhere(field, number):
                        named.setdefault(key, (name, one))
            if rejected is not None:
                writer.reject(records.reject_source(number), rejected, records.origin(number))
                continue
            record = Record.parse(records.line(number))
            stale = [name for name in CODES_PATH.values() if name not in paths]
            lines.write(record.to_json(records.merged_changes(number, record) | paths, stale) + b"\n")
            writer.count(1, index.seconds[position])
        for name, own in named.values():
            writer.add(name, codes_bytes(own))
        self._write_keys(writer, LOST_NAME, self._lost(computed))
        self._write_keys(writer, RELIED_NAME, relied)
        encoded = [one for one in self._members if isinstance(one, FileSegment) and self._is_encoded_here(one)]
        record_audio(writer.workspace, writer.unit.id, {segment.path: segment.state for segment in encoded})
        writer.extra.update(self.extra | {FRAME_SHIFT: self._codec.samples_per_frame / self._codec.sampling_rate})

    def _name(self, field: int, number: int) -> str:
        records = self._record_source
        record = Record.parse(records.line(number))
        use = context_use(records, number, record) if field else target_of(records, number, record)
        assert use is not None
        return self._table.file_of(str(self._options.codec_name), use, records.base_dir(number), field, number)

    def _is_used_elsewhere(self, field: int, number: int) -> bool:
        """Whether records of other units use the segment."""
        key = self._table.keys[field, number]
        here = self._table.keys[:, self._unit.lo : self._unit.hi] == key
        return int(self._table.num_uses[field, number]) > int(here.sum())

    def _lost(self, computed: "list[Codes | RecordRejected]") -> list[int]:
        """Keys of the unit's own segments that the codec could not encode, though they can be decoded."""
        reasons = (RejectReason.OUT_OF_MEMORY, RejectReason.CRASHED_DECODER)
        return [
            int.from_bytes(member.digest, "little")
            for member, one in zip(self._members, computed, strict=True)
            if isinstance(one, RecordRejected) and one.reason in reasons and self._is_encoded_here(member)
        ]

    @staticmethod
    def _write_keys(writer: UnitWriter, name: str, keys: Iterable[int]) -> None:
        found: Hashes = np.array(sorted(keys), np.uint64)
        writer.open_part(name.format(writer.unit.id)).write(npy_bytes(found))
