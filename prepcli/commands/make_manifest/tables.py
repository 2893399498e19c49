"""Files of lines with a key and a value, such as transcripts: searched by key, and read from disk when needed."""

import hashlib
import mmap
import os
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from prepcli.commands.make_manifest.entries import SourceEntry, rejected_entry
from prepcli.errors import RecordRejected, RejectReason, UsageError, naming, option
from prepcli.formats.tables import layout_of
from prepcli.gate import FirstPlaces, repeated_hashes, text_hash, text_hashes
from prepcli.interface.printing import number_of
from prepcli.manifest.foreign import check_is_text
from prepcli.manifest.kinds import first_lines
from prepcli.manifest.sources import check_file, is_gzip
from prepcli.storage.input_files import FileState, read_at, state_of

if TYPE_CHECKING:  # a source without tables does not need NumPy
    import numpy as np
    from numpy.typing import NDArray

_BOM = b"\xef\xbb\xbf"
Split = Callable[[str], tuple[str, str]]
"""Splits a line into its key and its value."""


@dataclass
class Table:
    """Finds lines of a file by their keys.

    Memory holds only two numbers per line, the hash of its key and its place in the file.

    Attributes:
        path: the file.
        split: divides a line into its key and its value.
        has_ids: whether the keys are explicit ids. Then the first line with an id is used, and each further one is a
            reject (`repeated_lines`). Other keys are stems of files, and several lines for a stem are ambiguous.
        sha256: the digest of the file.
        state: the state of the file before it was read.
        hashes: the hash of the key of each line, in ascending order; lines with equal hashes are in order of the file.
        places: the place of each line in the file.
    """

    path: str
    split: Split
    has_ids: bool = True
    check: Callable[[str], None] | None = None
    """Raises `RecordRejected` for a line that cannot be split."""
    sha256: str = ""
    state: FileState | None = None
    hashes: "array[int]" = field(default_factory=lambda: array("q"))
    places: "array[int]" = field(default_factory=lambda: array("q"))
    _file: "IO[bytes] | None" = None  # closed with the table
    _mapped: mmap.mmap | None = None

    def __len__(self) -> int:
        return len(self.hashes)

    def __getstate__(self) -> dict[str, Any]:
        """The state that is sent to workers of an engine: without the mapped file, which each process maps itself."""
        return self.__dict__ | {"_mapped": None}

    def num_unused(self, keys: "NDArray[np.int64]") -> int:
        """The number of lines whose key is not among `keys`, which are hashes."""
        import numpy as np

        return int(np.count_nonzero(~np.isin(np.array(self.hashes, np.int64), keys)))

    def repeated(self) -> frozenset[int]:
        """The hashes that several lines have."""
        return repeated_hashes(self.hashes)

    def find(self, key: str) -> str | None:
        """The value for a key; None if the file has no line for it.

        Raises:
            RecordRejected: the line is not UTF-8, or several lines have the key, and it is not an explicit id.
        """
        wanted = text_hash(key)
        values = []
        for at in range(bisect_left(self.hashes, wanted), len(self.hashes)):
            if self.hashes[at] != wanted:
                break
            line = self._line(self.places[at])
            own, value = self.split(line)
            if own == key:
                if self.check is not None:
                    self.check(line)
                values.append(value)
                if self.has_ids:
                    break
        if len(values) > 1:
            raise RecordRejected(RejectReason.BAD_FIELD, f"{self.path} has {len(values)} lines for {key}")
        if values and not values[0].isascii():
            try:
                values[0].encode()
            except UnicodeEncodeError:
                raise RecordRejected(RejectReason.NOT_UTF8, f"the line for {key} in {self.path} is not UTF-8") from None
        return values[0] if values else None

    def lines_of(self, wanted: Sequence[int]) -> list[bytes | None]:
        """For each of the hashes `wanted` the line of its key; None if the file has no line, or several, for the hash.

        The caller compares the keys, and asks `find` about a key without a line.
        """
        import numpy as np

        if not self.hashes:
            return [None] * len(wanted)
        assert self._file is not None
        if self._mapped is None:
            self._mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped, hashes = self._mapped, np.frombuffer(self.hashes, np.int64)
        keys = np.array(wanted, np.int64)
        first = np.searchsorted(hashes, keys)
        at = np.minimum(first, len(hashes) - 1)
        after = np.minimum(first + 1, len(hashes) - 1)
        is_one = (hashes[at] == keys) & ((after == at) | (hashes[after] != keys))
        places = np.frombuffer(self.places, np.int64)[at]
        return [
            mapped[place : mapped.find(b"\n", place)] if there else None
            for place, there in zip(places.tolist(), is_one.tolist(), strict=True)
        ]

    def _line(self, place: int) -> str:
        size = 512
        while True:
            assert self._file is not None
            block = read_at(self._file.fileno(), size, place)
            end = block.find(b"\n")
            if end >= 0 or len(block) < size:
                return _decode(block if end < 0 else block[:end])
            size *= 8


