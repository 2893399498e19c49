"""Counts over all lines: memory holds a few numbers per record, and counts per speaker."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.commands.inspect.audio import NamedFile
from prepcli.commands.inspect.examples import MEASURES, Examples, Values
from prepcli.commands.inspect.rows import BlockRows, LineKind, Row, read_rows, texts
from prepcli.commands.inspect.sample import EvenSample
from prepcli.errors import UsageError
from prepcli.gate import MAX_SECONDS
from prepcli.manifest.scan import Range, blocks_of, ranges_of, workers_for
from prepcli.manifest.sources import check_file
from prepcli.processes.pools import map_in_order
from prepcli.storage.containers import own_name
from prepcli.storage.paths import size_of

NUM_FIRST = 10
"""Number of first records that are kept with all fields."""

_FIELDS = {
    "context_similarity": "context_speaker_similarity",
    **{name: name for name in ("bandwidth", "snr", "loudness", "speech_share")},
}
"""Maps measures to the fields of records that hold them. `prepcli score` makes all fields except the first."""
Floats32 = npt.NDArray[np.float32]
NUMBERS = ("lines", "records", "skipped", "segments", "without_text")
COUNTS = ("fields", "extensions", "cut_sampling_rates", "reject_reasons", "unusable")


@dataclass(slots=True)
class Share:
    """The number of records and the seconds of audio of a speaker, a language or a file."""

    records: int = 0
    seconds: float = 0.0

    def add(self, other: "Share") -> None:
        """Add the counts of another share."""
        self.records += other.records
        self.seconds += other.seconds


@dataclass
class Tally:
    """Counts over some lines of one `kind`, and a sample of `wanted` of their audio files.

    `columns` maps the name of each measure to arrays. Joined, these arrays have one number per record that has the
    measure. A field has the same meaning as the field of this name in `Inspection`.
    """

    kind: LineKind
    wanted: int
    lines: int = 0
    records: int = 0
    skipped: int = 0
    segments: int = 0
    """Number of records with an offset above 0."""
    without_text: int = 0
    seconds: float = 0.0
    fields: Counter[str] = field(default_factory=Counter)
    extensions: Counter[str] = field(default_factory=Counter)
    cut_sampling_rates: Counter[int] = field(default_factory=Counter)
    """Number of cuts by sampling rate (Hz)."""
    reject_reasons: Counter[str] = field(default_factory=Counter)
    unusable: Counter[str] = field(default_factory=Counter)
    """Counts of unusable lines by reason."""
    first_problem: tuple[int, str] | None = None
    """The first unusable line, counted from 1, and its problem."""
    groups: dict[tuple[str, str], Share] = field(default_factory=dict)
    """Records and seconds by language and speaker; either name may be empty."""
    columns: dict[str, list[Floats32]] = field(default_factory=lambda: {measure.name: [] for measure in MEASURES})
    first_records: list[Row] = field(default_factory=list)
    examples: Examples = field(default_factory=Examples)

    def __post_init__(self) -> None:
        self.named: EvenSample[NamedFile] = EvenSample(self.wanted)

    def add_lines(self, data: bytes) -> None:
        """Count a block of complete lines."""
        block = read_rows(data, self.kind)
        if block.problems and self.first_problem is None:
            line, rejected = block.problems[0]
            self.first_problem = (self.lines + line, rejected.detail)
        self.unusable.update(rejected.reason.value for _, rejected in block.problems)
        self.reject_reasons.update(block.reject_reasons)
        self._add_rows(block)
        self.lines += block.num_lines
        self.skipped += block.num_skipped

    def _add_rows(self, block: BlockRows) -> None:
        rows = block.rows
        self.records += len(rows)
        shown = block.rejects if self.kind == "rejects" else rows
        self.first_records += shown[: max(NUM_FIRST - len(self.first_records), 0)]
        fields = Counter(chain.from_iterable(rows))
        self.fields.update(fields)
        durations = [row["duration"] for row in rows]
        seconds = np.array(durations, np.float64)
        self.seconds += float(seconds.sum())
        if self.kind == "cuts":
            rates = (row.get("sampling_rate") for row in rows)
            self.cut_sampling_rates.update(rate for rate in rates if type(rate) is int)
        self._add_files([row for row in rows if "audio_filepath" in row])
        _count(self.groups, zip(_languages(rows), texts(rows, "speaker"), strict=True), durations)
        measured = {
            "duration": (np.arange(len(rows)), seconds),
            "chars_per_second": self._speeds(rows, seconds),
            **{name: _numbers(rows if field in fields else [], field) for name, field in _FIELDS.items()},
        }
        for name, (_, values) in measured.items():
            self.columns[name].append(values.astype(np.float32))
        self.examples.add(rows, block.lines, measured, self.lines)

    def _speeds(self, rows: list[Row], seconds: npt.NDArray[np.float64]) -> Values:
        chars = np.array(list(map(len, texts(rows, "text"))), np.float64)
        spoken = np.flatnonzero(chars)
        self.without_text += len(rows) - len(spoken)
        with np.errstate(over="ignore"):  # overflows only for mistakes, such as a text in 1e-300 s; the table shows it
            speeds = chars[spoken] / seconds[spoken]
        return spoken, np.minimum(speeds, np.finfo(np.float32).max).astype(np.float32)

    def _add_files(self, rows: list[Row]) -> None:
        named = [(row["audio_filepath"], row.get("offset") or 0.0, row["duration"]) for row in rows]
        self.named.add(named)
        self.segments += sum(offset > 0 for _, offset, _ in named)
        self.extensions.update(_extension(own_name(path)) for path, _, _ in named)

    def merge(self, other: "Tally") -> None:
        """Add the counts of `other`, whose lines come after those of this tally.

        `other` counts its lines from 1, so its line numbers are increased by `lines`.
        """
        self.examples.merge(other.examples, self.lines)
        if self.first_problem is None and other.first_problem is not None:
            self.first_problem = (self.lines + other.first_problem[0], other.first_problem[1])
        for name in (*NUMBERS, "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in COUNTS:
            getattr(self, name).update(getattr(other, name))
        for name, parts in other.columns.items():
            self.columns[name] += parts
        for key, share in other.groups.items():
            self.groups.setdefault(key, Share()).add(share)
        self.first_records += other.first_records[: max(NUM_FIRST - len(self.first_records), 0)]
        self.named.merge(other.named)


def tally_files(paths: Sequence[str], kind: LineKind, wanted: int, num_workers: int) -> Iterator[Tally]:
    """Count the lines of files with up to `num_workers` processes; yields one tally per file, in the order of `paths`.

    `wanted`: maximum number of audio files in the sample of a tally. Raises `UsageError` for missing, damaged and
    unreadable files, and for large files without a usable record; `IncompleteError` if a worker dies.
    """
    sizes = [size_of(check_file(path)) for path in paths]
    ranges = [ranges_of(path, size) for path, size in zip(paths, sizes, strict=True)]
    num_workers = workers_for(zip(paths, sizes, strict=True), num_workers)
    tasks = [task for of_file in ranges for task in of_file]
    results = map_in_order(partial(_tally_range, kind=kind, wanted=wanted), tasks, num_workers)
    for of_file in ranges:
        tally = Tally(kind, wanted)
        for _ in of_file:
            tally.merge(next(results))
        yield tally


def _tally_range(part: Range, kind: LineKind, wanted: int) -> Tally:
    tally = Tally(kind, wanted)
    for data in blocks_of(part):
        tally.add_lines(data)
        if not tally.records and tally.unusable.total() > 10_000:
            line, detail = tally.first_problem or (1, "")
            raise UsageError(f"{part.path} holds no records that can be used: line {line}: {detail}")
    tally.columns = {name: [column(parts)] for name, parts in tally.columns.items()}
    return tally


def _numbers(rows: list[Row], name: str) -> Values:
    """The numbers in a field, and the positions of their rows; other values, and huge numbers, are left out."""
    values = [(at, row[name]) for at, row in enumerate(rows) if name in row]
    values = [(at, value) for at, value in values if type(value) in (int, float) and abs(value) <= MAX_SECONDS]
    return np.array([at for at, _ in values], np.int64), np.array([value for _, value in values], np.float32)


def _count(groups: dict[tuple[str, str], Share], names: Iterable[tuple[str, str]], durations: Iterable[float]) -> None:
    for name, seconds in zip(names, durations, strict=True):
        share = groups.get(name)
        if share is None:
            share = groups[name] = Share()
        share.records += 1
        share.seconds += seconds


def _languages(rows: list[Row]) -> list[str]:
    own = texts(rows, "lang")
    return own if all(own) else [lang or other for lang, other in zip(own, texts(rows, "language"), strict=True)]


def _extension(path: str) -> str:
    stem, dot, extension = path.rpartition(".")
    return extension.lower() if dot and stem and "/" not in extension else "none"


def column(pieces: Sequence[npt.NDArray[Any]]) -> Floats32:
    """Return the pieces of a column as one array."""
    return np.concatenate([np.empty(0, np.float32), *pieces])
