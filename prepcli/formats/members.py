"""Finds the audio of a record in a container: bytes of the file if they lie there as they are, else bytes in memory.

Each process keeps what it has read of the last containers: the places of a tar's members, and the audio of one row
group of a Parquet file.
"""

import mmap
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any

from prepcli.errors import InputChangedError, RecordRejected, RejectReason, UsageError, option, same_command
from prepcli.formats.parquet import check_installed
from prepcli.formats.tar_walk import member_ranges
from prepcli.storage.addresses import ByteRange, is_address
from prepcli.storage.containers import ONE_PASS_SUFFIXES, Place, name_in
from prepcli.storage.input_files import FileState, state_of
from prepcli.storage.paths import path_of, size_of
from prepcli.storage.ranges import open_object

if TYPE_CHECKING:
    import tarfile
    import zipfile

    import pyarrow
    import pyarrow.parquet as pq

_MAX_CONTAINERS = 512
"""Containers whose places a process keeps; 10,000 members take about 2 MB."""
_LOCAL_HEADER = 30
_HEAD_BYTES = 4096


class Container:
    """A container whose members are found by name.

    Attributes:
        path: the file, or its address.
        state: its state when it was opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.state: FileState = state_of(path)

    def audio(self, member: str) -> ByteRange | bytes:
        """The audio of a member; raises `RecordRejected` if there is none."""
        raise NotImplementedError

    def missing(self, member: str) -> RecordRejected:
        """The reject of a member that is not there."""
        return RecordRejected(RejectReason.MISSING_AUDIO, f"{self.path} has no member {member}")

    def check(self) -> None:
        """Raise `InputChangedError` if the file has changed since it was opened."""
        if is_address(self.path):  # its ETag is compared when a range is read
            return
        now = os.stat(self.path)
        if (now.st_size, now.st_mtime_ns) != self.state[:2]:
            raise InputChangedError(
                f"{self.path} was changed during the run, which has stopped; let nothing write to it and run "
                f"{same_command()} again"
            )


class TarMembers(Container):
    """The regular files in a tar, with the places of their bytes."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.members: dict[str, tuple[int, int]] = {}
        self.repeated: set[str] = set()
        for name, start, size in tar_members(path):
            if name in self.members:
                self.repeated.add(name)
            self.members[name] = start, size

    def audio(self, member: str) -> ByteRange:
        """The bytes of a member."""
        place = self.members.get(member)
        if place is None:
            raise self.missing(member)
        if member in self.repeated:
            raise RecordRejected(RejectReason.BAD_FIELD, f"{self.path} has several members {member}")
        self.check()
        return ByteRange(self.path, *place)


def tar_members(path: str) -> Iterator[tuple[str, int, int]]:
    """Name, first byte and size of each regular file in a tar, in order.

    Raises:
        UsageError: it is damaged, or cut off.
    """
    try:
        with path_of(path).open("rb") as file:
            yield from member_ranges(file)
    except ValueError as error:
        raise UsageError(f"{path} cannot be read as a tar: {error}; copy it again, or leave it out") from None


class ZipMembers(Container):
    """The files in a zip archive: stored ones by their place, deflated ones inflated into memory."""

    def __init__(self, path: str) -> None:
        import zipfile

        super().__init__(path)
        try:
            self._zip = zipfile.ZipFile(opened(path))
        except (zipfile.BadZipFile, ValueError) as error:
            raise UsageError(f"{path} cannot be read as a zip archive: {error}; copy it again") from None
        self.members = {one.filename: one for one in self._zip.infolist() if not one.is_dir()}

    @property
    def is_deflated(self) -> bool:
        """Whether any file is compressed."""
        return any(one.compress_type for one in self.members.values())

    def audio(self, member: str) -> ByteRange | bytes:
        """The bytes of a file in the archive."""
        found = self.members.get(member)
        if found is None:
            raise self.missing(member)
        self.check()
        if found.compress_type or found.flag_bits & 1:
            return self.read(found)
        # The name in the local header may be longer than the one in the directory, and have an extra field.
        file = self._zip.fp
        assert file is not None
        file.seek(found.header_offset)
        local = file.read(_LOCAL_HEADER)
        skip = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        return ByteRange(self.path, found.header_offset + _LOCAL_HEADER + skip, found.file_size)

    def read(self, member: "zipfile.ZipInfo") -> bytes:
        """The bytes of a file; raises `RecordRejected` if it is damaged, encrypted, or larger than it says."""
        import zipfile

        try:
            with self._zip.open(member) as file:
                data = file.read(member.file_size + 1)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
            raise RecordRejected(
                RejectReason.UNREADABLE_AUDIO, f"{name_in(self.path, member.filename)} cannot be unpacked: {error}"
            ) from None
        if len(data) != member.file_size:
            raise RecordRejected(
                RejectReason.UNREADABLE_AUDIO, f"{name_in(self.path, member.filename)} is larger than the archive says"
            )
        return data


