"""A tar stream written by hand: one 512-byte header a member, as POSIX ustar lays it out.

Python's `tarfile` spends 70 % of its time on the header; here a header costs about a microsecond. Everything that
could differ from run to run (times, owners, modes) is fixed, so the same members give the same bytes.
"""

from typing import Protocol

BLOCK = 512
_END = bytes(2 * BLOCK)
_MAX_OCTAL_SIZE = 8**11 - 1
_NAME_FIELD = 100

# name[100] mode[8] uid[8] gid[8] size[12] mtime[12] chksum[8] typeflag linkname[100] magic[6] version[2] ... = 512
_AFTER_NAME = b"\0".join((b"0000644", b"0000000", b"0000000", b""))
_MTIME = b"00000000000\0"
_AFTER_TYPE = bytes(100) + b"ustar\0" + b"00" + bytes(247)
# The checksum counts its own field as eight blanks.
_FIXED_SUM = sum(_AFTER_NAME) + sum(_MTIME) + 8 * ord(" ") + sum(_AFTER_TYPE)


class Sink(Protocol):
    """Where the stream goes: an open binary file, or the engine's hashing file."""

    def write(self, data: bytes, /) -> int:
        """Append `data`."""
        ...


class TarWriter:
    """Appends regular files to a tar stream.

    Example:
        tar = TarWriter(file)
        tar.add("utt1.flac", data)
        tar.close()
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def add(self, name: str, data: bytes) -> None:
        """Append one member; header, data and padding go out in a single write."""
        encoded = name.encode("utf-8")
        padding = bytes(-len(data) % BLOCK)
        self._sink.write(b"".join((member_header(encoded, len(data)), data, padding)))

    def close(self) -> None:
        """Write the two zero blocks that end an archive; a tar without them passes for a complete one unnoticed."""
        self._sink.write(_END)


def member_header(name: bytes, size: int) -> bytes:
    """The header of a regular file; names over 100 bytes get GNU's long-name member before it."""
    if len(name) <= _NAME_FIELD:
        return _header(name, size, b"0")
    long_name = name + b"\0"
    padded = long_name + bytes(-len(long_name) % BLOCK)
    return _header(b"././@LongLink", len(long_name), b"L") + padded + _header(name[:_NAME_FIELD], size, b"0")


def _header(name: bytes, size: int, kind: bytes) -> bytes:
    if size <= _MAX_OCTAL_SIZE:
        size_field = b"%011o\0" % size
    else:
        size_field = b"\x80" + size.to_bytes(11, "big")  # GNU's base 256, for members of 8 GiB and more
    checksum = _FIXED_SUM + sum(name) + sum(size_field) + kind[0]
    return b"".join(
        (
            name.ljust(_NAME_FIELD, b"\0"),
            _AFTER_NAME,
            size_field,
            _MTIME,
            b"%06o\0 " % checksum,
            kind,
            _AFTER_TYPE,
        )
    )
