"""Only the durations of some data: what bins need."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from prepcli.manifest.index import check_is_manifest, scan_files
from prepcli.manifest.inputs import DataSet, Mix
from prepcli.manifest.mixing import LeafDurations, draw, leaves_of
from prepcli.manifest.parts import Columns, Floats, Part

# Fewer examples than this are read sooner by one process than workers are started.
_FEW_EXAMPLES = 200_000


@dataclass
class Durations:
    """Durations in seconds of the examples that take part, and what became of all other lines."""

    seconds: Floats = field(default_factory=lambda: np.empty(0))
    num_discarded: int = 0
    """Usable, but shorter than the minimum or longer than the maximum."""
    num_skipped: int = 0
    """Passed over because of a true `_skipme`."""
    num_rejected: int = 0
    """Lines that cannot be used."""
    first_rejected: str | None = None
    """File, line and reason of the first of those."""
    num_lines: int = 0

    def count(self, path: str, lines_before: int, part: Part) -> None:
        """Take note of one part of the file `path`, before which it has `lines_before` lines."""
        self.num_lines += part.num_lines
        self.num_skipped += part.num_skipped
        self.num_rejected += part.num_problems
        if part.problems and self.first_rejected is None:
            problem = part.problems[0]
            self.first_rejected = f"{path}:{lines_before + problem.line + 1}: {problem.detail}"


def read_durations(paths: Sequence[str], num_workers: int = 1) -> Floats:
    """Durations in seconds of the usable records of some NeMo manifests, in order; shape (records,)."""
    return read_input(DataSet(tuple(paths)), num_workers=num_workers).seconds


def read_input(
    data: DataSet | Mix,
    *,
    num_workers: int = 1,
    min_duration: float = -np.inf,
    max_duration: float = np.inf,
    num_examples: int = -1,
) -> Durations:
    """The durations of `data`, those from `min_duration` to `max_duration` seconds, both included.

    With `num_examples` above 0, about the first so many that a training run would draw: see
    `prepcli.manifest.mixing`. Raises `UsageError` and `IncompleteError` as `index_manifests` does.
    """
    if num_examples > 0:
        return _read_some(data, num_workers, (min_duration, max_duration), num_examples)
    found = Durations()
    kept: list[Floats] = []
    leaves = leaves_of(data)
    for cuts in (False, True):
        paths = [path for leaf in leaves if leaf.cuts == cuts for path in leaf.paths]
        for seconds in _columns(paths, cuts, num_workers, found):
            inside = (seconds >= min_duration) & (seconds <= max_duration)
            kept.append(seconds if inside.all() else seconds[inside])
            found.num_discarded += len(seconds) - len(kept[-1])
    found.seconds = np.concatenate([np.empty(0), *kept])
    return found


def _read_some(data: DataSet | Mix, num_workers: int, limits: tuple[float, float], wanted: int) -> Durations:
    found = Durations()
    # No leaf gives more than all that is wanted, so reading stops there; unless its length is its weight.
    stop = wanted if isinstance(data, DataSet) or _all_weighed(data) else None
    if stop is not None and wanted < _FEW_EXAMPLES:
        num_workers = 1
    leaves = []
    for leaf in leaves_of(data):
        before = found.num_lines
        pieces: list[Floats] = []
        kept = 0
        for seconds in _columns(leaf.paths, leaf.cuts, num_workers, found):
            pieces.append(seconds)
            kept += int(((seconds >= limits[0]) & (seconds <= limits[1])).sum())
            if stop is not None and kept >= stop:
                break
        seconds = np.concatenate([np.empty(0), *pieces])
        inside = (seconds >= limits[0]) & (seconds <= limits[1])
        leaves.append(LeafDurations(seconds, inside, found.num_lines - before))
    found.seconds, num_drawn = draw(data, leaves, wanted)
    found.num_discarded = num_drawn - len(found.seconds)
    return found


def _columns(paths: Sequence[str], cuts: bool, num_workers: int, found: Durations) -> Iterator[Floats]:
    """Durations part by part; all else is noted in `found`."""
    columns = Columns(spans=False, digest=False, cuts=cuts)
    for path, parts in zip(paths, scan_files(paths, columns, num_workers), strict=True):
        lines = num_bytes = 0
        for part in parts:
            found.count(path, lines, part)
            lines += part.num_lines
            num_bytes += part.num_bytes
            check_is_manifest(path, part, num_bytes)
            yield part.duration


def _all_weighed(mix: Mix) -> bool:
    return None not in mix.weights and all(_all_weighed(part) for part in mix.parts if isinstance(part, Mix))
