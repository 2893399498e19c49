"""Parts of a zip archive that Python's `zipfile` does not read: its volumes, archives before it, names in Unicode."""

import io
import os
import struct
import zlib
from typing import IO, TYPE_CHECKING

from prepcli.errors import UsageError

if TYPE_CHECKING:
    import zipfile

_END = b"PK\5\6"
_END_BYTES = 22 + 0xFFFF
"""Maximum size of the record that ends an archive; its last part is a comment."""
_IN_ZIP64 = 0xFFFF
_IS_UTF8 = 0x800
_UNICODE_PATH = 0x7075


def check_volumes(file: IO[bytes], path: str) -> None:
    """Raise `UsageError` if an archive has several volumes, of which `file` is the last."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(size - _END_BYTES, 0))
    tail = file.read()
    at = tail.rfind(_END)
    if at >= 0 and int.from_bytes(tail[at + 4 : at + 6], "little") not in (0, _IN_ZIP64):
        whole = f"{os.path.splitext(path)[0]}-whole.zip"
        raise UsageError(f"{path} is the last of several volumes; join them first: zip -s 0 -O {whole} {path}")


def check_not_joined(file: IO[bytes], path: str, begin: int) -> None:
    """Raise `UsageError` if another archive ends where the archive of `file` begins; a program may stand there."""
    file.seek(max(begin - _END_BYTES, 0))
    before = file.read(min(begin, _END_BYTES))
    at = before.rfind(_END)
    if at >= 0 and at + 22 + int.from_bytes(before[at + 20 : at + 22], "little") == len(before):
        raise UsageError(
            f"{path} is several zip archives joined, of which programs read only the last: divide it (head -c {begin} "
            f"{path} > first.zip; tail -c +{begin + 1} {path} > last.zip)"
        )


def raw_name(member: "zipfile.ZipInfo") -> bytes | None:
    """The bytes of a file's name if the archive does not say what they mean; None for ASCII and for stated Unicode."""
    if member.flag_bits & _IS_UTF8 or member.orig_filename.isascii() or unicode_name(member) is not None:
        return None
    return member.orig_filename.encode("cp437")


def unicode_name(member: "zipfile.ZipInfo") -> str | None:
    """The name in an extra field of Info-ZIP, for a name that is not ASCII; None if there is no such field."""
    extra = b"" if member.flag_bits & _IS_UTF8 or member.orig_filename.isascii() else member.extra
    while len(extra) >= 4:
        kind, size = struct.unpack("<HH", extra[:4])
        data, extra = extra[4 : 4 + size], extra[4 + size :]
        is_of_name = zlib.crc32(member.orig_filename.encode("cp437")) == int.from_bytes(data[1:5], "little")
        if kind == _UNICODE_PATH and data[:1] == b"\1" and is_of_name and is_utf8(data[5:]):
            return data[5:].decode()
    return None


def is_utf8(data: bytes) -> bool:
    """Whether some bytes are valid UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
