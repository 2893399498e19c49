"""Rejects: a file that is itself a manifest, with one line per unusable record and the reason."""

import contextlib
import heapq
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.interface.printing import number_of
from prepcli.storage.containers import BEGINNING, MOVED, SEPARATOR, place_of
from prepcli.storage.paths import blocks_of

RETRYABLE = (
    RejectReason.MISSING_AUDIO.value,
    RejectReason.MISSING_TRANSCRIPT.value,  # a file next to the audio, or the list of a published corpus
    RejectReason.UNREADABLE_AUDIO.value,
    RejectReason.BEYOND_AUDIO.value,  # the file was cut short, and may be whole now
    RejectReason.OUT_OF_MEMORY.value,  # another device may have enough
)


_NOT_APPENDED = (
    (b"t_", b'"reject_', b'"manifest_'),
    (SEPARATOR.encode(), SEPARATOR.encode()),
    (b"aN", b"NaN"),
    (b"nf", b"Infinity"),
)
"""The texts that lines must not hold to become rejects without being parsed: a pair of bytes, and the texts with it."""
_SEARCHED_BYTES = 256 << 10
"""Bytes that are searched at a time, so that they stay in the cache."""


class Origin(NamedTuple):
    """The source of a record: the path of its manifest and its line number, counted from 1."""

    manifest: str
    line: int


def reject_line(line: bytes, rejected: RecordRejected, origin: Origin) -> bytes:
    r"""One JSON line: the original record plus `reject_reason`, `reject_detail`, `manifest_line`, `manifest_filepath`.

    If the audio is in a container, fields with its place are added. Numbers that JSON does not have (NaN, Infinity)
    become null. If `line` is not a JSON object in UTF-8 that Python can read, a field `manifest_text` replaces the
    record. It has the text of `line`, with undecodable bytes as `\xNN`.
    """
    fields = None if rejected.reason is RejectReason.BROKEN_JSON else _fields_of(line)
    if fields is None:
        text = line.decode("utf-8", errors="backslashreplace").strip()
        fields = {"manifest_text": msgspec.Raw(msgspec.json.encode(text))}
    fields.pop(BEGINNING, None)
    fields.pop(MOVED, None)
    _add_place(fields)
    fields["reject_reason"] = _raw(rejected.reason.value)
    fields["reject_detail"] = _raw(rejected.detail)
    fields["manifest_line"] = msgspec.Raw(b"%d" % origin.line)
    fields["manifest_filepath"] = _raw(origin.manifest)
    return msgspec.json.encode(fields) + b"\n"


def _fields_of(line: bytes) -> dict[str, msgspec.Raw] | None:
    """The fields of a record, with null for each NaN and Infinity; None if the line is not a JSON object in UTF-8."""
    with contextlib.suppress(ValueError, RecursionError):  # msgspec and json raise kinds of ValueError
        line.decode("utf-8")  # msgspec does not check strings that it copies
        try:
            return msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError:
            return msgspec.json.decode(msgspec.json.encode(json.loads(line)), type=dict[str, msgspec.Raw])
    return None


def can_append(data: bytes) -> bool:
    """Whether the lines in `data` can become rejects without being parsed, by appending the texts of `to_append`.

    Returns False if `data` may have a field of a reject, the path of audio in a container (with `SEPARATOR`), NaN or
    Infinity: NaN and Infinity are not valid JSON. The caller checks that each line ends with a brace.
    """
    return not any(holds(data, pair, texts) for pair, *texts in _NOT_APPENDED)


def holds(data: bytes, pair: bytes, texts: Iterable[bytes]) -> bool:
    """Whether `data` holds one of the `texts`; `pair`: two bytes that all of them hold, and that are rare elsewhere.

    A search for the pair in NumPy takes a quarter of the time of a search for each text by `bytes`.
    """
    import numpy as np  # a command that makes few rejects starts without it

    wanted = np.frombuffer(pair, np.uint16)
    for at in range(0, len(data) - 1, _SEARCHED_BYTES):
        for first in (at, at + 1):
            count = min(_SEARCHED_BYTES, len(data) - first) // 2
            if (np.frombuffer(data, np.uint16, count, first) == wanted).any():
                return any(text in data for text in texts)
    return False


def num_lines(block: bytes) -> int:
    """The number of newlines in a block; in a large one, NumPy counts in a fifth of the time."""
    if len(block) < _SEARCHED_BYTES:
        return block.count(b"\n")
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))


def to_append(rejected: RecordRejected, manifest: str) -> tuple[bytes, bytes]:
    """The two texts that turn a manifest line into a reject.

    The reject is the line without its last brace, then the first text, the line number, and the second text.
    """
    before = b'"reject_reason":%b,"reject_detail":%b' % (_raw(rejected.reason.value), _raw(rejected.detail))
    return b',%b,"manifest_line":' % before, b',"manifest_filepath":%b}\n' % _raw(manifest)


