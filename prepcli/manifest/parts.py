"""The columns that a scan reads, and its result for one range of a file."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from prepcli.errors import RejectReason

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Problem:
    """An unusable line; `start` and `length` in bytes.

    `line` counts all lines: in an index from 1 within the file, in a `Part` from 0 within the part.
    """

    source: int
    line: int
    start: int
    length: int
    reason: RejectReason
    detail: str


@dataclass(frozen=True, slots=True)
class FieldKey:
    """A key made of one field of a line: its text, or its integer as text.

    `function` (a module-level one, or a partial of one) may raise `RecordRejected`. A line without the field becomes a
    `Problem`, but with `is_optional` its key is empty, as is that of a line with another type of value.
    """

    field: str
    function: Callable[[str], str]
    is_optional: bool = False

    def of(self, value: object) -> str:
        """The key for a value that is text or an integer; for others it is optional."""
        return "" if self.is_optional and type(value) not in (str, int) else self.function(str(value))


KeyFunction: TypeAlias = Callable[[str], str] | FieldKey
"""The source of a key: a function of `audio_filepath`, which must not reject, or a `FieldKey`."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A function that gives an integer for each usable line: from its bytes, or from some fields of a NeMo record.

    `function` (with equality, to be sent to workers) gets a block of whole lines, or with `fields` for each of these a
    list of its values, text or None, line by line. For a single line it may raise `RecordRejected`.
    """

    function: Callable[..., list[int]]
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParquetColumns:
    """The columns of a Parquet file with the audio and with its duration (seconds), which a file may not have."""

    audio: str = "audio"
    duration: str = "duration"


@dataclass(frozen=True, slots=True)
class Columns:
    """What to keep of each line in addition to its duration."""

    spans: bool = True
    """Byte ranges, offsets, and all problems; without it only the first problem of a range is described."""
    digest: bool = True
    keys: tuple[tuple[str, Callable[[str], str]], ...] = ()
    """Names, and functions of `audio_filepath` whose 64-bit hashes are kept."""
    field_keys: tuple[tuple[str, FieldKey], ...] = ()
    """The same for other fields; these functions may reject a line."""
    cuts: bool = False
    """The lines are lhotse cuts, not NeMo records."""
    parquet: ParquetColumns | None = None
    """The files are Parquet; each row is read as a line."""
    seconds_of: Callable[[bytes, str], float] | None = None
    """For Parquet without durations: a module-level function that gives the seconds of encoded audio with a name."""
    numbers: Numbers | None = None
    looks_for: Callable[[bytes], bool] | None = None
    """A module-level function that gets blocks of whole lines until it has found something."""


class WholeFile(NamedTuple):
    """A file all of whose lines are usable, in a `Part` with the lines of several files."""

    digest: bytes
    num_bytes: int
    num_records: int


@dataclass(slots=True)
class Part:
    """The columns of the lines that begin in one range; line numbers count from 0 within it."""

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
    files: list[WholeFile] = field(default_factory=list)
    """The files, where the lines are those of several whole ones; `digest` is empty then."""
