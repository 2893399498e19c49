"""Indexes (`.idx`) of JSONL and tar files, with which lhotse 2 and NeMo after 3.0 seek to a record.

An index is an array of little-endian uint64: the offset of each record, and last the size of the data file. Its name is
that of the data file with `.idx` appended. It is next to the data file or in a *mirror*, a folder that readers get as
`indexes_root`: its path there is the absolute path of the data file. The rules are those of lhotse 2
(lhotse/indexing.py) and NeMo (lhotse/indexed_adapters.py); the tests compare with both, byte for byte.
"""

import os
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, compress
from operator import ne
from pathlib import PurePosixPath
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from prepcli.engine.state.store_output import OutputFiles
from prepcli.formats.names import INDEX_SUFFIX as INDEX_SUFFIX
from prepcli.formats.names import MIRROR as MIRROR
from prepcli.formats.names import absolute_folder
from prepcli.formats.tar import MAX_PLAIN_NAME, Sink, TarWriter
from prepcli.formats.tar_walk import TarWalk, walk_tar
from prepcli.storage.addresses import without_scheme
from prepcli.storage.paths import AnyPath, StorePath, path_of

Offsets = NDArray[np.uint64]
IndexKind = Literal["jsonl", "nemo_tar", "shar_tar"]
"""Kinds of data files. A record is a line (`jsonl`), some successive members with one stem (`nemo_tar`), or a pair of
data and manifest (`shar_tar`).
"""

_OFFSET = np.dtype("<u8")
_BLOCK_BYTES = 8 << 20


class DamagedError(Exception):
    """A data file cannot be indexed: it is damaged, or of another kind than its name says. The message has no path."""


def index_beside(data: str | AnyPath) -> AnyPath:
    """The path of the index next to a data file."""
    return path_of(f"{data}{INDEX_SUFFIX}")


def mirrored(data: str | AnyPath) -> str:
    """The path of a data file's index below a mirror, the folder that readers get as `indexes_root`.

    It is the absolute path of the data file, without its first `/` or the scheme of an address, and with `.idx` added.
    """
    folder, name = os.path.split(str(data))
    return f"{without_scheme(absolute_folder(folder))}/{name}{INDEX_SUFFIX}".lstrip("/")


def index_name(folder: AnyPath, cuts: AnyPath, out: AnyPath, data: str) -> str | None:
    """The name below `out` for the index of `data`, a new file of the Shar set in `folder`.

    The index is next to `data` if the set has indexes next to its files, else in the mirror below `out`.

    Args:
        folder: the Shar set.
        cuts: one of the set's files of cuts.
        out: the output folder.
        data: the name of the new file below `out`.

    Returns:
        The name; None if the cuts are compressed, because then the set needs no indexes.
    """
    if cuts.suffix == ".gz":  # these cuts are not seekable, so the other files need no index
        return None
    if index_beside(cuts).exists() and not (folder / MIRROR).is_dir():
        return data + INDEX_SUFFIX
    return f"{MIRROR}/{mirrored(out / data)}"


def index_bytes(offsets: Iterable[int] | Offsets, num_bytes: int) -> bytes:
    """The content of an index for a data file of `num_bytes`, whose records begin at `offsets`."""
    begun = offsets if isinstance(offsets, (np.ndarray, array)) else list(offsets)
    offsets_and_size = np.empty(len(begun) + 1, _OFFSET)
    offsets_and_size[:-1] = begun
    offsets_and_size[-1] = num_bytes
    return offsets_and_size.tobytes()


def member_name_stem(name: str) -> str:
    """The same as `Path(name).stem`, but ten times as fast for nearly all names."""
    if not name or "/" in name or name[0] == "." or name[-1] == ".":
        return PurePosixPath(name).stem
    return name.rpartition(".")[0] or name


def _stems(names: list[str]) -> list[str]:
    """The result of `member_name_stem` for each name.

    The names are checked for unusual ones together, which saves time.
    """
    joined = "\0".join(["", *names, ""])
    if "/" in joined or "\0." in joined or ".\0" in joined:
        return list(map(member_name_stem, names))
    return [name.rpartition(".")[0] or name for name in names]


class IndexedLines:
    """Writes the lines of a JSONL file and collects their offsets."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._offsets = array("Q")
        self._num_bytes = 0

    def add(self, line: bytes) -> None:
        """Append a line, which includes its line end."""
        self._sink.write(line)
        self._offsets.append(self._num_bytes)
        self._num_bytes += len(line)

    @property
    def index(self) -> bytes:
        """The content of the index for the lines written so far."""
        return index_bytes(self._offsets, self._num_bytes)


class SampleTarWriter(TarWriter):
    """Writes a NeMo tar and collects the offsets of its samples; a sample is successive members with one stem."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._offsets = array("Q")
        self._stem: str | None = None

    def add(self, name: str, data: bytes) -> int:
        """Append one member; returns its offset in the tar."""
        offset, stem = super().add(name, data), member_name_stem(name)
        if stem != self._stem:
            self._offsets.append(offset)
            self._stem = stem
        return offset

    @property
    def index(self) -> bytes:
        """The content of the tar's index, once the tar is closed."""
        return index_bytes(self._offsets, self.num_bytes)


class PairTarWriter(TarWriter):
    """Writes a Shar tar, in which a manifest follows each data member, and collects the offsets of the pairs.

    Attributes:
        num_long_names: number of members whose name is too long for one header; lhotse 2 misreads such members if it
            seeks to them by the index.
    """

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._members = array("Q")
        self.num_long_names = 0

    def add(self, name: str, data: bytes) -> int:
        """Append one member; returns its offset in the tar."""
        offset = super().add(name, data)
        self._members.append(offset)
        self.num_long_names += len(name) > MAX_PLAIN_NAME or len(name.encode()) > MAX_PLAIN_NAME
        return offset

    @property
    def index(self) -> bytes:
        """The content of the tar's index, once the tar is closed."""
        return index_bytes(self._members[::2], self.num_bytes)


