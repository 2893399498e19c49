"""The account of a recording: each second of it is in a segment, in a pause, in overlap, or rejected."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from prepcli.commands.segment.packing import Piece
from prepcli.engine.publishing.publish import AccountingError
from prepcli.errors import RejectReason
from prepcli.interface.printing import number_of

PARTS = ("segments", "pauses", "overlap", "rejects")
"""The parts of the seconds of recordings, which add up to them."""
SEGMENTS, RECORDINGS = "segments", "recordings"
_SPARSE = "sparse: "
_SPARSE_SHARE, _SPARSE_SECONDS = 0.2, 60.0
"""A recording of so many seconds, of which texts with times cover less than this share, is counted as sparse."""
_IN = "in"
_BINS = 10
_WIDTH = 30


def samples_of(pieces: Sequence[Piece], length: int) -> dict[str, int]:
    """The number of samples in each of `PARTS`, for the pieces of a recording of `length` samples.

    `overlap` are samples that are left out because words or lines overlap, less those that are in two pieces.

    Raises:
        AccountingError: a piece reaches beyond the recording, or the one before it, which is left out: a bug.
    """
    counts = dict.fromkeys(PARTS, 0)
    before, was_left_out = 0, True
    for piece in pieces:
        is_left_out = piece.reason is not None
        part = "rejects" if piece.reason not in (None, RejectReason.OVERLAP) else "overlap"
        counts[part if is_left_out else "segments"] += piece.length
        shared = before - piece.start
        if not 0 <= piece.start < piece.end <= length or (shared > 0 and was_left_out):
            raise AccountingError(f"{piece} of {length} samples does not fit behind sample {before}")
        counts["overlap"] -= max(shared, 0)
        before, was_left_out = max(before, piece.end), is_left_out
    counts["pauses"] = length - sum(counts.values())
    return counts


def add_to(
    totals: Counter[str], pieces: Sequence[Piece], length: int, rate: int, longest: int, *, is_first: bool = True
) -> None:
    """Add a recording of `length` samples at `rate` Hz to the totals of a unit.

    `longest`: the samples of the longest possible segment, for the histogram. `is_first`: False for all parts of a
    recording but the first.
    """
    totals[RECORDINGS] += is_first
    totals[_seconds(_IN)] += length / rate  # type: ignore[assignment]
    for name, count in samples_of(pieces, length).items():
        totals[_seconds(name)] += count / rate  # type: ignore[assignment]
    for piece in pieces:
        if piece.reason is None:
            totals[SEGMENTS] += 1
            totals[_bin(min(piece.length * _BINS // longest, _BINS - 1))] += 1


def add_sparse(totals: Counter[str], pieces: Sequence[Piece], length: int, rate: int, name: str) -> None:
    """Count a recording of which texts with times cover little, as they do if they are those of another one.

    `name`: its audio and its texts; the totals keep the first of each unit.
    """
    covered = sum(piece.length for piece in pieces)
    if length >= _SPARSE_SECONDS * rate and covered < _SPARSE_SHARE * length:
        first = next((key for key in totals if key.startswith(_SPARSE)), f"{_SPARSE}{name}")
        totals[first] += 1


def add_rejected(totals: Counter[str], seconds: float) -> None:
    """Add a recording that is rejected as a whole to the totals of a unit."""
    totals[RECORDINGS] += 1
    for name in (_IN, "rejects"):
        totals[_seconds(name)] += seconds  # type: ignore[assignment]


def _seconds(part: str) -> str:
    return f"seconds {part}"


def _bin(number: int) -> str:
    return f"length {number}"


def details_of(totals: Mapping[str, float], longest: float, num_unread: int = 0) -> dict[str, Any]:
    """The details of the report: numbers, the account in seconds, and the histogram of lengths.

    `longest`: the seconds of the longest possible segment. `num_unread`: the number of records that were rejected
    before they were cut, so that nothing is known of their seconds.
    """
    seconds = {part: round(totals.get(_seconds(part), 0.0), 9) + 0.0 for part in (_IN, *PARTS)}
    unit, size = ("h", 3600) if seconds[_IN] >= 3600 else ("s", 1)
    shown = {part: f"{value / size:,.2f} {unit}" for part, value in seconds.items()}
    counts = [int(totals.get(_bin(number), 0)) for number in range(_BINS)]
    edges = [round(longest * number / _BINS, 3) for number in range(_BINS + 1)]
    unread = f", without {number_of(num_unread, 'record')} that cannot be read" if num_unread else ""
    return (
        {
            "recordings": int(totals.get(RECORDINGS, 0)),
            SEGMENTS: int(totals.get(SEGMENTS, 0)),
            "accounted": f"{shown[_IN]} in = " + " + ".join(f"{shown[part]} {part}" for part in PARTS) + unread,
            "seconds": seconds,
            "lengths": {"edges": edges, "segments": counts},
        }
        | ({"lengths of segments": _bars(edges, counts)} if any(counts) else {})
        | _few_texts({key: int(count) for key, count in totals.items() if key.startswith(_SPARSE)})
    )


def _few_texts(sparse: Mapping[str, int]) -> dict[str, str]:
    if not sparse:
        return {}
    count, name = sum(sparse.values()), next(iter(sparse)).removeprefix(_SPARSE)
    them, their, first = ("them", "their", "the first") if count > 1 else ("it", "its", "it")
    covers = f"the texts of {number_of(count, 'recording')} cover less than a fifth of {them}"
    return {"few texts": f"{covers}: check that they are {their} own; {first} is {name}"}


def _bars(edges: Sequence[float], counts: Sequence[int]) -> str:
    most = max(counts)
    rows = zip(edges, edges[1:], counts, strict=False)
    return "\n".join(
        f"{low:>6g} to {high:<6g} s {count:>9,} {'█' * round(_WIDTH * count / most)}".rstrip()
        for low, high, count in rows
    )
