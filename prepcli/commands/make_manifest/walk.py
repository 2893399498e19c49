"""The audio files below a folder, sorted by path, without keeping them in memory."""

import heapq
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import IO

from prepcli.formats.audio_names import AUDIO_SUFFIXES, headerless_advice
from prepcli.storage.paths import entry_is_dir

SORTED_IN_MEMORY = 200_000
"""Names of one folder that are sorted in memory; of a larger folder, sorted pieces on the disk are merged."""
_WORK = ".prepcli"
_YIELDED_AT_ONCE = 1024


@dataclass
class Walk:
    """A walk through a folder, following symbolic links. `left_out` counts files by suffix, `loops` links back up.

    Files with the suffix `used_suffix` are not audio either, but something else reads them.
    """

    root: str
    used_suffix: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    loops: int = 0
    unreadable: list[str] = field(default_factory=list)

    def files(self) -> Iterator[str]:
        """Paths of audio files relative to the root, in the order of their characters.

        Hidden files and folders, and the records of prepcli's runs, are left out. A link to a folder above itself is
        not followed.
        """
        status = os.stat(self.root)
        return chain.from_iterable(self._below("", ((status.st_dev, status.st_ino),)))

    def notes(self) -> Iterator[str]:
        """What a user should know about files that were not taken."""
        others = sum(self.left_out.values())
        if others:
            common = ", ".join(
                f"{count:,} {suffix or 'without suffix'}" for suffix, count in self.left_out.most_common(4)
            )
            advice = next(filter(None, map(headerless_advice, self.left_out)), None)
            hint = f"; audio without a header is not read: {advice}" if advice else ""
            yield f"{others:,} files are not audio by their name ({common}){hint}"
        if self.loops:
            yield f"{self.loops:,} links to a folder above themselves were not followed"
        if self.unreadable:
            yield f"{len(self.unreadable):,} folders cannot be read, the first is {self.unreadable[0]}"

    def _below(self, folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[list[str]]:
        files: list[str] = []
        for name in self._names(folder):
            path = folder + name
            if name[-1] != "/":
                files.append(path)
                if len(files) == _YIELDED_AT_ONCE:
                    yield files
                    files = []
                continue
            yield files
            files = []
            try:
                status = os.stat(os.path.join(self.root, path))
            except OSError:
                self.unreadable.append(path)
                continue
            identity = status.st_dev, status.st_ino
            if identity in above:
                self.loops += 1
            else:
                yield from self._below(path, (*above, identity))
        yield files

    def _names(self, folder: str) -> Iterator[str]:
        """Audio files, and folders with a slash behind: so they sort as the paths below them."""
        pieces: list[IO[bytes]] = []
        names: list[str] = []
        try:
            entries = os.scandir(os.path.join(self.root, folder))
        except OSError:
            if not folder:
                raise
            self.unreadable.append(folder)
            return
        is_audio: dict[str, bool] = {}
        with entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                dot = name.rfind(".")
                suffix = name[dot:] if dot > 0 else ""
                if suffix not in is_audio:
                    is_audio[suffix] = suffix.lower() in AUDIO_SUFFIXES
                if is_audio[suffix] and not entry_is_dir(entry):
                    names.append(name)
                elif entry_is_dir(entry):
                    if suffix != _WORK:
                        names.append(name + "/")
                elif suffix != self.used_suffix:
                    self.left_out[suffix] += 1
                if len(names) >= SORTED_IN_MEMORY:
                    pieces.append(_spill(names))
                    names = []
        names.sort()
        if not pieces:
            yield from names
            return
        try:
            yield from heapq.merge(*map(_spilled, pieces), names)
        finally:
            for piece in pieces:
                piece.close()


def _spill(names: list[str]) -> IO[bytes]:
    names.sort()
    piece = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller
    for name in names:
        piece.write(os.fsencode(name) + b"\0")
    piece.seek(0)
    return piece


def _spilled(piece: IO[bytes]) -> Iterator[str]:
    rest = b""
    while block := piece.read(1 << 16):
        *whole, rest = (rest + block).split(b"\0")
        yield from map(os.fsdecode, whole)
