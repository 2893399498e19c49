"""Archives with audio: tars, compressed tars, zip archives and Kaldi's archives, whose members are found by name."""

import io
import os
import stat
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, TYPE_CHECKING

from prepcli.errors import InputChangedError, RecordRejected, RejectReason, UsageError, same_command
from prepcli.formats.tar import BLOCK, walk_headers
from prepcli.formats.tar_walk import SPARSE, member_ranges
from prepcli.formats.zip_directory import check_not_joined, check_volumes, is_utf8, raw_name, unicode_name
from prepcli.storage.addresses import ByteRange, is_address
from prepcli.storage.containers import name_in
from prepcli.storage.input_files import FileState, state_of
from prepcli.storage.member_names import NameEncoding, decoded, name_as_stored
from prepcli.storage.paths import path_of, size_of

if TYPE_CHECKING:
    import tarfile
    import zipfile

_LOCAL_HEADER = 30
_BEGINNING_BYTES = 4096
_PAGE_BYTES = 1 << 20
_MAX_INFLATED_BYTES = 2 << 30
"""Maximum size of a compressed member that is unpacked into memory: 6 hours at 48 kHz. A larger one may be a bomb."""


class Container(ABC):
    """A container whose members are found by name.

    Attributes:
        path: the file, or its address.
        state: its state when it was opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.state: FileState = state_of(path)

    @abstractmethod
    def audio(self, member: str) -> ByteRange | bytes:
        """The audio of a member: its place in the file, or its bytes if it has no known place.

        Raises:
            RecordRejected: the member does not exist, several members have its name, or it cannot be read.
        """

    def missing(self, member: str) -> RecordRejected:
        """The error for a member that the container does not have."""
        return RecordRejected(RejectReason.MISSING_AUDIO, f"{self.path} has no member {member}")

    def check(self) -> None:
        """Raise `InputChangedError` if the file has changed since it was opened; does nothing for an object."""
        if is_address(self.path):  # the ETag of an object is compared when a range is read
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
        self.sparse: set[str] = set()
        for name, start, size in tar_members(path):
            if size is None:
                continue
            if size == SPARSE:
                self.sparse.add(name)
            if name in self.members:
                self.repeated.add(name)
            self.members[name] = start, size

    def audio(self, member: str) -> ByteRange:
        """The place of a member's bytes in the tar."""
        if member not in self.members:
            member = name_as_stored(member, self.members, "utf-8") or member
        place = self.members.get(member)
        if place is None:
            raise self.missing(member)
        if member in self.repeated:
            raise repeated(self.path, member)
        if member in self.sparse:
            raise sparse(self.path, member)
        self.check()
        return ByteRange(self.path, *place)


def repeated(path: str, member: str) -> RecordRejected:
    """The error for a name that several members of a container have."""
    return RecordRejected(RejectReason.BAD_FIELD, f"{path} has several members {member}")


def linked(path: str, member: str) -> RecordRejected:
    """The error for a member that is a link."""
    return RecordRejected(
        RejectReason.MISSING_AUDIO,
        f"{path}: {member} is a link, not a file; pack files (tar --dereference --hard-dereference, zip without -y)",
    )


def sparse(path: str, member: str) -> RecordRejected:
    """The error for a member of a tar that is stored without its holes."""
    detail = f"{path}: {member} is stored as a sparse file; pack the files without --sparse"
    return RecordRejected(RejectReason.UNREADABLE_AUDIO, detail)


def tar_members(path: str) -> Iterator[tuple[str, int, int | None]]:
    """Yield the name, the start and the size of each regular file and link in a tar, in order.

    The start is the offset of the file's bytes in the tar. The size of a link is None, that of a sparse file `SPARSE`.

    Raises:
        UsageError: the tar is damaged, or cut off.
    """
    try:
        with path_of(path).open("rb") as file:
            yield from member_ranges(file)
    except ValueError as error:
        raise UsageError(f"{path} cannot be read as a tar: {error}; copy it again, or leave it out") from None


