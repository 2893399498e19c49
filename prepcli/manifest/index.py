"""An index over manifests of any length: the position and the duration of each record, in NumPy arrays."""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from prepcli.errors import PrepcliError, UsageError
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.json_kinds import CUTS
from prepcli.manifest.parquet_rows import check_is_parquet
from prepcli.manifest.parts import Columns, FieldKey, Floats, Ints, KeyFunction, Part, Problem
from prepcli.manifest.scan import RANGE_BYTES, Range, ranges_of, scan, workers_for
from prepcli.manifest.sources import Reader, check_file, is_gzip, open_bytes
from prepcli.manifest.spool import is_copied, plain_copy
from prepcli.processes.pools import map_in_order
from prepcli.storage.containers import Catalogue
from prepcli.storage.input_files import FileState, check_unchanged, state_of

# A compressed file is one task; the columns of a large one are too long to send through a pipe at once.
_MAX_POOLED_GZIP_BYTES = 32 << 20
_MIN_PROBLEM_LINES = 1000
_BLOCK_BYTES = 1 << 20
_GROUP_BYTES = 1 << 20
_NO_LINES: Ints = np.empty(0, np.int64)
Item = TypeVar("Item")
KEY_PREFIX = "key."
"""The prefix of a column's name if the column holds a key."""


@dataclass(slots=True)
class SourceFile:
    """One manifest. `sha256` is computed from its uncompressed content: see `index_manifests`."""

    path: str
    sha256: str
    num_bytes: int
    num_lines: int
    plain_path: str | None
    """The file with the uncompressed bytes: `path` or its copy; None if the copy is made when a line is read."""
    state: FileState
    """The state of `path` before it was read."""
    begin: int = 0
    """The first byte of the manifest in `plain_path`, which may hold several small manifests that were unpacked."""


@dataclass
class ManifestIndex:
    """The usable records of some manifests, in order, numbered from 0 over all manifests."""

    sources: list[SourceFile] = field(default_factory=list)
    first: list[int] = field(default_factory=lambda: [0])
    """`first[s]`: number of the first record of source `s`; the last entry is the number of records."""
    start: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """First byte of the record's line in its (uncompressed) source."""
    length: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """Number of bytes of the record's line, without its newline, but with a carriage return before the newline."""
    duration: Floats = field(default_factory=lambda: np.empty(0))
    """Durations in seconds."""
    offset: Floats = field(default_factory=lambda: np.empty(0))
    """Offsets in seconds; 0.0 if there is none."""
    keys: dict[str, npt.NDArray[np.uint64]] = field(default_factory=dict)
    """For each key by its name, an array with the 64-bit hash (`key_bytes`) of every record's key; 0: an empty key."""
    problems: list[Problem] = field(default_factory=list)
    """Unusable lines, in order."""
    num_skipped: int = 0
    """Number of lines skipped because of a true `_skipme`."""
    num_moved: int = 0
    """Number of segments in containers whose ends were set to a bound (`prepcli.gate.fit`)."""
    found: bool = False
    """Whether `looks_for` of `index_manifests` has found something."""
    records_before_gaps: list[Ints] = field(default_factory=list)
    """For each source, an array: for each line without a record, the number of records before it in the source."""
    folder: Path | None = None
    """The folder of the columns, if they are mapped from files (`prepcli.manifest.shared_index`)."""

    def __len__(self) -> int:
        return self.first[-1]

    def source_of(self, i: int) -> int:
        """Number of the source that holds record `i`."""
        return bisect_right(self.first, i) - 1

    def line_number(self, i: int) -> int:
        """Number of the line of record `i` in its source, from 1; every line is counted, also blank ones."""
        source = self.source_of(i)
        record = i - self.first[source]
        return record + 1 + int(np.searchsorted(self.records_before_gaps[source], record, side="right"))


def index_manifests(
    paths: Sequence[str],
    *,
    num_workers: int = 1,
    keys: Mapping[str, KeyFunction] | None = None,
    looks_for: Callable[[bytes], bool] | None = None,
    spool_dir: Path | None = None,
    again: bool = False,
) -> ManifestIndex:
    """Read manifests once and return the positions of their usable records.

    `keys`: for each key by its name, a module-level function of `audio_filepath`, or a `FieldKey`. The 64-bit hash of
    its result is kept for each record. `looks_for` gets whole lines, block by block; it gets no more lines of a range
    (16 MiB) once it has returned True.

    If `spool_dir` is given, a manifest that is compressed or in an object store is copied there once, uncompressed, and
    read from there; else it is streamed. The `sha256` of a source is the SHA-256 of the SHA-256 digests of its
    consecutive 16 MiB pieces, so it depends on the content alone, and not on which process read a piece. `again`: as in
    `prepcli.manifest.spool.plain_copy`.

    Raises `UsageError` for missing or damaged files, and for a big file without a record at its beginning;
    `InputChangedError` if a file changes during reading; `IncompleteError` if a worker process dies. A line that cannot
    be used is a `Problem`.
    """
    columns = columns_of(keys, looks_for, paths)
    builder = IndexBuilder(columns)
    _read(paths, columns, builder, lambda _, parts: parts, num_workers, spool_dir, again)
    return builder.index


