"""A unit is a folder: made under `tmp/`, it appears by one rename, so it is done or it is not.

    <run>/units/<unit>/files/     the files that the commit moves to OUT
    <run>/units/<unit>/parts/     files for the final merge
    <run>/units/<unit>/rejects/   its rejects
    <run>/units/<unit>/unit.json  its counts, and the size and hash of each file

Making a unit twice is harmless: the second rename fails, and the bytes are the same.
"""

import contextlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from prepcli.engine.ledger import Ledger
from prepcli.engine.objects import retire
from prepcli.engine.publishing.output_files import HashedFile, OutputFile, PublishedFile, UploadedFile
from prepcli.engine.publishing.recorded import is_ours, stranger
from prepcli.engine.publishing.rejects import Origin, reject_line
from prepcli.engine.state.plan import FINISH_UNIT, Unit
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.workspace import Workspace, flush_folders, read_document, write_json
from prepcli.errors import RecordRejected, RejectReason
from prepcli.processes.workers import no_interruption
from prepcli.storage.paths import AnyPath, StorePath, blocks_of
from prepcli.version import __version__

MANY_FILES = 16
"""Number of files that a unit flushes in parallel; with fewer files, it flushes them one by one.

Measured with 64 files of 400 kB: flushing in parallel takes a third of the time.
"""
FILES = "files"
UNITS = "units"
DOCUMENT = "unit.json"
ADDED = "added"
"""The name in `Marker.extra` for the records that a unit has made in addition to its own, by dividing these: they count
as records in."""

Item = TypeVar("Item")


class Marker(msgspec.Struct, frozen=True):
    """The document of a unit, `unit.json`, which shows that it is done.

    `digest` is the digest of the plan; `rejects` has the number of rejects by reason, `seconds` the seconds of audio
    written. The names in `files` are relative to OUT, those in `work_files` to OUT.prepcli. `extra` has further counts
    of the job by name. `earlier`: for files that a command has changed since, such as `filter --skipme`, how they were.
    `num_files` and `num_bytes`: those of `files`.
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
    num_files: int = 0
    num_bytes: int = 0

    def slim(self) -> "Marker":
        """The document without the records of its files, of which a run may have millions."""
        num_bytes = sum(file.num_bytes for file in self.files.values()) if self.files else self.num_bytes
        num_files = len(self.files) or self.num_files
        return msgspec.structs.replace(self, files={}, earlier={}, num_files=num_files, num_bytes=num_bytes)


def totals(markers: Iterable[Marker]) -> Counter[str]:
    """The sum over all markers of each count in `extra`, by name; 0 for a name that no marker has."""
    counts: Counter[str] = Counter()
    for marker in markers:
        counts.update(marker.extra)
    return counts


def records_added(markers: Iterable[Marker]) -> int:
    """The number of records that units have made in addition to their own, see `ADDED`."""
    return int(totals(markers)[ADDED])  # counts of documents are read as floats


class AccountingError(Exception):
    """The numbers of records do not add up: records in are not records out + rejects. This is a bug."""


class UnitWriter:
    """Collects one unit's files and rejects in a temporary directory, and publishes them.

    The commit moves files to OUT in the order in which they were opened; in a store, all but the last one may appear at
    the same time. So open the file by which readers find a shard (its manifest, its cuts) last. Files added with
    `add_after` follow. Leaving the context without `publish` removes all files. `folder` is the temporary directory.

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
        self._folders = {str(self.folder)}  # those that are made
        self.records_out = 0
        self.seconds = 0.0
        self.extra: Counter[str] = Counter()
        self.notes: list[str] = []
        self.advance: Callable[[int, float], object] = lambda records, seconds: None

    def open(self, name: str) -> OutputFile:
        """Open a new file that the commit will move to `OUT/name`."""
        with no_interruption():
            file = self._files[name] = HashedFile(self._place(f"{FILES}/{name}"))
        return file

    def _place(self, name: str) -> Path:
        """The path of a new file in the folder of the unit, whose parent is made.

        The folder of the unit itself is not made again: another rank removes it after the commit.
        """
        path = f"{self.folder}/{name}"
        missing, parent = [], os.path.dirname(path)
        while parent not in self._folders:
            missing.append(parent)
            parent = os.path.dirname(parent)
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            self._folders.add(folder)
        return Path(path)

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
        """Open a new file for the final merge, or in the final merge a file that the commit moves to OUT.prepcli."""
        file = self._work_files[name] = HashedFile(self._place(name))
        return file

    def part(self, name: str) -> Path:
        """The path of a file that a unit has made for the final merge (`open_part`); for `Job.finish`."""
        return self.workspace.root / name

    def made(self, unit: str, name: str) -> AnyPath:
        """The path under which a file that a unit has made can be read now; for `Job.finish`."""
        return self.workspace.made_file(unit, name)

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
        advance: Callable[[int, float], object] | None = None,
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
        records_in = self.unit.num_records + self.extra[ADDED]
        if self.records_out + self.num_rejects != records_in:
            raise AccountingError(
                f"unit {self.unit.id}: {records_in} records in, but {self.records_out} out and "
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
            num_files=len(files),
            num_bytes=sum(file.num_bytes for file in files.values()),
            wall_seconds=round(time.monotonic() - self._started, 3),
            extra=dict(self.extra),
            notes=sorted(set(self.notes)),
        )

    def publish(self) -> Marker:
        """Flush the files to disk, write the document of the unit, and rename its folder; returns the document.

        Raises:
            AccountingError: the unit's records do not add up.
            UsageError: a file of others has the name of one of these files.
            OSError: the disk is full, a rename was refused, ...; the unit is not done then.
        """
        self.check_counts()
        for name, data in self._after.items():
            self.open(name).write(data)
        files = close_all(self._files)
        self._refuse_strangers(files)
        return self._appear(self.document(files, close_all(self._work_files)))

    def _refuse_strangers(self, files: Mapping[str, PublishedFile]) -> None:
        """Check that no file of others is in the way of a new output: it is found now, not after all the work."""
        workspace = self.workspace
        if workspace.may_replace or workspace.ledger() != Ledger():
            return  # the commit decides what is replaced
        for name, file in files.items():
            path = workspace.folder / name
            if os.path.lexists(path) and not is_ours(path, [file]):
                raise stranger(path, workspace.root)

    def _appear(self, marker: Marker) -> Marker:
        """Write the document of the unit, and rename its folder; returns the document of the rank that was first."""
        flush_folders(Path(folder) for folder, _, _ in os.walk(self.folder) if folder != str(self.folder))
        write_json(self.folder / DOCUMENT, marker, folder=self.folder)
        target = self.workspace.run / UNITS / self.unit.id
        try:
            os.rename(self.folder, target)
        except OSError:
            done = read_marker(self.workspace, self.unit, self._digest, self.workspace.found)
            if done is not None:
                return done  # another rank was faster, with the same bytes
            forget(self.workspace, self.unit.id)  # files of it were lost
            os.rename(self.folder, target)
        flush_folders([target.parent])
        return marker

    def __enter__(self) -> "UnitWriter":
        return self

    def __exit__(self, *_: object) -> None:
        with no_interruption():  # an interruption would leave a part of the files
            for file in (*self._files.values(), *self._work_files.values()):
                file.discard()
            shutil.rmtree(self.folder, ignore_errors=True)


