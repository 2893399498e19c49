"""The columns that a scan reads, and the result of a scan for one range of a file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from prepcli.errors import RejectReason

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Problem(msgspec.Struct, array_like=True):
    """An unusable line; `start` and `length` in bytes. UTF-8 can encode `detail`.

    `line` counts all lines: in an index from 1 within the file, in a `Part` from 0 within the part.
    """

    source: int
    line: int
    start: int
    length: int
    reason: RejectReason
    detail: str


class FieldKey(NamedTuple):
    """A key from one field of a line: its text, or its integer as text.

    `function` (module-level, or a partial of such a function) may raise `RecordRejected`. A line without the field, or
    with another type of value, becomes a `Problem`; with `is_optional`, its key is empty.
    """

    field: str
    function: Callable[[str], str]
    is_optional: bool = False

    def of(self, value: object) -> str:
        """The key for a value that is text or an integer; other values are allowed only for an optional key."""
        return "" if self.is_optional and type(value) not in (str, int) else self.function(str(value))


KeyFunction: TypeAlias = Callable[[str], str] | FieldKey
"""The source of a key: a function of `audio_filepath` that rejects nothing, or a `FieldKey`."""


class Numbers(NamedTuple):
    """A function that computes an integer for each usable line: from its bytes, or from fields of a NeMo record.

    `function` (which has equality, to be sent to workers) gets a block of whole lines; with `fields`, a list with the
    values of these fields, text or None, for each line. For a single line it may raise `RecordRejected`.
    """

    function: Callable[..., list[int]]
    fields: tuple[str, ...] = ()


class Collector(Protocol):
    """Computes values for a command from the fields of the usable records of a range.

    Attributes:
        fields: the fields that it gets.
    """

    fields: Sequence[str]

    def add(self, values: Sequence[list[Any]]) -> None:
        """Add consecutive records: for each field, the decoded values, None if the field is missing or null.

        Raises:
            RecordRejected: a record cannot be used; none of them may have been added then.
        """

    def result(self) -> Any:
        """Return the values that were computed from all added records; they are sent to another process."""


class ParquetColumns(NamedTuple):
    """The columns of a Parquet file with the audio and, if it has one, with the duration (seconds)."""

    audio: str = "audio"
    duration: str = "duration"


class Columns(NamedTuple):
    """The data to keep of each line in addition to its duration."""

    spans: bool = True
    """Whether byte ranges, offsets and all problems are kept; otherwise only the first problem of a range is kept."""
    digest: bool = True
    keys: tuple[tuple[str, Callable[[str], str]], ...] = ()
    """Names, and functions of `audio_filepath` whose 64-bit hashes are kept."""
    field_keys: tuple[tuple[str, FieldKey], ...] = ()
    """Names, and functions of other fields whose 64-bit hashes are kept; these functions may reject a line."""
    cuts: bool = False
    """Whether the lines are lhotse cuts, not NeMo records."""
    parquet: ParquetColumns | None = None
    """Whether the files are Parquet; then each row is read as a line."""
    seconds_of: Callable[[bytes, str], float] | None = None
    """A module-level function that returns the seconds of encoded audio, given its name too; for Parquet without
    durations."""
    numbers: Numbers | None = None
    collector: Callable[[], Collector] | None = None
    """Makes the collector of a range; it can be sent to workers. Not with `field_keys` or `numbers` of fields."""
    looks_for: Callable[[bytes], bool] | None = None
    """A module-level function that gets blocks of whole lines until it has returned True."""


@dataclass(slots=True)
class Part:
    """The columns of the lines that begin in one range; line numbers count from 0 within the range."""

    digest: bytes
    num_bytes: int
    num_lines: int = 0
    num_skipped: int = 0
    num_problems: int = 0
    start: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    length: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    duration: Floats = field(default_factory=lambda: np.empty(0))
    offset: Floats = field(default_factory=lambda: np.empty(0))
    number: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """The results of `Columns.numbers`; empty without it."""
    keys: dict[str, npt.NDArray[np.uint64]] = field(default_factory=dict)
    found: bool = False
    """Whether `Columns.looks_for` has found something."""
    gaps: list[int] = field(default_factory=list)
    """Lines without a usable record, ascending."""
    problems: list[Problem] = field(default_factory=list)
    collected: Any = None
    """The result of `Columns.collector`."""
