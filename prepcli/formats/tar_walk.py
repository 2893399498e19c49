"""Finds the offsets of a tar's members from the headers alone; the content of the members is not needed."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prepcli.formats.tar import BLOCK, walk_headers
from prepcli.storage.input_files import read_at
from prepcli.storage.ranges import RangeFile

Reader = Callable[[int, int], bytes]
"""A function that takes a length and an offset in bytes, and reads at most `length` bytes from there."""

SPARSE = -1
"""In place of the size of a file that is stored without its holes, such as by `tar --sparse`."""
_ZEROS = bytes(BLOCK)
_CHECKED_AT_ONCE = 240
"""Number of headers that are joined and checked at once. Their 120 KiB fit into the processor's cache, and the
allocator reuses the memory."""
_PAGE_BYTES = 3 * BLOCK
"""Bytes per read after a small member: a header, a member of at most one block (such as a Shar manifest), and the next
header.
"""
_ZEROS_AT_ONCE = 64 << 10
_AFTER_SIZE, _KIND = 135, 156
_FILE, _LINKS = ord("0"), b"12"
_BEFORE_MEMBER = (b"L", b"K", b"x", b"g")
"""The types of headers that describe the header after them."""
_OCTAL = 8 ** np.arange(5, -1, -1)
_HARMLESS_KEYS = frozenset({b"path", b"mtime", b"atime", b"ctime", b"uid", b"gid", b"uname", b"gname"})
"""Keys of a PAX header that this module reads (`path`) or may ignore. With other keys, `tarfile` reads the tar."""


@dataclass(slots=True)
class TarWalk:
    """The members of a tar, in order.

    `offsets` has the offset of each member's first header, which is a PAX or GNU header if the name is long. `end` is
    the end of the last member and `num_bytes` the size of the file, in bytes. `sparse` has the offsets of the regular
    files that are stored without their holes, so that their bytes are not in one piece.
    """

    num_bytes: int
    offsets: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    is_regular: list[bool] = field(default_factory=list)
    sparse: set[int] = field(default_factory=set)
    end: int = 0

    def add(self, offset: int, name: str, is_regular: bool) -> None:
        """Append a member."""
        self.offsets.append(offset)
        self.names.append(name)
        self.is_regular.append(is_regular)


class _UncommonError(Exception):
    """The header is of a kind that only `tarfile` reads."""


def walk_tar(file: IO[bytes]) -> TarWalk:
    """Read the headers of an open tar, also those after an end mark: several tars may be joined (`cat a.tar b.tar`).

    Plain headers are read here, at a tenth of the cost of `tarfile`; a tar with other headers is read by `tarfile`.

    Raises:
        ValueError: the file is not a tar, or damaged; the message has no path.
    """
    num_bytes, read = _reader(file)
    try:
        return _walk(read, num_bytes)
    except _UncommonError:
        return _walk_by_tarfile(file, num_bytes, read)


def member_ranges(file: IO[bytes]) -> Iterator[tuple[str, int, int | None]]:
    """Yield the name, the start and the size of each regular file and link in an open tar, in order.

    The start is the offset of the file's bytes in the tar. The size of a link is None, that of a sparse file `SPARSE`.
    Raises as `walk_tar` does.
    """
    _, read = _reader(file)
    walk = walk_tar(file)
    for name, at, is_regular in zip(walk.names, walk.offsets, walk.is_regular, strict=True):
        if at in walk.sparse:
            yield name, at, SPARSE
            continue
        head = read(BLOCK, at)
        while head[_KIND : _KIND + 1] in _BEFORE_MEMBER:  # headers with a long name
            at += BLOCK + -(-_size(head) // BLOCK) * BLOCK
            head = read(BLOCK, at)
        if is_regular or head[_KIND] in _LINKS:
            yield name, at + BLOCK, _size(head) if is_regular else None


def _size(head: bytes) -> int:
    """The size in a header, as octal digits or as GNU's base-256 number (8 GiB and more).

    Raises `ValueError` for any other text.
    """
    if head[124:125] == b"\x80":
        return int.from_bytes(head[125:136], "big")
    return int(head[124:136].rstrip(b"\0 ") or b"0", 8)


def _reader(file: IO[bytes]) -> tuple[int, Reader]:
    """The size of an open file in bytes, and a function that reads from it."""
    raw = getattr(file, "raw", None)
    if isinstance(raw, RangeFile):
        return raw.info.num_bytes, raw.read_near
    descriptor = file.fileno()
    return os.fstat(descriptor).st_size, partial(read_at, descriptor)


def _walk(read: Reader, num_bytes: int) -> TarWalk:
    walk, members = TarWalk(num_bytes), _Members()
    position = 0
    while True:
        position = _pass_files(read, position, num_bytes, walk.offsets, members.heads)
        if len(members.heads) >= _CHECKED_AT_ONCE:
            walk.names += members.take_names()
        begin = position
        header = _header_at(read, position, num_bytes, begin)
        long_name: bytes | None = None
        while header is not None and header.kind in b"Lx":
            content = read(header.size, header.data)
            name = content.partition(b"\0")[0] if header.kind == b"L" else _path_in(content)
            long_name = long_name if name is None else name
            members.before.append(header.head)
            position = header.end
            header = _header_at(read, position, num_bytes, begin)
        if header is None:
            if begin != position:
                raise ValueError(f"it is cut off in the member at byte {begin:,}")
            walk.end, position = position, _after_zeros(read, position, num_bytes)
            if position == num_bytes:
                break
            continue
        if header.kind not in b"0\0" or (header.kind == b"\0" and _name(header.head).endswith(b"/")):
            raise _UncommonError
        members.add(header.head, long_name)
        walk.offsets.append(begin)
        position = header.end
    walk.names += members.take_names()
    if num_bytes == 0:
        raise ValueError("it is empty")
    walk.is_regular = [True] * len(walk.names)
    return walk


def _after_zeros(read: Reader, position: int, num_bytes: int) -> int:
    """The first block from `position` on that is not zero; the end of the file if there is none.

    Zeros end a tar, but programs that join tars put the headers of the next one after them (`tar --ignore-zeros`).
    """
    while position < num_bytes:
        data = read(_ZEROS_AT_ONCE, position)
        if rest := data.lstrip(b"\0"):
            return position + (len(data) - len(rest)) // BLOCK * BLOCK
        position += len(data)
    return num_bytes


def _pass_files(read: Reader, position: int, num_bytes: int, offsets: list[int], heads: list[bytes]) -> int:
    """Append the plain headers of files from byte `position` on to `heads`, and their offsets to `offsets`.

    The function stops at the first header of another kind, which `_header_at` reads, or when `heads` is full. Its loop
    takes most of the time of a walk: two microseconds per member, more than half of them for reading.

    Returns:
        The position of the next header.
    """
    page, page_begin, has_small = b"", position, False
    for _ in range(_CHECKED_AT_ONCE - len(heads)):
        if has_small:
            at = position - page_begin
            if at + BLOCK > len(page):
                page, page_begin, at = read(_PAGE_BYTES, position), position, 0
            head = page[at : at + BLOCK]
        else:
            head = read(BLOCK, position)
        try:
            size = int(head[124:135], 8)
        except ValueError:
            break
        end = position + BLOCK + size
        if end > num_bytes or size < 0 or head[_AFTER_SIZE] or head[_KIND] != _FILE:
            break
        has_small = has_small or size <= _PAGE_BYTES - 2 * BLOCK
        heads.append(head)
        offsets.append(position)
        position = (end + BLOCK - 1) // BLOCK * BLOCK
    return position


class _Header(NamedTuple):
    """A header of any kind: its bytes and type, the start and size of its content, and the start of the next header."""

    head: bytes
    kind: bytes
    data: int
    size: int
    end: int


def _header_at(read: Reader, position: int, num_bytes: int, begin: int) -> _Header | None:
    """The header at byte `position`; None at the end of the archive.

    A member may have several headers: `begin` is the byte at which its first header begins, for the message.

    Raises:
        ValueError: the member is cut off.
    """
    if position >= num_bytes:
        return None
    head = read(BLOCK, position)
    if head == _ZEROS:
        return None
    size, data = _octal_size(head), position + BLOCK
    if data + size > num_bytes:
        raise ValueError(f"it is cut off in the member at byte {begin:,}")
    if len(head) < BLOCK:
        raise _UncommonError
    return _Header(head, head[_KIND : _KIND + 1], data, size, data + -(-size // BLOCK) * BLOCK)


class _Members:
    """Headers of files, whose checksums and names are read many at a time."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.before: list[bytes] = []  # PAX and GNU headers with the names of the files
        self._long_names: dict[int, bytes] = {}

    def add(self, head: bytes, long_name: bytes | None) -> None:
        """Add the header of a file; `long_name` is the name in a header before it, if there is one."""
        if long_name is not None:
            self._long_names[len(self.heads)] = long_name
        self.heads.append(head)

    def take_names(self) -> list[str]:
        """Check the headers that were added, return the names of their files, and forget the headers."""
        names: list[str] = []
        if self.before:
            _check_sums(self.before, _blocks(self.before))
        if self.heads:
            blocks = _blocks(self.heads)
            _check_sums(self.heads, blocks)
            names = _names(self.heads, blocks, self._long_names)
        self.heads.clear()
        self.before.clear()
        self._long_names.clear()
        return names