def read_transcripts(path: Path, key_of: Callable[[str], str], columns: str | None = None) -> dict[str, Table]:
    """Index a file of transcripts: `id text`, `id|text`, or `id|text|normalized text` as in LJSpeech.

    Args:
        path: the file.
        key_of: converts an id in the file to the key of its record.
        columns: the names of the columns in their order, the first of which has the ids (`--columns`).

    Returns:
        A table for each field of the records: `text`, and with three columns `normalized_text` or `speaker`.

    Raises:
        UsageError: there is no such file, it is compressed, it is not text, or its columns cannot be decided.
    """
    name = _check(path, "transcripts")
    check_is_text(name)
    lines = first_lines(name)
    if columns is None and not (lines and all("|" in line for line in lines)):
        return {"text": read_table(path, "transcripts", partial(_with_key, by_white_space, key_of), has_ids=False)}
    if not lines:
        raise UsageError(f"{name} is empty")
    layout = layout_of(name, lines, columns, "|" if all("|" in line for line in lines) else None)
    fields = {field: number for number, field in enumerate(layout.names) if field and number}
    if "text" not in fields:
        raise UsageError(layout.question(name) if not fields else f"{option('--columns')} names no column text")
    check = partial(_check_columns, layout.delimiter, len(layout.names))
    return {
        field: read_table(
            path,
            "transcripts",
            partial(_with_key, partial(_by_columns, layout.delimiter, number), key_of),
            check,
            has_ids=False,
        )
        for field, number in fields.items()
    }


def _with_key(split: Split, key_of: Callable[[str], str], line: str) -> tuple[str, str]:
    key, value = split(line)
    return key_of(key), value


def _check(path: Path, what: str) -> str:
    name = check_file(str(path), what)
    if is_gzip(name):
        raise UsageError(f"{name} is compressed; unpack it first, because its lines are looked up in any order")
    return name


def read_table(
    path: Path, what: str, split: Split, check: Callable[[str], None] | None = None, *, has_ids: bool = True
) -> Table:
    """Index the lines of a file by the keys that `split` finds in them; `what` names the file in errors.

    `check` and `has_ids`: see `Table`.

    Raises:
        UsageError: there is no such file, or it is compressed.
    """
    name = _check(path, what)
    state = state_of(name)
    table = Table(name, split, has_ids, check, state=state)
    table._file = Path(name).open("rb")  # noqa: SIM115 - worker processes read it
    hashes, places, digest, place = array("q"), array("q"), hashlib.sha256(), 0
    with path.open("rb") as lines:
        for line in lines:
            digest.update(line)
            key, _ = table.split(_decode(line))
            if key:
                hashes.append(text_hash(key))
                places.append(place)
            place += len(line)
    table.sha256 = digest.hexdigest()
    table.hashes, table.places = _sorted_by_first(hashes, places)
    return table


def spool_table(path: str, blocks: Iterable[tuple[Sequence[str], bytes]], split: Split, folder: Path) -> Table:
    """Write lines to a temporary file in `folder`, and index them by their keys.

    Args:
        path: the file that the lines come from, for messages.
        blocks: pairs of the keys of some lines, and these lines with their line ends.
        split: divides a line into its key and its value.
        folder: made if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    hashes, places, place = array("q"), array("q"), 0
    table = Table(path, split)
    with naming(folder):
        table._file = file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - worker processes read it
        for keys, lines in blocks:
            hashes.extend(text_hashes(keys))
            places.extend(accumulate(map(len, lines.splitlines(keepends=True)[:-1]), initial=place))
            place += file.write(lines)
        file.flush()
    table.hashes, table.places = _sorted_by_first(hashes, places)
    return table


def _sorted_by_first(hashes: "array[int]", places: "array[int]") -> "tuple[array[int], array[int]]":
    import numpy as np

    order = np.argsort(np.array(hashes, np.int64), kind="stable")
    first, second = (np.array(numbers, np.int64)[order].tobytes() for numbers in (hashes, places))
    return array("q", first), array("q", second)


def repeated_lines(table: Table, lines: Iterator[tuple[int, str, str]]) -> Iterator[SourceEntry]:
    """Yield a rejected entry for the second and each further line of a table with the same explicit id.

    `lines`: for each line of the file its number, its id and its text. They are read only if ids may be repeated.
    """
    repeated = table.repeated()
    if not repeated:
        return
    name, places = os.path.basename(table.path), FirstPlaces(repeated)
    for number, id, text in lines:
        try:
            places.check(id, f"{name}:{number}")
        except RecordRejected as rejected:
            yield rejected_entry(rejected.reason, rejected.detail, number, text)


def by_white_space(line: str) -> tuple[str, str]:
    """`key value` -> key and value; the value may be empty."""
    parts = line.strip().split(maxsplit=1)
    return (parts[0], parts[1] if len(parts) > 1 else "") if parts else ("", "")


def _by_columns(delimiter: str, column: int, line: str) -> tuple[str, str]:
    """A row of a table -> its first column and column number `column`; empty if there is no such column."""
    cells = [cell.strip() for cell in line.strip("\r\n").split(delimiter)]
    return cells[0], cells[column] if len(cells) > column else ""


def _check_columns(delimiter: str, count: int, line: str) -> None:
    if line.count(delimiter) + 1 != count:
        detail = (
            f"the line {line.strip()!r:.80} has {number_of(line.count(delimiter) + 1, 'column')}, the table has {count}"
        )
        raise RecordRejected(RejectReason.BAD_FIELD, detail)
    if "\0" in line:
        raise RecordRejected(RejectReason.BAD_FIELD, f"the line {line.strip()!r:.80} has a character NUL")


def _decode(line: bytes) -> str:
    return line.removeprefix(_BOM).decode("utf-8", "surrogateescape")