class ZipMembers(Container):
    """The files in a zip archive.

    The audio of an uncompressed file is its place in the archive. A compressed file is unpacked into memory.

    Names are UTF-8 if the archive says so, or if all its other names are valid UTF-8, as some programs write them. Else
    they are code page 437, as the format says, which is often wrong.

    Attributes:
        files: the files in the order of the archive; the attribute `filename` of each is its name.
        members: the files by name.
        repeated: the names that several files have.
        is_unknown: whether there are names whose encoding is not known.
    """

    def __init__(self, path: str) -> None:
        import zipfile

        super().__init__(path)
        file = path_of(path).open("rb")
        check_volumes(file, path)
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError) as error:
            raise UsageError(f"{path} cannot be read as a zip archive: {error}; copy it again") from None
        check_not_joined(file, path, min((member.header_offset for member in self._zip.infolist()), default=0))
        self.files = self._zip.infolist()
        raw_names = {member.orig_filename: raw for member in self.files if (raw := raw_name(member)) is not None}
        self.is_unknown = not all(map(is_utf8, raw_names.values()))
        for member in self.files:
            if member.orig_filename in raw_names and not self.is_unknown:
                member.filename = raw_names[member.orig_filename].decode()
            else:
                member.filename = unicode_name(member) or member.filename
            if not member.create_system and not self.is_unknown:
                member.filename = member.filename.replace("\\", "/")  # some programs for Windows write it
        self.files = [member for member in self.files if not member.filename.endswith("/")]
        self.members = {member.filename: member for member in self.files}
        self.repeated = {name for name, count in Counter(member.filename for member in self.files).items() if count > 1}
        self._stored = {
            member.orig_filename: member.filename for member in self.files if member.orig_filename in raw_names
        }

    def name_of(self, member: "zipfile.ZipInfo", encoding: NameEncoding | None) -> str:
        """The name of a file, decoded with `encoding` if the archive does not state the encoding of the name.

        Raises:
            UsageError: the name has another encoding.
        """
        raw = None if encoding is None else raw_name(member)
        return member.filename if raw is None or encoding is None else decoded(raw, encoding, self.path)

    def damage(self) -> "Iterator[tuple[str, str]]":
        """Read all files; yields the name of each that is damaged, with the problem."""
        import zipfile

        for member in self.files:
            try:
                with self._zip.open(member) as file:
                    while file.read(_PAGE_BYTES):
                        pass
            except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
                yield member.filename, str(error)

    @property
    def is_deflated(self) -> bool:
        """Whether any file in the archive is compressed."""
        return any(member.compress_type for member in self.members.values())

    def audio(self, member: str) -> ByteRange | bytes:
        """The place of an uncompressed file in the archive, or the bytes of a compressed one."""
        if member not in self.members:
            member = self._stored.get(name_as_stored(member, self._stored, "cp437") or "", member)
        info = self.members.get(member)
        if info is None:
            raise self.missing(member)
        if member in self.repeated:
            raise repeated(self.path, member)
        if stat.S_ISLNK(info.external_attr >> 16):
            raise linked(self.path, member)
        self.check()
        if info.compress_type or info.flag_bits & 1:
            return self.read(info)
        # The name in the local header may be longer than the one in the directory, and have an extra field.
        file = self._zip.fp
        assert file is not None
        file.seek(info.header_offset)
        local = file.read(_LOCAL_HEADER)
        skip = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        return ByteRange(self.path, info.header_offset + _LOCAL_HEADER + skip, info.file_size, info.CRC)

    def read(self, member: "zipfile.ZipInfo") -> bytes:
        """The bytes of a file; raises `RecordRejected` if it is damaged, encrypted or too large."""
        import zipfile

        check_inflated(self.path, member.filename, member.file_size)
        try:
            with self._zip.open(member) as file:
                return file.read()  # at most `file_size` bytes, whose checksum is compared
        except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
            raise RecordRejected(
                RejectReason.UNREADABLE_AUDIO, f"{name_in(self.path, member.filename)} cannot be unpacked: {error}"
            ) from None


def check_inflated(path: str, member: str, num_bytes: int) -> None:
    """Raise `RecordRejected` if a compressed member is too large to be unpacked into memory."""
    if num_bytes > _MAX_INFLATED_BYTES:
        detail = f"{name_in(path, member)} would have {num_bytes:,} bytes in memory; unpack the archive"
        raise RecordRejected(RejectReason.UNREADABLE_AUDIO, detail)