class StreamedTar(Container):
    """A compressed tar, which is read from its start; going back begins again."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._members: Iterator[tuple[str, Callable[[], bytes]]] = iter(())
        self._is_begun = False

    def audio(self, member: str) -> bytes:
        """The bytes of the next member of this name."""
        for _ in range(2):
            for name, read in self._members:
                if name == member:
                    self.check()
                    return read()
            self._members = streamed_members(self.path)
        raise self.missing(member)


def streamed_members(path: str) -> "Iterator[tuple[str, Callable[[], bytes]]]":
    """Name of each regular file in a compressed tar, in order, and a function that reads it before the next one.

    Raises:
        UsageError: the archive is damaged.
    """
    import tarfile

    with _damage(path), opened(path) as file, tarfile.open(fileobj=file, mode="r|gz") as tar:
        for member in tar:
            tar.members = []  # type: ignore[attr-defined]
            if member.isreg():
                yield member.name, _reader_of(path, tar, member)


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Raise `UsageError` for damage of a compressed tar."""
    import tarfile

    # Named before: when the interpreter ends, a generator that is not finished is closed without these modules.
    kinds = (tarfile.TarError, EOFError, zlib.error, OSError)
    try:
        yield
    except kinds as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UsageError(f"{path} cannot be read as a compressed tar: {error}; copy it again") from None


def _reader_of(path: str, tar: "tarfile.TarFile", member: "tarfile.TarInfo") -> Callable[[], bytes]:
    def read() -> bytes:
        with _damage(path):
            content = tar.extractfile(member)
            return b"" if content is None else content.read()

    return read


class ArkEntries(Container):
    """A Kaldi archive; a member is the byte at which an entry begins."""

    def audio(self, member: str) -> ByteRange:
        """The audio at a byte: WAV or FLAC as such, or a file of libsndfile behind `AUDIO` and its length.

        Raises:
            RecordRejected: there is something else, such as features.
        """
        start, size = int(member) if member.isdigit() else -1, size_of(self.path)
        if not 0 <= start < size:
            raise self.missing(member)
        self.check()
        with opened(self.path) as file:
            file.seek(start)
            head = file.read(32)
        if head[:5] == b"AUDIO":
            width = head[5]
            length = int.from_bytes(head[6 : 6 + width], "little")
            return ByteRange(self.path, start + 6 + width, min(length, size - start - 6 - width))
        if head[:4] in (b"RIFF", b"RF64"):
            length = int.from_bytes(head[4:8], "little")
            is_known = head[:4] == b"RIFF" and 0 < length < 0xFFFFFFFF
            return ByteRange(self.path, start, min(length + 8, size - start) if is_known else size - start)
        if head[:4] == b"fLaC":
            return ByteRange(self.path, start, size - start)
        raise RecordRejected(RejectReason.UNREADABLE_AUDIO, f"{name_in(self.path, member)} is not audio")


