"""Converts lines to NumPy columns: the inner loop of every reader of manifests."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import FIELD_TYPES, TEXT_FIELDS
from prepcli.interface.printing import encodable
from prepcli.manifest.fields import decode_value, shown
from prepcli.manifest.lines import Chars, CutDurationLine, NemoLine, check_usable, decode_lines, line_ends, read_line
from prepcli.manifest.parts import Collector, Columns, FieldKey, Floats, Ints, Part, Problem
from prepcli.manifest.record import Record

_ATTRIBUTES = {field.encode_name: field.name for field in msgspec.structs.fields(NemoLine)}
"""The attributes of a `NemoLine`, by the names of the fields that they hold."""
_CONVERTED = _ATTRIBUTES.keys() - FIELD_TYPES
"""The fields that a `NemoLine` holds as another type than that of their JSON."""


class _Values(NamedTuple):
    """The values of one or more lines: lists with one item per line. Lists that are not needed are empty.

    `texts`: for each of `Columns.field_keys`, a list with the key of each line. `number`: the results of
    `Columns.numbers`. Cuts have neither `offset` nor `paths` nor `texts`.
    """

    duration: list[float]
    offset: list[float]
    paths: list[str]
    texts: list[list[str]]
    number: list[int]


_NO_TEXT = bytes(8)
_cut_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(CutDurationLine)


class LineBlocks:
    """Collects the columns of a range, block by block."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.num_lines = 0
        self.num_skipped = 0
        self.num_problems = 0
        self.gaps: list[int] = []
        self.problems: list[Problem] = []
        self._starts: list[Ints] = []
        self._lengths: list[Ints] = []
        self._durations: list[Floats] = []
        self._offsets: list[Floats] = []
        self._numbers: list[npt.NDArray[np.int32]] = []
        self._hashes: dict[str, list[bytes]] = {name: [] for name, _ in (*columns.keys, *columns.field_keys)}
        fields = tuple(dict.fromkeys(key.field for _, key in columns.field_keys))
        of_numbers = columns.numbers.fields if columns.numbers else ()
        # If a field is wanted as text that is decoded as another type, every line takes the slow path.
        self._never_fast = bool(_CONVERTED.intersection(of_numbers))
        texts = () if self._never_fast else of_numbers
        self._collector = columns.collector() if columns.collector else None
        values = tuple(self._collector.fields) if self._collector else ()
        optional = tuple(key.field for _, key in columns.field_keys if key.is_optional)
        names = tuple(dict.fromkeys((*fields, *texts, *values)))
        self._getters = {name: _getter(_attribute(name, names)) for name in (*names, "audio_filepath")}
        self._keeps_offsets = columns.spans and columns.offsets and not columns.cuts
        self._decoder = _cut_decoder if columns.cuts else _nemo_decoder_with(names, fields, texts, optional)

    def add(self, data: bytes, at: int) -> None:
        """Add whole lines; the first begins at byte `at` of the (uncompressed) manifest."""
        chars, ends = line_ends(data)
        values = self._read_fast(data, chars, ends)
        if values is not None:
            self._keep(values, ends, at)
            self.num_lines += len(ends)
        elif len(ends) == 1:
            self._add_odd_line(data.removesuffix(b"\n"), at)
        else:
            # The block has an unusual line: halve it until only unusual lines are left.
            middle = int(ends[len(ends) // 2 - 1]) + 1
            self.add(data[:middle], at)
            self.add(data[middle:], at + middle)

    def finish(self, digest: bytes, num_bytes: int) -> Part:
        """Return the columns of all blocks; `digest` and `num_bytes` are those of the whole range."""
        return Part(
            digest=digest,
            num_bytes=num_bytes,
            num_lines=self.num_lines,
            num_skipped=self.num_skipped,
            num_problems=self.num_problems,
            start=np.concatenate([np.empty(0, np.int64), *self._starts]),
            length=np.concatenate([np.empty(0, np.int64), *self._lengths]).astype(np.int32),
            duration=np.concatenate([np.empty(0), *self._durations]),
            offset=np.concatenate([np.empty(0), *self._offsets]),
            number=np.concatenate([np.empty(0, np.int32), *self._numbers]),
            keys={name: np.frombuffer(b"".join(hashes), "<u8") for name, hashes in self._hashes.items()},
            gaps=self.gaps,
            problems=self.problems,
            collected=self._collector.result() if self._collector else None,
        )

    def _read_fast(self, data: bytes, chars: Chars, ends: Ints) -> _Values | None:
        """The values of whole lines if all of them are certainly usable; else None, and `add` reads them slowly."""
        if self._never_fast:
            return None
        records = decode_lines(data, chars, ends, self._decoder)
        if records is None:
            return None
        duration = [record.duration for record in records]
        paths: list[str] = []
        offset: list[float] = []
        texts: list[list[str]] = []
        try:
            if not self.columns.cuts:
                if not check_usable(records, data):
                    return None
                paths = [record.audio_filepath for record in records] if self.columns.keys else []
                offset = [record.offset or 0.0 for record in records] if self._keeps_offsets else []
                texts = [list(map(key.of, self._field(key.field, records))) for _, key in self.columns.field_keys]
            number = self._numbers_of(data, records)
            if self._collector:  # last, because a collector cannot give records back
                self._collector.add([self._field(name, records) for name in self._collector.fields])
        except (RecordRejected, msgspec.DecodeError):
            return None
        return _Values(duration, offset, paths, texts, number)

    def _numbers_of(self, data: bytes, records: list[Any]) -> list[int]:
        if self.columns.numbers is None:
            return []
        if not self.columns.numbers.fields:
            return self.columns.numbers.function(data)
        return self.columns.numbers.function(*(self._field(name, records) for name in self.columns.numbers.fields))

    def _field(self, name: str, records: list[Any]) -> list[Any]:
        """The decoded values of a field of some records."""
        return self._getters[name](records)

    def _add_odd_line(self, line: bytes, at: int) -> None:
        values = None
        try:
            values = _read_odd_line(line, self.columns, self._collector)
            self.num_skipped += values is None and bool(line.strip())
        except RecordRejected as rejected:
            self.num_problems += 1
            if self.columns.spans or not self.problems:
                length = len(line.rstrip(b"\r"))
                detail = encodable(rejected.detail)
                problem = Problem(0, self.num_lines, at, length, rejected.reason, detail)
                self.problems.append(problem)
        if values is not None:
            self._keep(values, np.array([len(line)]), at)
        elif self.columns.spans:
            self.gaps.append(self.num_lines)
        self.num_lines += 1

    def _keep(self, values: _Values, ends: Ints, at: int) -> None:
        self._durations.append(np.array(values.duration, np.float64))
        self._numbers.append(np.array(values.number, np.int32))
        if self.columns.spans:
            starts = np.concatenate([[0], ends[:-1] + 1])
            self._starts.append(starts + at)
            self._lengths.append(ends - starts)
        if self._keeps_offsets:
            self._offsets.append(np.array(values.offset, np.float64))
        for name, function in self.columns.keys:
            self._hashes[name].append(b"".join([key_bytes(function(path)) for path in values.paths]))
        for (name, _), texts in zip(self.columns.field_keys, values.texts, strict=True):
            self._hashes[name].append(b"".join(map(key_bytes, texts)))


def _attribute(name: str, names: Sequence[str]) -> str:
    """The attribute that holds the field `name`, one of the wanted `names`, in the results of `_nemo_decoder_with`."""
    return _ATTRIBUTES.get(name) or f"field_{names.index(name)}"


@lru_cache
def _getter(attribute: str) -> Callable[[list[Any]], list[Any]]:
    """A function that lists an attribute of records, in half the time of a `map` with `attrgetter`.

    `attribute`: a name of `_attribute`, which is never text of a user.
    """
    return cast(Callable[[list[Any]], list[Any]], eval(f"lambda records: [record.{attribute} for record in records]"))


@lru_cache
def _nemo_decoder_with(
    names: tuple[str, ...], fields: tuple[str, ...], texts: tuple[str, ...], optional: tuple[str, ...]
) -> msgspec.json.Decoder[Any]:
    """A decoder of lines, whose results are a `NemoLine` with further attributes (`_attribute`).

    A line with a value that is not allowed for its field cannot be decoded.

    Args:
        names: names of all wanted fields. A field that is only here may have any value that the gate lets in; None if
            it is missing.
        fields: names of fields that the line must have, with text that is not empty, or an integer.
        texts: names of fields with text; None if the field is missing or null.
        optional: those names in `fields` whose field may be missing, or have any value that the gate lets in.
    """
    more: list[tuple[str, Any, Any]] = []
    for name in names:
        attribute = _attribute(name, names)
        if name in texts:
            more.append((attribute, str | None, msgspec.field(name=name, default=None)))
        elif name in fields and name not in optional and name not in _CONVERTED:
            text: Any = Annotated[str, msgspec.Meta(min_length=1)]
            more.append((attribute, text if name in TEXT_FIELDS else text | int, msgspec.field(name=name)))
        elif name not in _ATTRIBUTES:
            more.append((attribute, Any, msgspec.field(name=name, default=None)))
    if not more:
        return msgspec.json.Decoder(NemoLine)
    return msgspec.json.Decoder(msgspec.defstruct("_KeyedLine", more, bases=(NemoLine,), kw_only=True, gc=False))


def _read_odd_line(line: bytes, columns: Columns, collector: Collector | None) -> _Values | None:
    """Read one line by the rules of `read_line`, slowly; None if it is skipped."""
    usable = read_line(line, columns.cuts)
    if usable is None:
        return None
    number = _numbers_of_odd_line(line, usable.fields, columns)
    record = usable.record
    if record is None:
        return _Values([usable.duration], [], [], [], number)
    texts = [[key.of(_field_text(record, key))] for _, key in columns.field_keys]
    if collector:
        collector.add([[record.duration if name == "duration" else record.get(name)] for name in collector.fields])
    return _Values([record.duration], [record.offset], [record.audio_filepath], texts, number)


def _numbers_of_odd_line(line: bytes, fields: Mapping[str, msgspec.Raw], columns: Columns) -> list[int]:
    if columns.numbers is None:
        return []
    if not columns.numbers.fields:
        return columns.numbers.function(line)
    return columns.numbers.function(*([_text_or_none(fields, name)] for name in columns.numbers.fields))


def _text_or_none(fields: Mapping[str, msgspec.Raw], name: str) -> str | None:
    value = decode_value(fields[name]) if name in fields else None
    if value is None or isinstance(value, str):
        return value
    raise RecordRejected(RejectReason.BAD_FIELD, f"{name} is {shown(fields[name])}; it must be text")


def _field_text(record: Record, key: FieldKey) -> object:
    value = record.get(key.field)
    if key.is_optional:
        return value
    if value is None or value == "":
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {key.field}")
    if type(value) not in (str, int):
        raise RecordRejected(
            RejectReason.BAD_FIELD, f"{key.field} is {shown(record.fields[key.field])}; it must be text"
        )
    return value


def key_bytes(text: str) -> bytes:
    """The 64-bit hash of a key in the index and in plans, the same on every machine; 8 zero bytes for an empty key."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() if text else _NO_TEXT