def tar_offsets(walk: TarWalk, kind: IndexKind) -> Offsets:
    """The offsets of the records of a tar, from its headers. `kind` is `nemo_tar` or `shar_tar`.

    Raises:
        DamagedError: a Shar tar has an odd number of members, which thus are not pairs.
    """
    if kind == "shar_tar":
        if len(walk.offsets) % 2:
            raise DamagedError(f"it has {len(walk.offsets)} members, but those of a Shar come in pairs")
        return np.array(walk.offsets[::2], np.uint64)
    stems = _stems(list(compress(walk.names, walk.is_regular)))
    offsets = compress(walk.offsets, walk.is_regular)
    return np.fromiter(compress(offsets, chain([True], map(ne, stems[1:], stems))), np.uint64)


class LineOffsets:
    """Finds the offsets of the lines of a file while it is read in blocks; the last line may lack its line end.

    Attributes:
        num_lines: number of lines so far.
        num_bytes: number of bytes so far.
    """

    def __init__(self) -> None:
        self._begins_line = True
        self.num_lines = 0
        self.num_bytes = 0

    def of(self, block: bytes) -> Offsets:
        """The offsets of the lines that begin in the next block; the block is not empty."""
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")).astype(_OFFSET)
        first = np.array([self.num_bytes] * self._begins_line, _OFFSET)
        self._begins_line = block.endswith(b"\n")
        starts = np.concatenate([first, (ends[:-1] if self._begins_line else ends) + np.uint64(self.num_bytes + 1)])
        self.num_lines += len(starts)
        self.num_bytes += len(block)
        return starts


def line_offsets(path: AnyPath) -> tuple[Offsets, int]:
    """The offsets of the lines of a file, and its size in bytes."""
    lines = LineOffsets()
    starts = [np.empty(0, _OFFSET)]
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            starts.append(lines.of(block))
    return np.concatenate(starts), lines.num_bytes


def make_index(path: AnyPath, kind: IndexKind) -> bytes:
    """The content of the index for a data file, made from line ends or tar headers; the data of members are not read.

    Raises:
        DamagedError: the data file is damaged, or cannot be indexed.
        OSError: the data file cannot be read.
    """
    if kind == "jsonl":
        return index_bytes(*line_offsets(path))
    walk = _walked(path)
    return index_bytes(tar_offsets(walk, kind), walk.num_bytes)


def index_problem(path: AnyPath, kind: IndexKind, index: bytes) -> str | None:
    """The problem of an index of a data file, as text for a message; None if the index is correct.

    For a tar, the last value may be the size of the file, or the end of the last member, as other tools write it.
    Readers accept both.

    Raises:
        DamagedError: the data file is damaged.
        OSError: the data file cannot be read.
    """
    if not index or len(index) % _OFFSET.itemsize:
        return f"it has {len(index)} bytes, but must have 8 per record, and 8 more"
    offsets = np.frombuffer(index, _OFFSET)
    if kind == "jsonl":
        expected, num_bytes = line_offsets(path)
        least = num_bytes
    else:
        walk = _walked(path)
        expected, num_bytes, least = tar_offsets(walk, kind), walk.num_bytes, walk.end
    if len(offsets) != len(expected) + 1:
        return f"it has {len(offsets) - 1:,} records, the data {len(expected):,}"
    if not least <= int(offsets[-1]) <= num_bytes:
        return f"it is of a file of {int(offsets[-1]):,} bytes, the data have {num_bytes:,}"
    if not np.array_equal(offsets[:-1], expected):
        wrong = int(np.flatnonzero(offsets[:-1] != expected)[0])
        begins, data_begins = int(offsets[wrong]), int(expected[wrong])
        return f"its record {wrong:,} begins at byte {begins:,}, that of the data at byte {data_begins:,}"
    return None


def is_current(index: AnyPath, data: os.stat_result) -> bool:
    """Whether an index may belong to a data file, whose stat result is `data`; reads only 8 bytes.

    The length of the index must be a multiple of 8, and its last value must be the size of the data file. The index
    must not be older than the data file.
    """
    try:
        with index.open("rb", buffering=0) as file:
            status = index.stat() if isinstance(index, StorePath) else os.fstat(file.fileno())
            if status.st_size < _OFFSET.itemsize or status.st_size % _OFFSET.itemsize:
                return False
            file.seek(status.st_size - _OFFSET.itemsize)
            last = file.read(_OFFSET.itemsize)
    except OSError:
        return False
    return int.from_bytes(last, "little") == data.st_size and status.st_mtime_ns >= data.st_mtime_ns


def index_names(folder: AnyPath, name: str) -> tuple[str, str]:
    """The possible names of the index of a file in a set: next to the file, and in the mirror."""
    return name + INDEX_SUFFIX, f"{MIRROR}/{mirrored(folder / name)}"


def indexes_of(files: OutputFiles, name: str) -> Iterator[str]:
    """Yield the names of the indexes of the file `name` that exist and are not outdated (see `is_current`)."""
    for index in index_names(files.folder, name):
        if files.has(index) and is_current(files.folder / index, (files.folder / name).stat()):
            yield index


def _walked(path: AnyPath) -> TarWalk:
    with path.open("rb", buffering=0) as file:
        try:
            return walk_tar(file)
        except ValueError as error:
            raise DamagedError(str(error)) from None
