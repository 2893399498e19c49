"""Names of archive members whose encoding the archive does not state: zip archives of some programs, and old tars."""

from collections.abc import Container
from contextlib import suppress
from typing import Literal, get_args

from prepcli.errors import RecordRejected, RejectReason, UsageError, option

NameEncoding = Literal[
    "cp437",
    "cp850",
    "cp852",
    "cp866",
    "cp932",
    "cp949",
    "cp1250",
    "cp1251",
    "cp1252",
    "gb18030",
    "big5",
    "euc_jp",
    "koi8_r",
]
"""Encodings of names before UTF-8, under Python's names. A name can be found in an archive without knowing which."""


def decoded(raw: bytes, encoding: NameEncoding, path: str) -> str:
    """The name of a member of the archive `path` whose bytes are `raw`; raises `UsageError` for another encoding."""
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        raise UsageError(
            f"the name {raw!r} in {path} is not {encoding}; give another {option('--name-encoding')}"
        ) from None


def name_as_stored(name: str, stored: Container[str], codec: str) -> str | None:
    """The name under which an archive holds a member whose real name is `name`; None if it has no such member.

    Args:
        name: the name, decoded with any encoding of `NameEncoding`.
        stored: the names in the archive, whose bytes were decoded with `codec`.
        codec: `utf-8`, whose other bytes are surrogates, or `cp437`.

    Raises:
        RecordRejected: BAD_FIELD if encodings give several members.
    """
    forms = set()
    for encoding in () if name.isascii() else get_args(NameEncoding):
        with suppress(UnicodeEncodeError):
            forms.add(name.encode(encoding).decode(codec, "surrogateescape"))
    matches = sorted(form for form in forms if form in stored)
    if len(matches) > 1:
        raise RecordRejected(RejectReason.BAD_FIELD, f"{name} may be {' or '.join(map(ascii, matches))}; rename them")
    return matches[0] if matches else None
