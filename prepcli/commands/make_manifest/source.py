"""A source of audio in the form that all formats share: its entries, its tables, and notes for the user."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from prepcli.commands.make_manifest.entries import SourceEntry
from prepcli.commands.make_manifest.tables import Table
from prepcli.errors import UsageError
from prepcli.formats.audio_names import AUDIO_SUFFIXES
from prepcli.formats.names import absolute_folder
from prepcli.manifest.sources import check_file, is_gzip, open_bytes
from prepcli.storage.containers import SEPARATOR, name_in, place_of

if TYPE_CHECKING:  # most sources have no texts with times
    from prepcli.formats.times.times import Times

_BLOCK_BYTES = 256 << 10
_COMMON = (".wav", ".flac", ".mp3", ".ogg", ".opus")


def other_entries(folder: str) -> list["os.DirEntry[str]"]:
    """The entries of a folder except audio files with common suffixes; the others show the format of the folder."""
    with os.scandir(folder) as entries:
        return [entry for entry in entries if not entry.name.endswith(_COMMON)]


@dataclass
class EntrySource:
    """A source in the form that all formats share.

    Attributes:
        path: the path that the user gave.
        kind: the format, as `--format` names it.
        how: why it was recognized as this format.
        base: the absolute folder from which relative audio paths start.
        entries: reads the source from its start, and yields its entries in order.
        files: the files that hold the entries; empty for a folder of audio.
        tables: the table for each field, such as `text`, whose values are looked up by the `key` of an entry.
        recordings: None, except for Kaldi's `segments`. Then the `path` of an entry is the name of a recording, and
            this table finds the audio of the recording.
        has_commands: whether an entry may name a command instead of a file, `command |`.
        has_ids: whether the key of an entry is an explicit id. Then the first entry with an id is used, and each
            further one is a reject.
        times: the texts with times of the recordings, if entries are lines of them.
        notes: returns notes for the user, once the entries have been read.
        hint: advice for the error if relative paths do not resolve.
    """

    path: str
    kind: str
    how: str
    base: str
    entries: Callable[[], Iterator[SourceEntry]]
    files: tuple[str, ...] = ()
    tables: dict[str, Table] = field(default_factory=dict)
    recordings: Table | None = None
    has_commands: bool = False
    has_ids: bool = False
    times: "Times | None" = None
    notes: Callable[[], Iterator[str]] = lambda: iter(())
    hint: str = ""

    def audio_of(self, entry: SourceEntry) -> str | None:
        """The audio of an entry as the source names it: the path of a file, or a command whose output is the audio.

        Returns:
            None for a segment of a recording that the source does not know.

        Raises:
            RecordRejected: the line of wav.scp for the recording is not UTF-8.
        """
        return entry.path if self.recordings is None else self.recordings.find(entry.path)


class PathNames:
    """Converts absolute paths to names for a manifest in `folder`; if `absolute`, the names are the paths."""

    def __init__(self, folder: Path, absolute: bool) -> None:
        self._absolute = absolute
        self._folder = absolute_folder(str(folder))
        self._real = os.path.realpath(self._folder)
        self._prefix = lru_cache(maxsize=4096)(self._prefix_of)

    def name(self, path: str) -> str:
        """The name in the manifest for the audio file at an absolute path; the name of a member stays as it is."""
        if SEPARATOR in path and (place := place_of(path)) is not None:
            return name_in(self.name(place.path), place.member)
        folder, slash, name = path.rpartition("/")
        return path if self._absolute else self._prefix(folder + slash) + name

    def _prefix_of(self, folder: str) -> str:
        """The folder part of names in the manifest, such as `../audio/`; empty for the manifest's own folder."""
        below = self._folder.rstrip("/") + "/"
        if folder.startswith(below) and "/../" not in folder:
            return folder[len(below) :]
        # Real paths, because `..` after a symbolic link leads elsewhere.
        relative = os.path.relpath(os.path.realpath(folder), self._real)
        return "" if relative == "." else relative + "/"


def text_lines(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, without line ends, with their numbers from 1.

    Bytes that are not UTF-8 become surrogates. Raises the same errors as `byte_lines`.
    """
    for number, line in byte_lines(path):
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if text and not text.isspace():
            yield number, text


def byte_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, without a byte order mark, with their numbers from 1.

    Raises:
        UsageError: the file is missing, or its compressed data are damaged.
    """
    check_file(path, "source")
    with open_bytes(path) if is_gzip(path) else Path(path).open("rb") as file:
        try:
            for number, line in enumerate(file, start=1):
                if not line.isspace():
                    yield number, line.removeprefix(b"\xef\xbb\xbf")
        except (EOFError, OSError) as error:
            raise _damaged(path, error) from None


def line_blocks(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file in blocks of whole lines, each with the number of its first line, from 1.

    Raises:
        UsageError: as `byte_lines`.
    """
    check_file(path, "source")
    number, pending = 1, b""
    with open_bytes(path) if is_gzip(path) else Path(path).open("rb") as file:
        try:
            while data := file.read(_BLOCK_BYTES):
                whole, newline, rest = data.rpartition(b"\n")
                if not newline:
                    pending += data
                    continue
                block = pending + whole + newline
                yield number, block
                number += block.count(b"\n")
                pending = rest
        except (EOFError, OSError) as error:
            raise _damaged(path, error) from None
    if pending:
        yield number, pending


def _damaged(path: str, error: Exception) -> Exception:
    """The error for a file that cannot be read to its end; if the file is not compressed, it stays as it is."""
    if not is_gzip(path):
        return error
    return UsageError(f"{path} is damaged or not a gzip file: {error}; make it again")


def stem_of(path: str) -> str:
    """The name of an audio file without folders and suffix: `a/x.1.wav` -> `x.1`."""
    name = path.rpartition("/")[2]
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in AUDIO_SUFFIXES else name