def read_manifests(
    paths: Sequence[str],
    columns: Columns,
    on_part: Callable[[int, Part], None],
    *,
    num_workers: int = 1,
    spool_dir: Path | None = None,
    again: bool = False,
) -> ManifestIndex:
    """Read manifests once, and call `on_part` with each part, in order, and the number of its manifest.

    The result is an index without columns: its sources, problems and gaps. Raises as `index_manifests` does.
    """

    def seen(number: int, parts: Iterable[Part]) -> Iterator[Part]:
        for part in parts:
            on_part(number, part)
            yield part

    builder = IndexBuilder(columns, lambda *_: None)
    _read(paths, columns, builder, seen, num_workers, spool_dir, again)
    return builder.index


def _read(
    paths: Sequence[str],
    columns: Columns,
    builder: "IndexBuilder",
    through: Callable[[int, Iterable[Part]], Iterable[Part]],
    num_workers: int,
    spool_dir: Path | None,
    again: bool,
) -> None:
    """Add manifests to an index.

    `through` is called for each manifest with its number and its parts; the parts that it returns are added.
    """
    for path in paths:
        check_file(path)
        if spool_dir and is_copied(path):
            check_is_json_lines(path)
    states = [state_of(path) for path in paths]
    plain = [str(plain_copy(path, spool_dir, again=again)) if spool_dir and is_copied(path) else path for path in paths]
    for number, parts in enumerate(scan_files(plain, columns, num_workers, copies=set(plain) - set(paths))):
        source = new_source(paths[number], plain[number], states[number])
        builder.add_source(source, through(number, parts))


def content_digest(path: str) -> str:
    """The `sha256` of a source, as `index_manifests` computes it; empty if the file cannot be read."""
    digest = hashlib.sha256()
    try:
        with open_bytes(path) as file:
            reader = Reader(path, file)
            while piece := _digest_of_range(reader):
                digest.update(piece)
    except (OSError, PrepcliError):
        return ""
    return digest.hexdigest()


def _digest_of_range(reader: Reader) -> bytes:
    """SHA-256 of the next `RANGE_BYTES`; empty at the end."""
    digest = hashlib.sha256()
    left = RANGE_BYTES
    while left and (data := reader.read(min(left, _BLOCK_BYTES))):
        digest.update(data)
        left -= len(data)
    return digest.digest() if left < RANGE_BYTES else b""


def scan_files(
    paths: Sequence[str], columns: Columns, num_workers: int, copies: Collection[str] = ()
) -> Iterator[Iterator[Part]]:
    """Yield for each file an iterator over its parts, in order; up to `num_workers` processes read the files.

    Each inner iterator must be exhausted before the next one is requested. Raises `InputChangedError` if a file changes
    during reading, unless it is one of `copies`, which another rank may replace by the same content.
    """
    for path in paths:
        if columns.parquet:
            check_is_parquet(path)
        elif path not in copies:  # what is copied has been checked
            check_is_json_lines(path, (CUTS,) if columns.cuts else ())
    states = {path: state_of(path) for path in paths}
    sizes = {path: state.num_bytes for path, state in states.items()}
    ranges = [
        [Range(path, 0, None)] if columns.parquet else ranges_of(path, sizes[path], short=not columns.digest)
        for path in paths
    ]
    pooled = [part for of_file in ranges for part in of_file if not _read_here(part, sizes[part.path])]
    # Sending each of many small ranges to a worker would take longer than reading it.
    groups = list(grouped(pooled, lambda part: (part.stop or sizes[part.path]) - part.start, _GROUP_BYTES))
    scanned = map_in_order(partial(_scan_group, columns=columns), groups, workers_for(sizes.items(), num_workers))
    results = chain.from_iterable(scanned)
    for path, of_file in zip(paths, ranges, strict=True):
        here = bool(of_file) and _read_here(of_file[0], sizes[path])
        yield scan(of_file[0], columns) if here else _next_parts(results, len(of_file))
        if path not in copies:
            check_unchanged(path, states[path])


def _read_here(part: Range, num_bytes: int) -> bool:
    return is_gzip(part.path) and num_bytes > _MAX_POOLED_GZIP_BYTES


