"""Files that a command writes besides its output, such as a page: they replace only files of their own kind."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from prepcli.engine.state.workspace import real_file, replaced_file
from prepcli.errors import UsageError, cannot_write, option

_END_BYTES = 8192
"""Number of bytes at the beginning and at the end of a file from which its kind is recognized."""


class Kind(NamedTuple):
    """A kind of file: its name for messages, and a regular expression that its content matches from the beginning."""

    name: str
    pattern: bytes


def check_side_file(flag: str, path: Path, kind: Kind) -> None:
    """Check before the work that a file can be written.

    An existing file is replaced only if it is empty or of the given `kind`. Any other file may be data of the user,
    also under a second name: a link to audio, for example.

    Raises:
        UsageError: the path is a folder, a file of another kind, or in a folder that does not exist; or the file or its
            folder is read-only.
    """
    if os.path.isdir(path):
        raise UsageError(f"{option(flag, path)}: that is a directory; give the name of a file")
    if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout, for instance
        return
    check_writable(flag, path)
    if os.path.isfile(path) and not _is(path, kind, flag):
        raise UsageError(
            f"{option(flag, path)}: a file that is not {kind.name} is there; give another name, or move it away"
        )


def check_writable(flag: str, path: Path) -> None:
    """Check that `replaced_file` can write a file.

    Raises:
        UsageError: its folder does not exist; or the file or its folder is read-only.
    """
    real = real_file(path)
    if not real.parent.is_dir():
        raise UsageError(f"{option(flag, path)}: there is no folder {real.parent}")
    # root may write every file, but a file without any write permission is not meant to change.
    is_protected = real.exists() and not (os.access(real, os.W_OK) and real.stat().st_mode & 0o222)
    if is_protected or not os.access(real.parent, os.W_OK):
        what = "it" if is_protected else f"its folder {real.parent}"
        raise UsageError(f"{option(flag, path)}: {what} is read-only; allow to write it, or give another name")


def _is(path: Path, kind: Kind, flag: str) -> bool:
    try:
        with path.open("rb") as file:
            ends = file.read(_END_BYTES)
            file.seek(max(file.tell(), os.fstat(file.fileno()).st_size - _END_BYTES))
            ends += file.read(_END_BYTES)
    except OSError as error:
        raise UsageError(
            f"{option(flag, path)}: cannot read what is there: {error.strerror}; give another name"
        ) from None
    return not ends or re.match(kind.pattern, ends, re.DOTALL) is not None


def write_side_file(path: Path, content: str | bytes) -> None:
    """Write a file at once: if it cannot be written, the old one stays.

    Characters that UTF-8 cannot encode become question marks.

    Raises:
        UsageError: the file cannot be written.
        PrepcliError: the file cannot be written because of the machine, such as a full disk.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():  # /dev/stdout, for instance
            path.write_bytes(data)
            return
        with replaced_file(path) as file:
            file.write(data)
    except OSError as error:
        raise cannot_write(error, f"cannot write {path}: {error.strerror}") from None
