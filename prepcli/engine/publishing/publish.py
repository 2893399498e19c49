"""Publishes a unit: each file appears complete under its final name, then the marker shows that the unit is done."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from prepcli.engine.publishing.output_files import HashedFile, OutputFile, PublishedFile, UploadedFile
from prepcli.engine.publishing.owned import make_way, mark, note, take_back
from prepcli.engine.publishing.rejects import Origin, reject_line
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import PrepcliError, RecordRejected, RejectReason
from prepcli.processes.workers import is_worker, no_interruption
from prepcli.storage.paths import AnyPath, StorePath, blocks_of
from prepcli.version import __version__

MANY_FILES = 16
"""Number of files that a unit flushes in parallel; with fewer files, it flushes them one by one.

Measured with 64 files of 400 kB: flushing in parallel takes a third of the time.
"""
OBJECTS_AT_ONCE = 8
"""Number of objects of a unit that are sent to a store, or completed there, at the same time."""

Item = TypeVar("Item")


class Marker(msgspec.Struct, frozen=True):
    """The content of `done/<unit>.json`, which shows that a unit is done.

    `digest` is the digest of the plan; `rejects` has the number of rejects by reason, `seconds` the seconds of audio
    written. The names in `files` are relative to OUT, those in `work_files` to OUT.prepcli. `extra` has further counts
    of the job by name. `earlier`: for files that a command has changed since, such as `filter --skipme`, how they were.
    """

    unit: str
    digest: str
    records_out: int
    rejects: dict[str, int]
    seconds: float
    files: dict[str, PublishedFile]
    work_files: dict[str, PublishedFile]
    wall_seconds: float
    extra: dict[str, float] = {}
    notes: list[str] = []
    prepcli: str = __version__
    earlier: dict[str, list[PublishedFile]] = {}


def totals(markers: Iterable[Marker]) -> Counter[str]:
    """The sum over all markers of each count in `extra`, by name; 0 for a name that no marker has."""
    counts: Counter[str] = Counter()
    for marker in markers:
        counts.update(marker.extra)
    return counts


class AccountingError(Exception):
    """The numbers of records do not add up: records in are not records out + rejects. This is a bug."""


class UnitWriter:
    """Collects one unit's files and rejects in a temporary directory, and publishes them.

    Files are published in the order in which they were opened; in a store, all but the last one may appear at the same
    time. So open the file by which readers find a shard (its manifest, its cuts) last. Files added with `add_after`
    follow, and then the marker. Without the marker the unit is done again; leaving the context without `publish`
    removes all files. `folder` is the temporary directory.

    Examples:
        with UnitWriter(workspace, digest, unit) as writer:
            tar = writer.open("audio_0.tar")
            tar.write(...)
            writer.count(1, seconds=3.2)
            writer.publish()
    """

    def __init__(self, workspace: Workspace, digest: str, unit: Unit, folder: Path | None = None) -> None:
        self.workspace = workspace
        self._digest = digest
        self.unit = unit
        self._started = time.monotonic()
        self.folder = folder or workspace.make_tmp(unit.id)
        self._files: dict[str, OutputFile] = {}
        self._after: dict[str, bytes | memoryview] = {}
        self._work_files: dict[str, HashedFile] = {}
        self._rejects: Counter[str] = Counter()
        self._reject_file: HashedFile | None = None
        self.records_out = 0
        self.seconds = 0.0
        self.extra: Counter[str] = Counter()
        self.notes: list[str] = []

    def open(self, name: str) -> OutputFile:
        """Open a new file that will become `OUT/name`."""
        target = self.workspace.out / name
        file: OutputFile
        with no_interruption():
            if isinstance(target, StorePath):
                file = UploadedFile(str(target))
            else:
                file = HashedFile(self.folder / f"{len(self._files)}.out", target)
            self._files[name] = file
        return file

    def add(self, name: str, data: bytes) -> None:
        """Add a whole file that will become `OUT/name`; for units with many small files."""
        file = self.open(name)
        file.write(data)
        if isinstance(file, HashedFile):
            file.release()

    def add_after(self, name: str, data: bytes | memoryview) -> None:
        """Add a small file that will become `OUT/name` and describes other files of the unit, for example an index.

        The small file is renamed after the files that it describes, so it is never older than they are. If an
        earlier run has left a file `OUT/name`, this file is removed before the described files are renamed.
        """
        self._after[name] = data

    def open_part(self, name: str) -> HashedFile:
        """Open a new file that will become `OUT.prepcli/name`, such as lines to merge when all units are done."""
        draft = self.folder / f"{len(self._work_files)}.part"
        file = self._work_files[name] = HashedFile(draft, self.workspace.root / name)
        return file

    def part(self, name: str) -> Path:
        """The path of a file that a unit has made for the final merge (`open_part`); for `Job.finish`."""
        return self.workspace.root / name

    def made(self, name: str) -> AnyPath:
        """The path under which a file that a unit has made can be read now; for `Job.finish`."""
        return self.workspace.out / name

    def join(self, name: str, parts: Iterable[str]) -> None:
        """Make `OUT/name` by concatenating the files `parts` (`open_part`), which units have published."""
        joined = self.open(name)
        for part in parts:
            for block in blocks_of(self.part(part)):
                joined.write(block)

    def count(self, records: int, seconds: float) -> None:
        """Count `records` records with `seconds` of audio as written to the unit's files."""
        self.records_out += records
        self.seconds += seconds

    def reject(self, line: bytes, rejected: RecordRejected, origin: Origin) -> None:
        """Add one record to the rejects of the unit; `line` is its original manifest line."""
        self.add_rejects(reject_line(line, rejected, origin), {rejected.reason: 1})

    def add_rejects(self, data: bytes, reasons: Mapping[RejectReason, int]) -> None:
        """Add lines that `reject_line` has made; `reasons` has the number of these lines for each reason."""
        if not data:
            return
        if self._reject_file is None:
            self._reject_file = self.open_part(f"rejects/{self.unit.id}.jsonl")
        self._reject_file.write(data)
        self._rejects.update({reason.value: number for reason, number in reasons.items()})

    def write_each(
        self,
        items: Iterable[Item],
        write: Callable[[Item], float | None],
        original: Callable[[Item], tuple[bytes, Origin]],
        advance: Callable[[int, float], None] | None = None,
        length: Callable[[Item], float] | None = None,
    ) -> None:
        """Write items one after the other; count each written item, and reject the others.

        Args:
            items: the records of the unit, or objects that stand for them.
            write: writes an item and returns its seconds of audio. If it returns None, the item is not counted here,
                and `advance` is not called: the caller counts the item later. Raises `RecordRejected` to reject it.
            original: returns the manifest line and the origin of an item that is rejected.
            advance: called after each item with 1 and its seconds, to show progress; None to show no progress here.
            length: returns the seconds of an item for `advance`; None: the result of `write`, and 0 for a reject.
        """
        for item in items:
            try:
                seconds = write(item)
            except RecordRejected as rejected:
                line, origin = original(item)
                self.reject(line, rejected, origin)
                seconds = 0.0
            else:
                if seconds is None:
                    continue
                self.records_out += 1
                self.seconds += seconds
            if advance is not None:
                advance(1, seconds if length is None else length(item))

    @property
    def num_rejects(self) -> int:
        """Number of rejects so far."""
        return self._rejects.total()

    @property
    def num_bytes(self) -> int:
        """The bytes that were written to files of OUT."""
        return sum(file.num_bytes for file in self._files.values()) + sum(map(len, self._after.values()))

    def check_counts(self) -> None:
        """Raise `AccountingError` if the records of the unit do not add up."""
        if self.records_out + self.num_rejects != self.unit.num_records:
            raise AccountingError(
                f"unit {self.unit.id}: {self.unit.num_records} records in, but {self.records_out} out and "
                f"{self.num_rejects} rejected"
            )

    def document(self, files: dict[str, PublishedFile], work_files: dict[str, PublishedFile]) -> Marker:
        """The document that shows that the unit is done."""
        return Marker(
            unit=self.unit.id,
            digest=self._digest,
            records_out=self.records_out,
            rejects=dict(self._rejects),
            seconds=round(self.seconds, 6),
            files=files,
            work_files=work_files,
            wall_seconds=round(time.monotonic() - self._started, 3),
            extra=dict(self.extra),
            notes=sorted(set(self.notes)),
        )

    def publish(self) -> Marker:
        """Flush the files to disk and rename them into place, then write the marker; returns the marker.

        Before the first rename, the marker is on disk as a note (see `owned`); before the note becomes the marker, the
        files' names are on disk. If a power failure loses the marker, the unit is done again.

        Raises:
            AccountingError: the unit's records do not add up.
            UsageError: a foreign file is in the way.
            OSError: the disk is full, a rename was refused, ...; no marker is written then.
            PrepcliError: another command has cleared the output, or the claim on it in a store was removed.
        """
        self.check_counts()
        files, work_files = close_all(self._files), close_all(self._work_files)
        for name, data in self._after.items():
            self.open(name).write(data)
        files |= close_all({name: self._files[name] for name in self._after})
        self.workspace.check_claim()
        files = make_way(self.workspace, self.unit.id, files)
        marker = self.document(files, work_files)
        noted = note(self.workspace, self.unit.id, marker, self.folder) if files else None
        published = self._publish_all(files)
        for file in self._work_files.values():
            file.publish()
        out, root = self.workspace.out, self.workspace.root
        own = [out / name for name, file in files.items() if not file.foreign] if isinstance(out, Path) else []
        self.workspace.flush([*own, *(root / name for name in work_files)])  # a store needs no flush
        if noted is not None:
            try:
                self.workspace.check_claim()
            except PrepcliError:
                # On a file system, the other command has moved the drafts away, and removes the files recorded before.
                if isinstance(self.workspace.out, StorePath):
                    take_back(self.workspace, published)
                    noted.unlink()
                raise
        if published != files:
            noted, marker = None, msgspec.structs.replace(marker, files=published)
        mark(self.workspace, self.unit.id, marker, files, noted, self.folder)
        return marker

    def _publish_all(self, files: Mapping[str, PublishedFile]) -> dict[str, PublishedFile]:
        """Publish the files whose records are not `foreign`, in the order that `UnitWriter` describes.

        Returns the records of all files. The records of objects that were published to a store have ETags.
        """
        own = [name for name, file in files.items() if not file.foreign]
        names, after = [name for name in own if name not in self._after], [name for name in own if name in self._after]
        self.workspace.found.remove(after)  # those of an earlier run do not match the files of this run
        published = dict(files)
        for together in (names[:-1], names[-1:], after):
            for name, etag in self._publish(together):
                published[name] = msgspec.structs.replace(published[name], etag=etag)
        return published

    def _publish(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Publish the files `names`; yields the name and the ETag of each, "" for the ETag of a local file.

        Files are published one by one. Only a worker that writes to a store publishes several at once.
        """
        if len(names) < 2 or not (is_worker() and isinstance(self.workspace.out, StorePath)):
            yield from ((name, self._files[name].publish()) for name in names)
            return
        with ThreadPoolExecutor(min(len(names), OBJECTS_AT_ONCE)) as pool:
            yield from zip(names, pool.map(lambda name: self._files[name].publish(), names), strict=True)

    def __enter__(self) -> "UnitWriter":
        return self

    def __exit__(self, *_: object) -> None:
        with no_interruption():  # an interruption would leave a part of the files
            for file in (*self._files.values(), *self._work_files.values()):
                file.discard()
            shutil.rmtree(self.folder, ignore_errors=True)


def close_all(files: Mapping[str, OutputFile | HashedFile]) -> dict[str, PublishedFile]:
    """Close the files and return their records by name. Closing many files in parallel takes a fraction of the time."""
    if sum(not isinstance(file, UploadedFile) for file in files.values()) < MANY_FILES:
        return {name: file.close() for name, file in files.items()}
    with no_interruption(), ThreadPoolExecutor(MANY_FILES) as pool:
        return dict(zip(files, pool.map(lambda file: file.close(), files.values()), strict=True))


def read_marker(workspace: Workspace, unit: Unit, digest: str, found: OutputFiles | None = None) -> Marker | None:
    """The marker of a unit; None if the unit is not done, or was done for a plan with another digest.

    Returns None also if a file that the marker names is missing or has another size. `found`: looks up the files in
    OUT; by default, a new `OutputFiles` does so.
    """
    try:
        marker = read_document(workspace.marker_file(unit.id), Marker)
    except OSError:
        return None
    if marker is None or marker.digest != digest:
        return None
    found = found or OutputFiles(workspace.out)
    try:
        for name, file in marker.files.items():
            is_local = workspace.has_unit_folders and isinstance(workspace.out, Path)
            path = workspace.made_file(unit.id, name) if is_local else None
            if (path.stat().st_size if path is not None else found.size_of(name)) != file.num_bytes:
                return None
        for name, file in marker.work_files.items():
            is_report = name == workspace.report_file.name  # it shows the limits of the last call
            if not is_report and workspace.part_file(unit.id, name).stat().st_size != file.num_bytes:
                return None
    except OSError:
        return None
    return marker