class FinishWriter(UnitWriter):
    """Writes the files that join what the units have made; finds these by name."""

    def __init__(self, workspace: Workspace, digest: str, markers: Sequence[Marker]) -> None:
        super().__init__(workspace, digest, FINISH_UNIT)
        self._markers = markers
        self._places: dict[str, str] = {}

    def part(self, name: str) -> Path:
        """The path of a file that a unit has made for the final merge.

        For a file that no unit has made, it is the path of a missing file, for a job that asks before it reads.
        """
        if not self._places:
            for marker in self._markers:
                self._places.update(dict.fromkeys(marker.work_files, marker.unit))
        return self.workspace.part_file(self._places.get(name, FINISH_UNIT.id), name)


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


@contextlib.contextmanager
def changing(workspace: Workspace, marker: Marker, files: Mapping[str, PublishedFile]) -> Iterator[None]:
    """Record that files of a finished unit are replaced in OUT within the context; `files` are their new records.

    Until the end of the context, the files count as ours in both states.
    """
    path, after = workspace.marker_file(marker.unit), {**marker.files, **files}
    earlier = {name: [marker.files[name], *marker.earlier.get(name, ())] for name in files}
    write_json(path, msgspec.structs.replace(marker, files=after, earlier=earlier))
    yield
    write_json(path, msgspec.structs.replace(marker, files=after, earlier={}))


def forget(workspace: Workspace, unit: str) -> None:
    """Take a unit of this run back: it is done again. Its objects in a store still count as ours."""
    if isinstance(workspace.out, StorePath):
        retire(workspace, unit)
    with contextlib.suppress(FileNotFoundError):
        gone = workspace.tmp / f"{unit}~{time.time_ns()}"
        os.rename(workspace.run / UNITS / unit, gone)
        shutil.rmtree(gone, ignore_errors=True)