def _add_place(fields: dict[str, msgspec.Raw]) -> None:
    """Add fields with the place of audio that is in a container: the container, and the member or the row in it.

    Existing fields stay as they are. For other audio, nothing is added.
    """
    path = fields.get("audio_filepath")
    if path is None or SEPARATOR.encode() not in bytes(path):
        return
    named = msgspec.json.decode(path)
    if isinstance(named, str) and (place := place_of(named)) is not None:
        for name, value in place.fields().items():
            fields.setdefault(name, _raw(value))


@lru_cache(maxsize=64, typed=True)  # a rule may leave out millions of records for one reason
def _raw(value: Any) -> msgspec.Raw:
    # A path from the file system may contain bytes that are not UTF-8 (surrogates in Python); they become '?'.
    if isinstance(value, str):
        value = value.encode("utf-8", errors="replace").decode("utf-8")
    return msgspec.Raw(msgspec.json.encode(value))


class _OriginFields(msgspec.Struct):
    manifest_line: int
    manifest_filepath: str


def joined_rejects(
    planned: Iterable[bytes] | None, unit_files: Sequence[Path], manifests: Iterable[str]
) -> Iterator[bytes]:
    """All reject lines in the order of the inputs, as blocks of one or many lines (see `merge_rejects`).

    `planned`: the lines of the plan; None if it has none, and the files have the right order one after the other.
    """
    if planned is None:
        return chain.from_iterable(map(blocks_of, unit_files))
    return merge_rejects(planned, unit_files, manifests)


def merge_rejects(planned: Iterable[bytes], unit_files: Iterable[Path], manifests: Iterable[str]) -> Iterator[bytes]:
    """All reject lines in the order of the inputs: by the place of their manifest in `manifests`, then by line number.

    The lines of `planned` already have this order and are streamed, because there may be many (a duration filter can
    exclude millions). The lines in `unit_files` are sorted here: they are bad data, limited by `--max-rejects` in any
    useful run.
    """
    number = {path: index for index, path in enumerate(dict.fromkeys(manifests))}
    decoder = msgspec.json.Decoder(_OriginFields)

    def key(line: bytes) -> tuple[int, int]:
        fields = decoder.decode(line)
        return number.get(fields.manifest_filepath, len(number)), fields.manifest_line

    from_units = [line for path in unit_files for line in io.BytesIO(path.read_bytes())]
    yield from heapq.merge(planned, sorted(from_units, key=key), key=key)


def num_retryable(rejects: Mapping[str, int]) -> int:
    """The number of rejects that `--retry-rejects` tries again."""
    return sum(rejects.get(reason, 0) for reason in RETRYABLE)


def is_asked_for(reason: str) -> bool:
    """Whether the user's own options leave out records for this reason; such records are not bad data."""
    return RejectReason(reason).is_asked_for


def is_unlisted(reason: str, command: str) -> bool:
    """Whether rejects of `command` for this reason are recordings of a published corpus that none of its lists names.

    Complete copies of some corpora have such recordings, so that they are not bad data.
    """
    return reason == RejectReason.MISSING_TRANSCRIPT.value and command.startswith("download ")


def is_bad(reason: str, command: str) -> bool:
    """Whether rejects of `command` for this reason are bad data: those that count for `--max-rejects`."""
    return not is_asked_for(reason) and not is_unlisted(reason, command)


def commonest(rejects: Mapping[str, int]) -> str:
    """The three most frequent reasons with their counts, as one text: `5 missing_audio, 2 bad_field`."""
    in_order = sorted(rejects.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{number:,} {reason}" for reason, number in in_order[:3])


class _Reject(msgspec.Struct):
    reject_reason: str
    reject_detail: str
    manifest_line: int


def first_if_all_alike(rejects: Mapping[str, int], listed_in: str, command: str) -> str:
    """If all bad records have the same reason, the text `line <number>: <detail>` for the first of them; else "".

    `rejects`: counts by reason. `listed_in`: the path of the file with the rejects. Returns "" also if this file cannot
    be read.
    """
    reasons = [reason for reason in rejects if is_bad(reason, command)]
    if len(reasons) != 1:
        return ""
    with contextlib.suppress(OSError), Path(listed_in).open("rb") as file:
        for line in file:
            reject = msgspec.json.decode(line, type=_Reject)
            if reject.reject_reason == reasons[0]:
                return f"line {reject.manifest_line}: {reject.reject_detail}"
    return ""


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum number of rejects: a share of the input records (below 1), or a count."""

    limit: float = 0.05

    def __post_init__(self) -> None:
        if not self.limit >= 0 or self.limit == float("inf") or (self.limit > 1 and self.limit % 1):
            raise UsageError(f"{option('--max-rejects')} takes a share below 1 or a count, not {self.limit}")

    def exceeded(self, rejects: Mapping[str, int], records_in: int, command: str = "") -> bool:
        """Whether there are too many bad records (`is_bad`).

        `rejects`: counts by reason; `records_in`: the number of input records; `command`: the command of the run.
        """
        bad = sum(count for reason, count in rejects.items() if is_bad(reason, command))
        return bad > (self.limit * records_in if self.limit < 1 else self.limit)

    def __str__(self) -> str:
        return f"{self.limit:.1%} of the records" if self.limit < 1 else number_of(self.limit, "record")
