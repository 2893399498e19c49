"""Publishing a unit: its files appear under their final names together, complete, or not at all."""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import msgspec

from prepcli.engine.in_the_way import naming_what_is_in_the_way
from prepcli.engine.plan import Unit
from prepcli.engine.rejects import Origin, reject_line
from prepcli.engine.workspace import Workspace, read_document, write_json
from prepcli.errors import RecordRejected
from prepcli.processes import no_interruption
from prepcli.version import __version__

WRITEBACK_BYTES = 4 << 20
"""Bytes of a file that may wait in the page cache before writeback is started."""
MANY_FILES = 16
"""Number of files that are flushed to the disk at once (measured: a third of the time for 64 of 400 kB)."""
FLUSHING_THREADS = 4
"""Threads that flush whole files during the work (measured: 5 % less time than at the end, for 2,703 of 230 kB)."""

_JOINED_BYTES = 1 << 20


class PublishedFile(msgspec.Struct, frozen=True):
    """A published file; resuming and `verify` compare with it."""

    sha256: str
    num_bytes: int


class Marker(msgspec.Struct, frozen=True):
    """`done/<unit>.json`: the unit is complete. `files` are relative to OUT, `work_files` to OUT.prepcli."""

    unit: str
    digest: str
    records_out: int
    rejects: dict[str, int]
    seconds: float
    files: dict[str, PublishedFile]
    work_files: dict[str, PublishedFile]
    wall_seconds: float
    extra: dict[str, float] = {}
    prepcli: str = __version__


class AccountingError(Exception):
    """Some records are neither in the output nor in the rejects: a bug that must never be ignored."""


class HashedFile:
    """A file being written; SHA-256 and size are computed on the way, so that nothing is read again."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._hash = hashlib.sha256()
        self._begun = 0
        self.num_bytes = 0

    def write(self, data: bytes) -> int:
        """Append `data`."""
        self._hash.update(data)
        self.num_bytes += len(data)
        written = self._file.write(data)
        if self.num_bytes - self._begun >= WRITEBACK_BYTES:
            self._begin_writeback()
        return written

    def _begin_writeback(self) -> None:
        """Start writeback now, during the work: the flush at the end then takes a fraction of the time."""
        self._file.flush()
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), self._begun, 0, os.POSIX_FADV_DONTNEED)
        self._begun = self.num_bytes

    def close(self) -> PublishedFile:
        """Flush to the disk and return what was written."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return PublishedFile(self._hash.hexdigest(), self.num_bytes)

    def discard(self) -> None:
        """Close without flushing; the content is not needed."""
        self._file.close()


class WholeFile:
    """A file that was written in one call. It holds no descriptor, so that a unit may have thousands of them.

    A thread of `flushing` flushes it to the disk while the next one is made.
    """

    def __init__(self, path: Path, data: bytes, flushing: ThreadPoolExecutor) -> None:
        path.write_bytes(data)
        self._flushed = flushing.submit(_flush, path)
        self._published = PublishedFile(hashlib.sha256(data).hexdigest(), len(data))

    def close(self) -> PublishedFile:
        """Wait for the flush and return what was written."""
        self._flushed.result()
        return self._published

    def discard(self) -> None:
        """Do nothing: no descriptor is open."""


