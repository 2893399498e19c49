"""The gate: decides once, for all readers, all commands and `verify`, what the values of a source mean.

A reader knows where its files lie and how a line is split. The rest is decided here: which values are missing
(`is_missing`), what a field may hold (`checked_fields`), where a segment may lie (`fit`), and that an explicit id
occurs once (`SeenIds`, `FirstPlaces`). A record that cannot be used is a reject that says why; nothing is guessed.
"""

import json
import math
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from prepcli.errors import RecordRejected, RejectReason

TEXT_FIELDS = ("text", "normalized_text")
"""Fields that hold a string, in every record that has them."""
NAME_FIELDS = ("speaker", "lang", "id")
"""Fields that hold a string or an integer, in every record that has them: many corpora number their speakers."""
Name: TypeAlias = str | int | None
FIELD_TYPES: Mapping[str, Any] = dict.fromkeys(TEXT_FIELDS, str | None) | dict.fromkeys(NAME_FIELDS, Name)
"""The type of each field that the gate checks, as msgspec decodes it. A value of another type is a reject."""
RATE_FIELDS = ("sampling_rate", "sample_rate")
"""Fields with the sampling rate (Hz) of the audio. NeMo's loader obeys the first that a plain line has, without looking
at the audio (nemo_adapters.py, `LazyNeMoIterator`): a wrong one fails in training."""
ROUNDING = 0.01
"""Maximum seconds by which a segment may lie outside of its container because its times are rounded: Kaldi's two
decimals, Common Voice's milliseconds, and the one sample by which lhotse's sums differ are all below it."""
MAX_SECONDS = 1e9
"""Maximum duration and offset, 32 years: longer ones are mistakes, and do not fit the integers that count samples."""
EXACT = 1e-9
"""Seconds by which the sum of two decimals may differ from their exact sum."""


def is_missing(value: object) -> bool:
    """Whether a value is none at all: null, or NaN, which pandas writes for an empty cell."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def check_field(name: str, value: object) -> None:
    """Check a value that is not missing, if the gate knows the field `name`.

    Raises:
        RecordRejected: BAD_FIELD if the field may not hold such a value.
    """
    if name in TEXT_FIELDS and not isinstance(value, str):
        raise RecordRejected(RejectReason.BAD_FIELD, f"{name} is {_shown(value)}; it must be a string")
    if name in NAME_FIELDS and (not isinstance(value, str | int) or isinstance(value, bool)):
        raise RecordRejected(RejectReason.BAD_FIELD, f"{name} is {_shown(value)}; it must be a string or an integer")


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record, under their names in a NeMo manifest, without those that are missing.

    Raises:
        RecordRejected: BAD_FIELD if a field may not hold its value.
    """
    # NaN alone differs from itself: this is `is_missing`, without a call for each field.
    present = {name: value for name, value in fields.items() if value is not None and value == value}
    for name in FIELD_TYPES:
        if name in present and type(present[name]) is not str:
            check_field(name, present[name])
    return present


def rate_changes(fields: Collection[str], rate: int) -> dict[str, int]:
    """The `RATE_FIELDS` that a record has, with the sampling rate (Hz) of its audio."""
    return {name: rate for name in RATE_FIELDS if name in fields}


def check_rate(name: str, value: object, rate: int) -> None:
    """Check the value of one of `RATE_FIELDS`, for audio with the sampling rate `rate` (Hz).

    Raises:
        RecordRejected: BAD_FIELD if a reader that obeys the field would take the audio for other audio.
    """
    if not is_missing(value) and value != rate:
        raise RecordRejected(RejectReason.BAD_FIELD, f"{name} is {_shown(value)}, but the audio has {rate} Hz")


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."


class Span(NamedTuple):
    """A segment within its container, in seconds. `moved`: whether an end was set to a bound of the container."""

    start: float
    duration: float
    moved: bool