def _octal_size(head: bytes) -> int:
    """The size in a header, from octal digits; raises `_UncommonError` for another form, such as GNU's base-256."""
    try:
        size = int(head[124:136].rstrip(b"\0 ") or b"0", 8)
    except ValueError:
        raise _UncommonError from None
    if size < 0:
        raise _UncommonError
    return size


def _names(heads: list[bytes], blocks: NDArray[np.uint8], long_names: Mapping[int, bytes]) -> list[str]:
    """The names of the files with these headers.

    `long_names` has the names that do not fit into one header, by the position of the file's header in `heads`.
    """
    names: list[bytes] = np.ascontiguousarray(blocks[:, :100]).view("S100")[:, 0].tolist()
    for number in np.flatnonzero(blocks[:, 345]).tolist():
        names[number] = _name(heads[number])
    for number, name in long_names.items():
        names[number] = name
    joined = b"\0".join(names)
    if joined.count(b"\0") >= len(names):  # some bytes follow the end of a name
        joined = b"\0".join([name.partition(b"\0")[0] for name in names])
    return joined.decode("utf-8", "surrogateescape").split("\0")


def _name(head: bytes) -> bytes:
    name = head[:100].partition(b"\0")[0]
    if not head[345]:
        return name
    return head[345:500].partition(b"\0")[0] + b"/" + name


