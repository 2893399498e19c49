"""The files that `inspect` writes: they replace only files of their own kind, never one that is inspected."""

import os
from pathlib import Path
from typing import NamedTuple

from prepcli.commands.inspect.groups import HEADING
from prepcli.engine.state.workspace import atomic_file
from prepcli.errors import UsageError, cannot_write, option


class Kind(NamedTuple):
    """A kind of file: its name for messages, and the possible first bytes of such a file, in lower case."""

    name: str
    beginnings: tuple[bytes, ...]


PAGE = Kind("an HTML page", (b"<!doctype html", b"<html"))
CSV = Kind("such a table", (",".join(HEADING).encode(),))


def check_output(flag: str, path: Path, kind: Kind) -> None:
    """Check before the work that a file can be written.

    An existing file is replaced only if it is empty or of the given `kind`. Any other file may belong to the inspected
    data: a manifest, audio, a shard, or a file in OUT.prepcli.

    Raises:
        UsageError: the path is a folder, a file of another kind, or in a folder that does not exist.
    """
    if os.path.isdir(path):
        raise UsageError(f"{option(flag, path)}: that is a directory; give the name of a file")
    if os.path.isfile(path) and not _is(path, kind, flag):
        raise UsageError(f"{option(flag, path)}: a file that is not {kind.name} is there; give another name")
    if not os.path.isdir(path.absolute().parent):
        raise UsageError(f"{option(flag, path)}: there is no folder {path.parent}")


def _is(path: Path, kind: Kind, flag: str) -> bool:
    try:
        with path.open("rb") as file:
            beginning = file.read(64)
    except OSError as error:
        raise UsageError(f"{option(flag, path)}: cannot write it: {error.strerror}") from None
    return not beginning or beginning.lstrip().lower().startswith(kind.beginnings)


def write_output(path: Path, text: str) -> None:
    """Write a file; characters that UTF-8 cannot encode become question marks.

    Raises:
        UsageError: the file cannot be written.
        PrepcliError: the file cannot be written because of the machine, such as a full disk.
    """
    data = text.encode("utf-8", "replace")
    try:
        target = path.resolve() if path.is_file() else path  # replaces the target of a link, not the link
        if target.exists() and not target.is_file():  # /dev/stdout, for instance
            target.write_bytes(data)
            return
        with atomic_file(target) as file:
            file.write(data)
    except OSError as error:
        raise cannot_write(error, f"cannot write {path}: {error.strerror}") from None