class StreamedTar(Container):
    """A compressed tar, whose members are read in order.

    For a member before the current one, the tar is read from its start again.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._members: Iterator[tuple[str, Callable[[], bytes]]] = iter(())
        self._passed: set[str] = set()

    def audio(self, member: str) -> bytes:
        """The bytes of the first member of this name."""
        for _ in range(2):
            try:
                for name, read in self._members:
                    is_member = name == member or (
                        not name.isascii() and name_as_stored(member, (name,), "utf-8") is not None
                    )
                    if is_member and name not in self._passed:
                        self._passed.add(name)
                        self.check()
                        return read()
                    self._passed.add(name)
            except UsageError:
                self.check()
                raise
            self._members, self._passed = streamed_members(self.path), set()
        raise self.missing(member)


def streamed_members(path: str) -> "Iterator[tuple[str, Callable[[], bytes]]]":
    """Yield the name of each regular file and link in a compressed tar, in order, with a function that reads its bytes.

    The function must be called before the next member is taken. For a link it raises `RecordRejected`.

    Raises:
        UsageError: the archive is damaged.
    """
    import gzip
    import tarfile

    with _damage(path), path_of(path).open("rb") as file, io.BufferedReader(gzip.open(file), _PAGE_BYTES) as data:
        is_first = True
        while is_first or _pass_zeros(data):
            with tarfile.open(fileobj=data, mode="r:") as tar:
                for member in walk_headers(tar):
                    if member.isreg() or member.issym() or member.islnk():
                        yield member.name, _reader_of(path, tar, member)
                end = tar.offset
            data.seek(end)
            if data.read(BLOCK).strip(b"\0"):  # `tarfile` takes anything that is not a header for the end
                raise tarfile.ReadError(f"it is broken at byte {end:,} of the unpacked tar")
            is_first = False


def _pass_zeros(data: IO[bytes]) -> bool:
    """Go to the next header after an end mark; returns whether there is one: several tars may be joined.

    Raises:
        tarfile.ReadError: something else than a tar follows.
    """
    import tarfile

    while block := data.read(BLOCK):
        if block.strip(b"\0"):
            try:
                tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.TarError:
                raise tarfile.ReadError("bytes that are not a tar follow its end mark") from None
            data.seek(-BLOCK, os.SEEK_CUR)
            return True
    return False


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """A context for code that reads the compressed tar `path`: errors that come from damage become `UsageError`."""
    import tarfile

    # Evaluated here: if a generator is closed when the interpreter ends, these modules are gone.
    kinds = (tarfile.TarError, EOFError, zlib.error, OSError)
    try:
        yield
    except kinds as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UsageError(f"{path} cannot be read as a compressed tar: {error}; copy it again") from None


def _reader_of(path: str, tar: "tarfile.TarFile", member: "tarfile.TarInfo") -> Callable[[], bytes]:
    def read() -> bytes:
        if not member.isreg():
            raise linked(path, member.name)
        check_inflated(path, member.name, member.size)
        with _damage(path):
            content = tar.extractfile(member)
            return b"" if content is None else content.read()

    return read


class ArkEntries(Container):
    """A Kaldi archive. The name of a member is the number of the byte at which its entry begins."""

    def audio(self, member: str) -> ByteRange:
        """The place of an entry's audio.

        The entry is a WAV or FLAC file; or it is the text `AUDIO`, a length, and a file of this length in a format of
        libsndfile.

        Raises:
            RecordRejected: no entry can begin at this byte, or it holds something else, such as features.
        """
        size = size_of(self.path)
        start = int(member) if member.isdecimal() and len(member) < 20 else size  # `int` refuses thousands of digits
        if start >= size:
            raise self.missing(member)
        self.check()
        with path_of(self.path).open("rb") as file:
            file.seek(start)
            head = file.read(32)
        if head[:5] == b"AUDIO":
            width = head[5]
            length = int.from_bytes(head[6 : 6 + width], "little")
            return ByteRange(self.path, start + 6 + width, min(length, size - start - 6 - width))
        if head[:4] in (b"RIFF", b"RF64"):
            length = int.from_bytes(head[4:8], "little")  # 0 or the largest number if the audio was written to a pipe
            return ByteRange(self.path, start, min(length + 8, size - start) if length else size - start)
        if head[:4] == b"fLaC":
            return ByteRange(self.path, start, size - start)
        raise RecordRejected(RejectReason.UNREADABLE_AUDIO, f"{name_in(self.path, member)} is not audio")


def checksum(audio: ByteRange | bytes) -> int | None:
    """The CRC-32 of audio in a container.

    For a range of a file whose container states a checksum, this is the CRC-32 of all bytes; otherwise it is computed
    from the first 4096 bytes. None for a range of an object without a stated checksum: its ETag identifies the content.
    """
    if isinstance(audio, bytes):
        return zlib.crc32(audio[:_BEGINNING_BYTES])
    if audio.crc32 is not None or is_address(audio.path):
        return audio.crc32
    file = open_to_check(audio.path, os.getpid())
    return zlib.crc32(os.pread(file.fileno(), min(audio.length, _BEGINNING_BYTES), audio.start))


@lru_cache(maxsize=1)
def open_to_check(path: str, process: int) -> IO[bytes]:
    """Open a file for `checksum`; it stays open until another one is opened, as successive calls often read one file.

    `process` is the caller's process id: a forked process opens the file itself.
    """
    return open(path, "rb", buffering=0)  # noqa: PTH123 - closed when the next one is opened