def _path_in(records: bytes) -> bytes | None:
    """The path in a PAX header, which has a line `<length> <key>=<value>` per record; None if there is no path.

    Raises `_UncommonError` if the header is damaged, or has a key that is not in `_HARMLESS_KEYS`.
    """
    path = None
    while records:
        length, _, _ = records.partition(b" ")
        if not length.isdigit() or not len(length) < int(length) <= len(records):
            raise _UncommonError
        key, _, value = records[len(length) + 1 : int(length) - 1].partition(b"=")
        if key not in _HARMLESS_KEYS:
            raise _UncommonError
        if key == b"path" and b"\0" in value:
            raise _UncommonError
        path = value if key == b"path" else path
        records = records[int(length) :]
    return path


def _check_sums(heads: list[bytes], blocks: NDArray[np.uint8]) -> None:
    """Check that the blocks are headers; raises `_UncommonError` if the checksum in a block is wrong."""
    stored = blocks[:, 148:156]
    sums = blocks.sum(axis=1, dtype=np.uint32) - stored.sum(axis=1, dtype=np.uint32) + 8 * ord(" ")
    digits = stored[:, :6].astype(np.int64) - ord("0")
    if ((digits | 7) == 7).all() and (stored[:, 6] == 0).all():  # the format that most programs write
        stated = digits @ _OCTAL
    else:
        try:
            stated = np.array([int(head[148:156].strip(b"\0 ") or b"0", 8) for head in heads])
        except ValueError:
            raise _UncommonError from None
    if not np.array_equal(sums, stated):
        raise _UncommonError  # some old tars add signed bytes; `tarfile` decides


def _blocks(heads: list[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(heads), np.uint8).reshape(-1, BLOCK)


def _walk_by_tarfile(file: IO[bytes], num_bytes: int, read: Reader) -> TarWalk:
    import tarfile

    walk = TarWalk(num_bytes)
    position = 0
    while position < num_bytes or not num_bytes:
        file.seek(position)
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                for member in walk_headers(tar):
                    walk.add(member.offset, member.name, member.isreg())
                    if member.issparse():
                        walk.sparse.add(member.offset)
                end = tar.offset
        except (tarfile.TarError, EOFError, ValueError, OverflowError, OSError) as error:
            raise ValueError(f"it is not a tar, or broken: {error}") from None
        # `tarfile` treats anything that is not a header as the end.
        if position and end == position:
            kept = walk.end + BLOCK
            raise ValueError(f"bytes that are not a tar follow its end mark (truncate -s {kept} FILE removes them)")
        if read(BLOCK, end) not in (b"", _ZEROS):
            raise ValueError(f"it is broken after member {len(walk.offsets):,}, at byte {end:,}")
        walk.end, position = end, _after_zeros(read, end, num_bytes)
    return walk