class ParquetRows(Container):
    """The audio of the rows of a Parquet file.

    The audio of one row group is held in memory. If the file stores the audio uncompressed, a process decodes each row
    group once: then it knows the bytes of each row in the file, so that rows in any order cost no more.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._file = open_parquet(path)
        self._column = audio_column(self._file.schema_arrow, path)
        metadata = self._file.metadata
        self._places: dict[int, list[ByteRange | None]] = {}
        self._first = [0]
        for group in range(metadata.num_row_groups):
            self._first.append(self._first[-1] + metadata.row_group(group).num_rows)

    def audio(self, member: str) -> ByteRange | bytes:
        """The bytes of a row."""
        from bisect import bisect_right

        row = int(member) if member.isdigit() else -1
        if not 0 <= row < self._first[-1]:
            raise self.missing(member)
        group = bisect_right(self._first, row) - 1
        within = row - self._first[group]
        if group not in self._places:
            _RowGroup.load(self, group)
        elif (place := self._places[group][within]) is not None:
            self.check()
            return place
        _RowGroup.load(self, group)
        assert _RowGroup.values is not None
        return audio_value(_RowGroup.values, within, name_in(self.path, row))

    def read_group(self, group: int) -> "pyarrow.Array":
        """The audio of a row group."""
        import pyarrow as pa

        self.check()
        try:
            column = self._file.read_row_group(group, columns=[self._column], use_threads=False).column(0)
        except (pa.ArrowException, OSError) as error:
            raise UsageError(f"{self.path} cannot be read: {' '.join(str(error).split())}; copy it again") from None
        values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        self._places[group] = self._places_of(group, values)
        return values

    def _places_of(self, group: int, values: "pyarrow.Array") -> list[ByteRange | None]:
        """The bytes of each row of a group in the file; None if they do not lie there as they are.

        A plain page holds the length of each value in four bytes, then the value; between pages are headers.
        """
        found: list[ByteRange | None] = [None] * len(values)
        stored = self._file.metadata.row_group(group)
        chunks = (stored.column(number) for number in range(stored.num_columns))
        chunk = next((one for one in chunks if one.path_in_schema in (self._column, f"{self._column}.bytes")), None)
        if chunk is None or chunk.compression != "UNCOMPRESSED" or is_address(self.path):
            return found
        start = chunk.data_page_offset
        with opened(self.path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at, end = start, min(start + chunk.total_compressed_size, len(data))
            for row in range(len(values)):
                try:
                    value = audio_value(values, row, self.path)
                except RecordRejected:
                    continue
                wanted = len(value).to_bytes(4, "little") + value
                place = at if data[at : at + len(wanted)] == wanted else data.find(wanted, at, end)
                if place < 0:
                    return [None] * len(values)
                at = place + len(wanted)
                found[row] = ByteRange(self.path, place + 4, len(value))
        return found


class _RowGroup:
    """The row group that this process holds; one, because it may have more than 100 MB."""

    place: tuple[str, int] | None = None
    values: "pyarrow.Array | None" = None

    @classmethod
    def load(cls, rows: ParquetRows, group: int) -> None:
        """Hold a row group."""
        if cls.place != (rows.path, group):
            cls.place = cls.values = None
            cls.values = rows.read_group(group)
            cls.place = rows.path, group


def open_parquet(path: str) -> "pq.ParquetFile":
    """Open a Parquet file.

    Raises:
        UsageError: pyarrow is not installed, or the file is damaged.
    """
    check_installed()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(open_object(path) if is_address(path) else path, pre_buffer=False, memory_map=False)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"{path} cannot be read as Parquet: {' '.join(str(error).split())}; copy it again, or leave it out"
        ) from None


_AUDIO_COLUMNS = ("audio", "audio_bytes", "wav", "flac", "mp3", "speech")


def audio_column(schema: "pyarrow.Schema", path: str, wanted: str | None = None) -> str:
    """The column with encoded audio.

    That is `wanted`; else the one that the metadata of Hugging Face call audio; else the only column of a type for
    audio: a struct with `bytes`, binary data, or lists of bytes.

    Raises:
        UsageError: there is no such column, or there are several.
    """
    names = list(schema.names)
    if wanted is not None:
        if wanted not in names:
            raise UsageError(f"{path} has no column {wanted}; its columns are {', '.join(names)}")
        return wanted
    features = huggingface_features(schema)
    named = [name for name in names if isinstance(features.get(name), dict) and features[name].get("_type") == "Audio"]
    found = named or [name for name in names if _may_be_audio(schema.field(name).type)]
    if len(found) > 1:
        found = [name for name in _AUDIO_COLUMNS if name in found][:1] or found
    if len(found) != 1:
        which = "several columns that may hold audio" if found else "no column with audio"
        raise UsageError(
            f"{path} has {which} (its columns are {', '.join(found or names)}); name it with {option('--audio-column')}"
        )
    return str(found[0])


def huggingface_features(schema: "pyarrow.Schema") -> dict[str, Any]:
    """The features that Hugging Face datasets has stored in a schema; empty if there are none."""
    import json

    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}
    return features if isinstance(features, dict) else {}


def _may_be_audio(kind: "pyarrow.DataType") -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return any(kind.field(number).name == "bytes" for number in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return bool(pa.types.is_int8(kind.value_type) or pa.types.is_uint8(kind.value_type))
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def audio_value(values: "pyarrow.Array", row: int, name: str) -> bytes:
    """The encoded audio in a row of a column.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if the row has no audio, or only a path.
    """
    import numpy as np
    import pyarrow as pa

    kind = values.type
    path = None
    if pa.types.is_struct(kind):
        if values[row].is_valid and any(kind.field(number).name == "path" for number in range(kind.num_fields)):
            path = values.field("path")[row].as_py()
        is_there = values[row].is_valid
        values = values.field("bytes")
        if not is_there:
            raise _not_embedded(name, None)
    value = values[row]
    if not value.is_valid:
        raise _not_embedded(name, path)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return bytes(np.asarray(value.values).view(np.uint8).tobytes())
    return bytes(value.as_buffer())


def _not_embedded(name: str, path: object) -> RecordRejected:
    only = f": the row has only the path {path}, which is not followed" if path else ""
    return RecordRejected(RejectReason.UNREADABLE_AUDIO, f"the audio of {name} is not embedded{only}")


def opened(path: str) -> IO[bytes]:
    """Open a file or an object to read its bytes."""
    return open_object(path) if is_address(path) else path_of(path).open("rb")


@lru_cache(maxsize=_MAX_CONTAINERS)
def _container(path: str, process: int) -> Container:
    lower = path.lower()
    kind: type[Container] = TarMembers
    if lower.endswith(ONE_PASS_SUFFIXES):
        kind = StreamedTar
    elif lower.endswith(".zip"):
        kind = ZipMembers
    elif lower.endswith(".parquet"):
        kind = ParquetRows
    elif lower.endswith(".ark"):
        kind = ArkEntries
    return kind(path)


def container(path: str) -> Container:
    """The container at a path, which this process keeps open or in memory."""
    return _container(path, os.getpid())  # positions in files are shared with a forked process


def forget() -> None:
    """Close all containers; at the start of a run, because files may have changed since the last one."""
    _container.cache_clear()
    _RowGroup.place = _RowGroup.values = None


def read_member(place: Place) -> bytes:
    """The bytes of a record's audio; raises as `audio_of`, and `OSError` if they cannot be read."""
    found = audio_of(place)
    if isinstance(found, bytes):
        return found
    with opened(found.path) as file:
        file.seek(found.start)
        return file.read(found.length)


def audio_of(place: Place) -> ByteRange | bytes:
    """The audio of a record in a container.

    Raises:
        RecordRejected: MISSING_AUDIO if the container or the member does not exist, UNREADABLE_AUDIO if it is damaged.
        InputChangedError: the container was changed since this process opened it.
    """
    try:
        return container(place.path).audio(place.member)
    except FileNotFoundError:
        raise RecordRejected(RejectReason.MISSING_AUDIO, f"{place.path} does not exist") from None
    except UsageError as error:
        raise RecordRejected(RejectReason.UNREADABLE_AUDIO, str(error)) from None
