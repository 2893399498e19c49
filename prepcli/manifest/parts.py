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
    """An unusable line of the manifest with the number `source`: its position, and why it cannot be used.

    `line` is the number of the line; blank lines are counted too. In an index it counts from 1 within the file, in a
    `Part` from 0 within the part. `start` and `length` are in bytes. `detail` can be encoded as UTF-8.
    """

    source: int
    line: int
    start: int
    length: int
    reason: RejectReason
    detail: str


class FieldKey(NamedTuple):
    """A key that a function computes from one field of a line.

    The field must be text or an integer. `function` gets it as text and returns the key; it is a module-level function,
    or a partial of one, and may raise `RecordRejected`. If the field is missing, is empty or has another type, the line
    is a `Problem`. With `is_optional`, the line is used even if the field is missing or has another type: then its key
    is empty. With `takes_any`, the function gets the value as it is, of any type.
    """

    field: str
    function: Callable[[Any], str]
    is_optional: bool = False
    takes_any: bool = False

    def of(self, value: object) -> str:
        """The key for a value that is text or an integer; for an optional key, other values give an empty key."""
        if self.takes_any:
            return self.function(value)
        return "" if self.is_optional and type(value) not in (str, int) else self.function(str(value))


KeyFunction: TypeAlias = Callable[[str], str] | FieldKey
"""The source of a key: a function of `audio_filepath` that never raises `RecordRejected`, or a `FieldKey`."""


class Numbers(NamedTuple):
    """A function that computes an integer for each usable line: from its bytes, or from fields of a NeMo record.

    If `fields` is empty, `function` gets the bytes of a block of whole lines. Else it gets one list per field: for each
    line, the value of the field, text or None. It returns the integers of all lines.

    The function is sent to workers. Functions that compute the same must compare equal, because data sets with equal
    functions share workers. If the function raises `RecordRejected` for several lines, it is called again with fewer
    lines, down to one, so that only the lines at fault are rejected.
    """

    function: Callable[..., list[int]]
    fields: tuple[str, ...] = ()


class Collector(Protocol):
    """Computes values for a command from the fields of the usable records of a range.

    Attributes:
        fields: the names of the fields whose values `add` gets.
    """

    fields: Sequence[str]

    def add(self, values: Sequence[list[Any]]) -> None:
        """Add consecutive records.

        `values` has a list for each field, with the decoded value of each record; None if it is missing or null.

        Raises:
            RecordRejected: a record cannot be used; then no record of this call has been added.
        """

    def result(self) -> Any:
        """Return the values that were computed from all added records; they are sent to another process."""


class ParquetColumns(NamedTuple):
    """The names of two columns of a Parquet file: the audio, and its duration in seconds.

    A file may lack the column of durations.
    """

    audio: str = "audio"
    duration: str = "duration"


class Columns(NamedTuple):
    """The data that a scan keeps of each line, in addition to its duration."""

    spans: bool = True
    """Whether the bytes of records, and all problems, are kept; if not, only the first problem is."""
    digest: bool = True
    offsets: bool = True
    """Whether the offsets are kept, if the bytes of records are."""
    keys: tuple[tuple[str, Callable[[str], str]], ...] = ()
    """Names of keys, each with a function of `audio_filepath`; the 64-bit hashes of its results are kept."""
    field_keys: tuple[tuple[str, FieldKey], ...] = ()
    """Names of keys, each with a `FieldKey`, which may reject a line; the 64-bit hashes of its results are kept."""
    cuts: bool = False
    """Whether the lines are lhotse cuts, not NeMo records."""
    parquet: ParquetColumns | None = None
    """For Parquet files, the names of their columns; each row is read as a line. None for files of lines."""
    seconds_of: Callable[[bytes, str], float] | None = None
    """A module-level function that gets the encoded audio and the name (id) of a row, and returns its duration in
    seconds; needed only for Parquet files without durations."""
    numbers: Numbers | None = None
    collector: Callable[[], Collector] | None = None
    """A function that makes a collector for one range; it is called in the worker process that reads the range.

    It must be None if there are `field_keys` or `Numbers.fields`."""
    looks_for: Callable[[bytes], bool] | None = None
    """A module-level function that searches blocks of whole lines until it returns True; the result is `Part.found`."""
    counts_moved: bool = False
    """Whether the lines with the field `MOVED` of a catalogue are counted; the result is `Part.num_moved`."""


@dataclass(slots=True)
class Part:
    """The result of reading the lines that begin in one range: columns of their usable records, counts, and problems.

    Line numbers count from 0 within the range.
    """

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
    num_moved: int = 0
    """Number of lines with the field `MOVED`; 0 without `Columns.counts_moved`."""
    gaps: list[int] = field(default_factory=list)
    """Numbers of the lines without a usable record, ascending."""
    problems: list[Problem] = field(default_factory=list)
    collected: Any = None
    """The result of `Columns.collector`."""
