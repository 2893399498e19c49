"""Finds the lines of a file by the name in each, in a few numbers a line; the lines are read again from the file."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from prepcli.errors import UsageError, naming
from prepcli.gate import text_hash
from prepcli.storage.input_files import read_at, state_of


class Block(NamedTuple):
    """Consecutive lines with one name; `number` is that of the first in the file."""

    number: int
    data: bytes


class NamedLines:
    """The lines of a file by their names. Memory holds four numbers for each run of lines with one name.

    Attributes:
        path: the file.
        sha256: the digest of its content.
        state: its state before it was read.
        channels: all channels that its lines name.
    """

    def __init__(self, path: str, column: int | None, channel: int | None = None) -> None:
        """Read the file once. The name is in the column `column`, from 0; None: under `key` in objects of JSON.

        `channel`: the column of `channels`, if there is one.

        Raises:
            UsageError: a line has no name, or the file is not JSON.
        """
        self.path, self.state = path, state_of(path)
        self._column, self._channel = column, channel
        self.channels = set[str]()
        self._file = Path(path).open("rb")  # noqa: SIM115 - worker processes read it
        self._hashes, self._starts, self._numbers = array("q"), array("q"), array("q")
        with naming(path):
            self.sha256 = self._index_objects() if column is None else self._index_lines(column)
        self._starts.append(self.state.num_bytes)
        hashes = np.frombuffer(self._hashes, np.int64) if self._hashes else np.empty(0, np.int64)
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._order]
        self._used = np.zeros(len(hashes), np.bool_)

    def _index_lines(self, column: int) -> str:
        digest, place, last = hashlib.sha256(), 0, b""
        self._file.seek(0)
        for number, line in enumerate(self._file, start=1):
            digest.update(line)
            name = _name_of(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line, column)
            if name is None:
                raise UsageError(f"{self.path}:{number} names no recording; correct the line, or remove it")
            if name and self._channel is not None:
                self.channels.update(_column_of(line, self._channel))
            if name and name != last:
                last = name
                self._add(name.decode("utf-8", "surrogateescape"), place, number)
            place += len(line)
        return digest.hexdigest()

    def _index_objects(self) -> str:
        data = self._file.read()
        place, line, counted = 0, 1, 0
        for item in _objects(data.removeprefix(b"\xef\xbb\xbf"), self.path):
            place = data.index(item, place)
            line, counted = line + data.count(b"\n", counted, place), place
            self._add(_key_of(item, f"{self.path}:{line}"), place, line)
            place += len(item)
        return hashlib.sha256(data).hexdigest()

    def _add(self, name: str, place: int, number: int) -> None:
        self._hashes.append(text_hash(name))
        self._starts.append(place)
        self._numbers.append(number)

    def blocks(self, name: str) -> list[Block]:
        """The lines with a name, in order of the file; lines with other names may be among them."""
        return [self._block(int(run)) for run in self._order[self._found(name)]]

    def mark(self, names: Iterable[str]) -> None:
        """Mark the first of `names` that has lines as one that `unused` does not name; reads no line."""
        any(found.start < found.stop for found in map(self._found, names))

    def _found(self, name: str) -> slice:
        wanted = text_hash(name)
        first, last = (int(np.searchsorted(self._sorted, wanted, side)) for side in ("left", "right"))
        self._used[first:last] = True
        return slice(first, last)

    def _block(self, run: int) -> Block:
        start, end = self._starts[run], self._starts[run + 1]
        return Block(self._numbers[run], read_at(self._file.fileno(), end - start, start))

    def unused(self) -> Iterator[str]:
        """The names for which `blocks` has not been called in this process; each once."""
        for index in np.flatnonzero(~self._used).tolist():
            if index and self._sorted[index] == self._sorted[index - 1]:
                continue
            block = self._block(int(self._order[index]))
            if self._column is None:
                yield _key_of(stripped(block.data), self.path)
            else:
                yield (_name_of(block.data.removeprefix(b"\xef\xbb\xbf"), self._column) or b"").decode(
                    "utf-8", "replace"
                )


def _name_of(line: bytes, column: int) -> bytes | None:
    """The name in the first line of some; empty for a blank line or a comment, None if it has too few columns."""
    columns = line.split(None, column + 1)
    if not columns or columns[0].startswith(b";;"):
        return b""
    return columns[column] if len(columns) > column else None


def _column_of(line: bytes, column: int) -> list[str]:
    return [text.decode("utf-8", "replace") for text in line.split(None, column + 1)[column : column + 1]]


def _objects(data: bytes, path: str) -> list[bytes]:
    """The objects of a list, or those that each have a line."""
    try:
        if data.lstrip()[:1] == b"[":
            return [bytes(item) for item in msgspec.json.decode(data, type=list[msgspec.Raw])]
        return [bytes(item) for item in msgspec.json.Decoder(msgspec.Raw).decode_lines(data)]
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} is damaged JSON ({error}); make it again") from None


class _Keyed(msgspec.Struct):
    key: str


def _key_of(item: bytes, place: str) -> str:
    try:
        return msgspec.json.decode(item, type=_Keyed).key
    except (msgspec.DecodeError, RecursionError):
        raise UsageError(f"{place} has an object without a key, beside others that have one; add it") from None


def stripped(block: bytes) -> bytes:
    """The object in a block: what is between it and the next one is taken away."""
    return block.rstrip(b" \t\r\n,]")