def fit(start: float, duration: float, length: float, what: str, container: str, rate: float | None = None) -> Span:
    """Return the segment from `start` on that lasts `duration`, within a container that lasts `length` seconds.

    An end that lies outside because times are rounded, by at most `ROUNDING` or one sample, is set to the bound.

    Args:
        start: seconds from the start of the container.
        duration: seconds.
        length: seconds; infinite if the length is not known yet.
        what: the name of the segment for messages, such as `the supervision x`.
        container: the name of the container for messages, such as `its cut y`.
        rate: the sampling rate (Hz), if it is known: one sample may be more than `ROUNDING`.

    Raises:
        RecordRejected: BAD_DURATION for a segment without a length, BAD_OFFSET for one that lies outside.
    """
    end = start + duration
    if not (math.isfinite(start) and math.isfinite(duration)):
        raise RecordRejected(RejectReason.BAD_OFFSET, f"{what} begins at {start} s and lasts {duration} s")
    if not duration > 0:
        raise RecordRejected(RejectReason.BAD_DURATION, f"{what} lasts {duration:.10g} s, so it has no audio")
    most = (max(ROUNDING, 1 / rate) if rate else ROUNDING) + EXACT
    if start < -most:
        raise RecordRejected(RejectReason.BAD_OFFSET, f"{what} begins {-start:.3f} s before {container}")
    if end > length + most or start >= length:
        raise RecordRejected(
            RejectReason.BAD_OFFSET,
            f"{what} lies from {start:.3f} to {end:.3f} s, but {container} lasts {length:.3f} s",
        )
    if start >= 0 and end <= length + EXACT:
        return Span(start, duration, moved=False)
    begin, stop = max(start, 0.0), min(end, length)
    if not stop > begin:
        raise RecordRejected(RejectReason.BAD_OFFSET, f"{what} ends at {end:.3f} s, before {container} begins")
    return Span(begin, round(stop - begin, 9), moved=True)


def note_on_moved(count: int, containers: str) -> str:
    """The note on `count` segments whose ends were set to a bound of their containers (`fit`)."""
    what, end = ("1 segment", "ends") if count == 1 else (f"{count:,} segments", "end")
    return f"{what} lay up to 10 ms outside of {containers}, because times are rounded, and {end} at the bound"


def text_hash(text: str) -> int:
    """A hash of 64 bits with a sign, the same in all processes; Python's own differs, and engines start processes."""
    return _xxh3()(text.encode("utf-8", "surrogatepass")) - (1 << 63)


def text_hashes(texts: Iterable[str]) -> list[int]:
    """The hash of each text, see `text_hash`, in half the time."""
    digest = _xxh3()
    return [digest(text.encode("utf-8", "surrogatepass")) - (1 << 63) for text in texts]


@cache
def _xxh3() -> Callable[[bytes], int]:
    import xxhash  # not at the top: `--help` needs only the names of fields

    return xxhash.xxh3_64_intdigest


class SeenIds:
    """Notes explicit ids in one pass, in 8 bytes each, to find those that may occur several times."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, id: str) -> None:
        """Note an id."""
        self._hashes.append(text_hash(id))

    def repeated(self) -> frozenset[int]:
        """The hashes that were added several times; empty if all ids are different.

        Ids that differ may have the same hash: a second pass with `FirstPlaces` compares the ids themselves.
        """
        return repeated_hashes(self._hashes)


def repeated_hashes(hashes: "array[int]") -> frozenset[int]:
    """The numbers of 64 bits that `hashes` has several times."""
    import numpy as np  # its import takes a fifth of the start of make-manifest

    in_order = np.sort(np.frombuffer(hashes, np.int64)) if hashes else np.empty(0, np.int64)
    return frozenset(in_order[1:][in_order[1:] == in_order[:-1]].tolist())


class FirstPlaces:
    """Rejects the second and each further record with the same explicit id, in a pass over all records in order."""

    def __init__(self, repeated: frozenset[int] | None = None) -> None:
        """`repeated`: the hashes that `SeenIds.repeated` has found; None to keep the place of each id, of a shard."""
        self._repeated = repeated
        self._places: dict[str, str] = {}

    def check(self, id: str, place: str) -> None:
        """Note the record `id` at `place`, such as `text:12`.

        Raises:
            RecordRejected: BAD_FIELD with both places if a record with this id was there before.
        """
        if self._repeated is not None and text_hash(id) not in self._repeated:
            return
        first = self._places.setdefault(id, place)
        if first != place:
            detail = f"the id {id} is there twice, in {first} and in {place}; the first is used"
            raise RecordRejected(RejectReason.BAD_FIELD, detail)
