"""Converts lines to rows: NeMo records, lhotse cuts and rejects get the same field names."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.lenient_json import decode_json
from prepcli.gate import MAX_SECONDS
from prepcli.manifest.fields import decode_value
from prepcli.manifest.lines import CutDurationLine, NemoLine, check_usable, decode_lines, line_ends, read_line
from prepcli.storage.containers import BEGINNING, MOVED

LineKind = Literal["manifest", "cuts", "rejects"]

Row = dict[str, Any]
"""A usable record with NeMo's field names; a cut with audio in a tar may have no `audio_filepath`."""

_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


@dataclass(slots=True)
class BlockRows:
    """The rows of one block of lines; and what is known of its other lines, which are skipped, unusable or rejects."""

    rows: list[Row] = field(default_factory=list)
    lines: Sequence[int] = field(default_factory=list)
    """The line of each row within the block, counted from 1."""
    num_lines: int = 0
    num_skipped: int = 0
    problems: list[tuple[int, RecordRejected]] = field(default_factory=list)
    """A pair for each unusable line: its number within the block, from 1, and its problem."""
    reject_reasons: Counter[str] = field(default_factory=Counter)
    """If the lines are those of a `rejects.jsonl`: number of lines by `reject_reason`."""
    rejects: list[Row] = field(default_factory=list)
    """If the lines are those of a `rejects.jsonl`: the fields of each line, also of a line that is not among `rows`."""


def read_rows(data: bytes, kind: LineKind) -> BlockRows:
    """The rows of a block of complete lines."""
    num_lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if kind != "rejects" and (rows := _read_fast(data, kind)) is not None:
        return BlockRows(rows, range(1, num_lines + 1), num_lines)
    lines: list[int] = []
    block = BlockRows(lines=lines, num_lines=num_lines)
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            if _add_line(line, kind, block):
                lines.append(number)
        except RecordRejected as rejected:
            block.problems.append((number, rejected))
    return block


def _read_fast(data: bytes, kind: LineKind) -> list[Row] | None:
    """The rows of a block; None if a quick check does not show that all its lines are usable."""
    objects = decode_lines(data, *line_ends(data), _decoder)
    if objects is None:
        return None
    try:
        if kind == "cuts":
            msgspec.convert(objects, list[CutDurationLine])
            return [row_of_cut(cut) for cut in objects]
        if not check_usable(msgspec.convert(objects, list[NemoLine]), data):
            return None
        for fields in objects if b'"_' in data else ():  # those of catalogues
            for name in (BEGINNING, MOVED):
                fields.pop(name, None)
        return objects
    except (msgspec.ValidationError, RecordRejected):
        return None


def _add_line(line: bytes, kind: LineKind, block: BlockRows) -> bool:
    """Add a line to `block`; returns whether it became a row. Raises `RecordRejected` for an unusable line."""
    if not line.strip():
        return False
    if kind == "rejects":
        reject = _reject(line)
        block.rejects.append(reject)
        block.reject_reasons[str(reject.get("reject_reason", "none given"))] += 1
    usable = read_line(line, cuts=kind == "cuts")
    if usable is None:
        block.num_skipped += 1
        return False
    row = {name: decode_value(raw) for name, raw in usable.fields.items()}
    block.rows.append(row_of_cut(row) | {"duration": usable.duration} if kind == "cuts" else row)
    return True


def _reject(line: bytes) -> Row:
    try:
        reject: Row = decode_json(line, dict[str, Any])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {"manifest_text": line.decode("utf-8", "replace")}
    return reject


def row_of_cut(cut: Any) -> Row:
    """The row of a lhotse cut: its fields by NeMo's names, and the `custom` fields of it and its first supervision.

    Raises `RecordRejected` if the line is not a cut. The row of a `MixedCut` has no duration.
    """
    try:
        supervision: Row = next(iter(cut.get("supervisions") or ()), {})
        custom = supervision.get("custom") or {}
        row: Row = {**custom, **(cut.get("custom") or {}), "id": cut["id"]}
        for name in ("audio_filepath", "offset"):  # the recording names the audio
            row.pop(name, None)
        if "duration" in cut:
            row["duration"] = cut["duration"]
        names = ("text", "speaker", "language")
        row |= {name: supervision[name] for name in names if supervision.get(name) is not None}
        recording = cut.get("recording") or {}
        if "sampling_rate" in recording:
            row["sampling_rate"] = recording["sampling_rate"]
        sources = [source for source in recording.get("sources") or () if source["type"] == "file"]
        if sources:
            row |= {"audio_filepath": _file(sources[0]["source"]), "offset": _start(cut.get("start") or 0.0)}
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise RecordRejected(RejectReason.BAD_FIELD, f"the line is not a lhotse cut ({error!r})") from None
    return row


def _file(value: Any) -> str:
    if type(value) is not str or not value:
        raise RecordRejected(RejectReason.BAD_FIELD, f"the source of the recording is {value!r}; it must be a path")
    return value


def _start(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= MAX_SECONDS:
        raise RecordRejected(RejectReason.BAD_OFFSET, f"the cut starts at {value!r}; it must be a number of seconds")
    return float(value)


def texts(rows: Iterable[Row], name: str) -> list[str]:
    """One field of all rows as text: "" if a row does not have it; a value that is not a text is converted by `str`."""
    return [value if type(value := row.get(name)) is str else "" if value is None else str(value) for row in rows]
