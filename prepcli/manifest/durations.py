"""Reads the durations of data and, if requested, a number for each example, for the estimation of bins."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from prepcli.errors import UsageError, option
from prepcli.manifest.datasets import DataSet, Mix
from prepcli.manifest.index import check_is_manifest, scan_files
from prepcli.manifest.mixing import LeafDurations, draw, leaves_of
from prepcli.manifest.parts import Collector, Columns, Floats, Numbers, Part

# For fewer examples than this, one process is faster than starting workers.
_FEW_EXAMPLES = 200_000

Counts = npt.NDArray[np.int32]


@dataclass
class Durations:
    """Durations in seconds of the examples that are used, and counts: of all lines, and of lines that are not used."""

    seconds: Floats = field(default_factory=lambda: np.empty(0))
    numbers: Counts = field(default_factory=lambda: np.empty(0, np.int32))
    """For each used example, the result of `numbers` of `read_input`, such as a number of tokens; empty without it."""
    num_discarded: int = 0
    """Number of usable examples outside of the duration limits."""
    num_skipped: int = 0
    """Number of lines that were skipped because of a true `_skipme`."""
    num_rejected: int = 0
    """Number of unusable lines."""
    first_rejected: str | None = None
    """File, line and reason of the first unusable line."""
    num_lines: int = 0

    def count(self, path: str, lines_before: int, part: Part) -> None:
        """Add the counts of a part of the file `path`; the part begins after `lines_before` lines of the file."""
        self.num_lines += part.num_lines
        self.num_skipped += part.num_skipped
        self.num_rejected += part.num_problems
        if part.problems and self.first_rejected is None:
            problem = part.problems[0]
            self.first_rejected = f"{path}:{lines_before + problem.line + 1}: {problem.detail}"


class Selection(Protocol):
    """Selects records by their fields.

    Attributes:
        collector: makes the collector that reads the fields (see `Columns.collector`).
    """

    collector: Callable[[], Collector]

    def kept(self, path: str, part: Part) -> npt.NDArray[np.bool_]:
        """Return for each record of `part`, a part of the file `path`, whether the record is used."""


def read_input(
    data: DataSet | Mix,
    *,
    num_workers: int = 1,
    min_duration: float = -np.inf,
    max_duration: float = np.inf,
    num_examples: int = -1,
    numbers: Callable[[DataSet], Numbers] | None = None,
    seconds_of: Callable[[bytes, str], float] | None = None,
    selection: Selection | None = None,
) -> Durations:
    """The durations of the examples of `data` that last from `min_duration` to `max_duration` seconds, both included.

    Args:
        data: the data sets.
        num_workers: maximum number of worker processes.
        min_duration: seconds; shorter examples are only counted.
        max_duration: seconds; longer examples are only counted.
        num_examples: if above 0, at most this number of examples is used: the first that a training run would draw (see
            `prepcli.manifest.mixing`).
        numbers: returns for a data set the `Numbers` that compute a number for each line. If two data sets need the
            same computation, it must return equal `Numbers`, so that the data sets share a pool of workers.
        seconds_of: measures audio (see `Columns.seconds_of`).
        selection: if given, only records that it keeps are used, and all others are not even counted. All data sets
            must then be NeMo manifests.

    Raises:
        UsageError: as raised by `index_manifests`, or `selection` is given and a data set is not a NeMo manifest.
        IncompleteError: a worker process died.
    """
    leaves = [(leaf, _columns_of(leaf, numbers, seconds_of, selection)) for leaf in leaves_of(data)]
    if num_examples > 0:
        return _read_some(data, leaves, num_workers, (min_duration, max_duration), num_examples, selection)
    lengths = Durations()
    kept: list[Floats] = []
    kept_numbers: list[Counts] = []
    alike: list[Columns] = []  # files with equal columns share one pool of workers
    for _, columns in leaves:
        if columns not in alike:
            alike.append(columns)
    for columns in alike:
        paths = [path for leaf, of_leaf in leaves if of_leaf == columns for path in leaf.paths]
        for part in _parts(paths, columns, num_workers, lengths, selection):
            seconds = part.duration
            inside = (seconds >= min_duration) & (seconds <= max_duration)
            whole = inside.all()
            kept.append(seconds if whole else seconds[inside])
            lengths.num_discarded += len(seconds) - len(kept[-1])
            if columns.numbers:
                kept_numbers.append(part.number if whole else part.number[inside])
    lengths.seconds = np.concatenate([np.empty(0), *kept])
    lengths.numbers = np.concatenate([np.empty(0, np.int32), *kept_numbers])
    return lengths


def _columns_of(
    data: DataSet,
    numbers: Callable[[DataSet], Numbers] | None,
    seconds_of: Callable[[bytes, str], float] | None,
    selection: Selection | None,
) -> Columns:
    if selection is not None and (data.cuts or data.parquet):
        raise UsageError(f"{data.paths[0]} has no lines of NeMo, so records cannot be selected by {option('--keep')}")
    return Columns(
        spans=False,
        digest=False,
        cuts=data.cuts,
        parquet=data.parquet,
        seconds_of=seconds_of,
        numbers=numbers(data) if numbers else None,
        collector=selection.collector if selection else None,
    )


def _read_some(
    data: DataSet | Mix,
    leaves: list[tuple[DataSet, Columns]],
    num_workers: int,
    limits: tuple[float, float],
    wanted: int,
    selection: Selection | None,
) -> Durations:
    lengths = Durations()
    # No leaf needs more than the wanted number of examples, so reading stops there, unless its length is its weight.
    stop = wanted if isinstance(data, DataSet) or _all_weighed(data) else None
    if stop is not None and wanted < _FEW_EXAMPLES:
        num_workers = 1
    read = []
    numbers = []
    for leaf, columns in leaves:
        before = lengths.num_lines
        pieces: list[Floats] = []
        more: list[Counts] = []
        kept = 0
        for part in _parts(leaf.paths, columns, num_workers, lengths, selection):
            pieces.append(part.duration)
            more.append(part.number)
            kept += int(((part.duration >= limits[0]) & (part.duration <= limits[1])).sum())
            if stop is not None and kept >= stop:
                break
        seconds = np.concatenate([np.empty(0), *pieces])
        inside = (seconds >= limits[0]) & (seconds <= limits[1])
        read.append(LeafDurations(seconds, inside, lengths.num_lines - before))
        numbers.append(np.concatenate([np.empty(0, np.int32), *more]))
    places, num_drawn = draw(data, read, wanted)
    lengths.seconds = np.concatenate([np.empty(0), *(leaf.seconds[at] for leaf, at in zip(read, places, strict=True))])
    lengths.numbers = np.concatenate(
        [np.empty(0, np.int32), *(of_leaf[at] for of_leaf, at in zip(numbers, places, strict=True) if len(of_leaf))]
    )
    lengths.num_discarded = num_drawn - len(lengths.seconds)
    return lengths


def _parts(
    paths: Sequence[str], columns: Columns, num_workers: int, lengths: Durations, selection: Selection | None
) -> Iterator[Part]:
    """Yield the parts of all files in order; lines are counted in `lengths`.

    With a `selection`, the columns `duration` and `number` of a part have the selected records only.
    """
    for path, parts in zip(paths, scan_files(paths, columns, num_workers), strict=True):
        lines = num_bytes = 0
        for part in parts:
            lengths.count(path, lines, part)
            lines += part.num_lines
            num_bytes += part.num_bytes
            check_is_manifest(path, part, num_bytes)
            if selection is not None:
                kept = selection.kept(path, part)
                part.duration = part.duration[kept]
                part.number = part.number[kept] if columns.numbers else part.number
            yield part


def _all_weighed(mix: Mix) -> bool:
    return None not in mix.weights and all(_all_weighed(part) for part in mix.parts if isinstance(part, Mix))