def grouped(items: Iterable[Item], num_bytes: Callable[[Item], int], min_bytes: int) -> Iterator[list[Item]]:
    """Yield consecutive items in groups of at least `min_bytes`, each for one task; the last group may be smaller."""
    group: list[Item] = []
    total = 0
    for item in items:
        group.append(item)
        total += num_bytes(item)
        if total >= min_bytes:
            yield group
            group, total = [], 0
    if group:
        yield group


def _scan_group(ranges: Sequence[Range], columns: Columns) -> list[list[Part]]:
    return [list(scan(part, columns)) for part in ranges]


def _next_parts(results: Iterator[list[Part]], count: int) -> Iterator[Part]:
    for _ in range(count):
        yield from next(results)


def columns_of(
    keys: Mapping[str, KeyFunction] | None,
    looks_for: Callable[[bytes], bool] | None = None,
    paths: Iterable[str] = (),
) -> Columns:
    """The columns of an index of `paths` with these keys; `looks_for` as in `index_manifests`."""
    return Columns(
        keys=tuple((name, key) for name, key in (keys or {}).items() if not isinstance(key, FieldKey)),
        field_keys=tuple((name, key) for name, key in (keys or {}).items() if isinstance(key, FieldKey)),
        looks_for=looks_for,
        counts_moved=any(isinstance(path, Catalogue) for path in paths),
    )


def new_source(path: str, plain_path: str, state: FileState, begin: int = 0) -> SourceFile:
    """A manifest that is still to be read; its uncompressed bytes are in the file `plain_path` from byte `begin` on."""
    return SourceFile(path, "", 0, 0, None if is_copied(plain_path) else plain_path, state, begin)


class IndexBuilder:
    """Builds an index of manifests (its sources). Each manifest is added as the parts that were read from it.

    The columns of `index` grow in place by reallocation, so no column is ever held twice. If `append` is given, the
    columns stay empty: for each column of each part, `append` gets its name and its values.
    """

    def __init__(self, columns: Columns, append: Callable[[str, npt.NDArray[Any]], None] | None = None) -> None:
        self.index = ManifestIndex()
        self.index.keys = {name: np.empty(0, np.uint64) for name, _ in (*columns.keys, *columns.field_keys)}
        self._append = append or self._grow
        self._num_records = 0

    def add_source(self, source: SourceFile, parts: Iterable[Part]) -> None:
        """Add a manifest (see `new_source`) and its parts in order."""
        index, number = self.index, len(self.index.sources)
        digest = hashlib.sha256()
        gaps: list[Ints] = []
        for part in parts:
            digest.update(part.digest)
            source.num_bytes += part.num_bytes
            check_is_manifest(source.path, part, source.num_bytes)
            for problem in part.problems:
                problem.source, problem.line = number, source.num_lines + problem.line + 1
            index.problems.extend(part.problems)
            gaps.append(np.array(part.gaps, np.int64) + source.num_lines)
            source.num_lines += part.num_lines
            index.num_skipped += part.num_skipped
            index.num_moved += part.num_moved
            self._add_columns(part)
        source.sha256 = digest.hexdigest()
        index.sources.append(source)
        index.first.append(self._num_records)
        lines = np.concatenate([_NO_LINES, *gaps])
        index.records_before_gaps.append(lines - np.arange(len(lines)))

    def _add_columns(self, part: Part) -> None:
        self.index.found |= part.found
        self._num_records += len(part.duration)
        for name, column in part_columns(part):
            self._append(name, column)

    def _grow(self, name: str, values: npt.NDArray[Any]) -> None:
        is_key = name.startswith(KEY_PREFIX)
        _append(self.index.keys[name.removeprefix(KEY_PREFIX)] if is_key else getattr(self.index, name), values)


def part_columns(part: Part) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """The columns of a part with their names; names of keys begin with `KEY_PREFIX`."""
    for name in ("start", "length", "duration", "offset"):
        yield name, getattr(part, name)
    for name, column in part.keys.items():
        yield KEY_PREFIX + name, column


def _append(column: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
    used = len(column)
    column.resize(used + len(values), refcheck=False)
    column[used:] = values


def check_is_manifest(path: str, part: Part, num_bytes: int) -> None:
    """Raise `UsageError` if the whole first range of a file holds many lines and no record.

    Such a file is of another kind (an archive, audio, a log), and a problem for each of its lines would not fit into
    memory.
    """
    first_range = num_bytes == part.num_bytes
    if first_range and not len(part.duration) and part.num_problems >= _MIN_PROBLEM_LINES:
        problem = part.problems[0]  # `line` counts from 0 within the part
        raise UsageError(
            f"{path} does not look like a NeMo manifest: none of its first {part.num_lines} lines can be "
            f"used (line {problem.line + 1}: {problem.detail})"
        )