class UnitWriter:
    """Collects one unit's files and rejects in a temporary directory, and publishes them.

    Files are renamed in the order in which they were opened: open the file that readers list by (a shard's manifest,
    its cuts) last. Files given to `add_after` come behind all of these, and then the marker. Without the marker the
    unit is done again; leaving the context without `publish` removes everything.

    Example:
        with UnitWriter(workspace, digest, unit) as writer:
            tar = writer.open("audio_0.tar")
            tar.write(...)
            writer.count(1, seconds=3.2)
            writer.publish()
    """

    def __init__(self, workspace: Workspace, digest: str, unit: Unit) -> None:
        self.workspace = workspace
        self._digest = digest
        self.unit = unit
        self._started = time.monotonic()
        self._tmp = workspace.make_tmp(unit.id)
        self._files: dict[str, HashedFile | WholeFile] = {}
        self._after: dict[str, bytes] = {}
        self._work_files: dict[str, HashedFile] = {}
        self._flushing: ThreadPoolExecutor | None = None
        self._rejects: Counter[str] = Counter()
        self._reject_file: HashedFile | None = None
        self.records_out = 0
        self.seconds = 0.0
        self.extra: Counter[str] = Counter()

    @property
    def folder(self) -> Path:
        """The temporary directory."""
        return self._tmp

    def open(self, name: str) -> HashedFile:
        """A new file that will become `OUT/name`."""
        file = HashedFile(self._tmp / f"{len(self._files)}.out")
        self._files[name] = file
        return file

    def add(self, name: str, data: bytes) -> None:
        """A whole file that will become `OUT/name`; for units with many small files."""
        with no_interruption():
            if self._flushing is None:
                self._flushing = ThreadPoolExecutor(FLUSHING_THREADS)
            self._files[name] = WholeFile(self._tmp / f"{len(self._files)}.out", data, self._flushing)

    def add_after(self, name: str, data: bytes) -> None:
        """A small file that will become `OUT/name` and describes other files of the unit, such as an index of one.

        It is written when those are complete, and renamed after them, so it is never older than they are. An earlier
        one is removed before they are renamed.
        """
        self._after[name] = data

    def open_part(self, name: str) -> HashedFile:
        """A new file that will become `OUT.prepcli/name`, for the job's finishing merge."""
        file = self._work_files[name] = HashedFile(self._tmp / f"{len(self._work_files)}.part")
        return file

    def join(self, name: str, parts: Iterable[str]) -> None:
        """Make `OUT/name` of parts (`open_part`) that units have published, one after the other."""
        joined = self.open(name)
        for part in parts:
            with (self.workspace.root / part).open("rb") as file:
                while block := file.read(_JOINED_BYTES):
                    joined.write(block)

    def count(self, records: int, seconds: float) -> None:
        """Count `records` records with `seconds` of audio as written to the unit's files."""
        self.records_out += records
        self.seconds += seconds

    def reject(self, line: bytes, rejected: RecordRejected, origin: Origin) -> None:
        """Add a reject; `line` is its original manifest line."""
        if self._reject_file is None:
            self._reject_file = self.open_part(f"rejects/{self.unit.id}.jsonl")
        self._reject_file.write(reject_line(line, rejected, origin))
        self._rejects[rejected.reason.value] += 1

    @property
    def num_rejects(self) -> int:
        """Number of rejects so far."""
        return self._rejects.total()

    def publish(self) -> Marker:
        """Flush, fsync and rename the files into place, then write the marker.

        Only the files' data are forced to the disk. If the power fails, a rename or the marker may be lost, but then
        `read_marker` misses the marker or a file of its size, and the unit is done again.

        Raises:
            AccountingError: the unit's records do not add up.
            OSError: the disk is full, a rename was refused, ...; no marker is written then.
            PrepcliError: another command has started again in the output directory.
        """
        if self.records_out + self.num_rejects != self.unit.num_records:
            raise AccountingError(
                f"unit {self.unit.id}: {self.unit.num_records} records in, but {self.records_out} out and "
                f"{self.num_rejects} rejected"
            )
        files, work_files = _close_all(self._files), _close_all(self._work_files)
        for name, data in self._after.items():
            self.open(name).write(data)
        files |= _close_all({name: self._files[name] for name in self._after})
        self.workspace.check_claim()
        for name in self._after:  # those of earlier files do not fit these
            (self.workspace.out / name).unlink(missing_ok=True)
        for number, name in enumerate(files):
            _move(self._tmp / f"{number}.out", self.workspace.out / name)
        for number, name in enumerate(work_files):
            _move(self._tmp / f"{number}.part", self.workspace.root / name)
        marker = Marker(
            unit=self.unit.id,
            digest=self._digest,
            records_out=self.records_out,
            rejects=dict(self._rejects),
            seconds=round(self.seconds, 6),
            files=files,
            work_files=work_files,
            wall_seconds=round(time.monotonic() - self._started, 3),
            extra=dict(self.extra),
        )
        write_json(self.workspace.done / f"{self.unit.id}.json", marker, durable=False)
        return marker

    def __enter__(self) -> "UnitWriter":
        return self

    def __exit__(self, *_: object) -> None:
        with no_interruption():  # or a part of it would stay
            for file in (*self._files.values(), *self._work_files.values()):
                file.discard()
            if self._flushing is not None:
                self._flushing.shutdown(cancel_futures=True)
            self.workspace.remove_tmp(self._tmp)


def _close_all(files: Mapping[str, HashedFile | WholeFile]) -> dict[str, PublishedFile]:
    """Close the files in parallel: waiting for the disk together takes a fraction of the time.

    Whole files are being flushed already; this waits for them.
    """
    if sum(isinstance(file, HashedFile) for file in files.values()) < MANY_FILES:
        return {name: file.close() for name, file in files.items()}
    with no_interruption(), ThreadPoolExecutor(MANY_FILES) as pool:
        return dict(zip(files, pool.map(lambda file: file.close(), files.values()), strict=True))


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move(source: Path, target: Path) -> None:
    with naming_what_is_in_the_way(target):
        try:
            os.replace(source, target)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)


def read_marker(workspace: Workspace, unit: Unit, digest: str) -> Marker | None:
    """The unit's marker, if it is of this plan and every file it names is still there with its size."""
    try:
        marker = read_document(workspace.done / f"{unit.id}.json", Marker)
    except OSError:
        return None
    if marker is None or marker.digest != digest:
        return None
    for root, files in ((workspace.out, marker.files), (workspace.root, marker.work_files)):
        for name, file in files.items():
            try:
                if (root / name).stat().st_size != file.num_bytes:
                    return None
            except OSError:
                return None
    return marker
