"""Reads audio from Parquet files of any origin: the bytes of each row."""

import mmap
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.archives import Container
from prepcli.formats.parquet import check_installed, naming_damage
from prepcli.formats.parquet_columns import BYTES, PATH, RATE, SAMPLES, audio_column
from prepcli.storage.addresses import ByteRange, is_address
from prepcli.storage.containers import name_in, row_of
from prepcli.storage.paths import path_of
from prepcli.storage.ranges import openable

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet as pq

_MAX_SAMPLE = 2.0
"""Maximum magnitude of decoded samples: resampling may exceed 1 a little, integers stored as floats far more."""
_BATCH_ROWS = 32
_BUFFER = 1 << 18
"""Bytes of a local file that are read at once; without a buffer, pyarrow reads the column of a row group whole."""
_MAX_WHOLE = 1 << 28
"""Maximum bytes of a row group that is held as a whole as soon as rows are not read in their order."""
_MAX_RETURNS = 16
"""Maximum number of times that the batches of a larger row group are read again from its start."""
_WAV = struct.Struct("<4sI8sIHHIIHH4sI")


class ParquetRows(Container):
    """The audio of the rows of a Parquet file.

    The audio of a batch of rows is held in memory. If a local file stores the audio neither compressed nor encoded, a
    process decodes each row only once. After that it knows the place of its audio in the file, and reads rows in any
    order.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._file = open_parquet(path)
        self._columns: dict[str | None, str] = {}
        metadata = self._file.metadata
        self._places: dict[tuple[int, str], _Places] = {}
        self._first = [0]
        for group in range(metadata.num_row_groups):
            self._first.append(self._first[-1] + metadata.row_group(group).num_rows)

    def audio(self, member: str) -> ByteRange | bytes:
        """The audio of a row: its place in the file if it is known, else its bytes. `member`: see `row_of`.

        Raises:
            UsageError: the file has no such column with audio.
        """
        from bisect import bisect_right

        row = row_of(member)
        if row is None or row.number >= self._first[-1]:
            raise self.missing(member)
        if row.column not in self._columns:
            self._columns[row.column] = audio_column(self._file.schema_arrow, self.path, row.column)
        column = self._columns[row.column]
        group = bisect_right(self._first, row.number) - 1
        within = row.number - self._first[group]
        if (places := self._places.get((group, column))) is not None and (place := places.of(within)) is not None:
            self.check()
            return place
        values, first = HeldRows.with_row(self, group, column, within)
        return audio_value(values, within - first, name_in(self.path, member))

    def batches(self, group: int, column: str) -> Iterator["pyarrow.Array"]:
        """Read the audio of a row group batch by batch, and note the places of its rows in the file."""
        places = self._places.setdefault((group, column), _Places(self.path, self._file, group, column))
        batches, first = column_batches(self._file, group, column), 0
        while True:
            self.check()
            with naming_damage(self.path):
                batch = next(batches, None)
            if batch is None:
                return
            places.add(batch, first)
            first += len(batch)
            yield batch

    def whole(self, group: int, column: str) -> "pyarrow.Array":
        """Read the audio of a row group at once."""
        self.check()
        with naming_damage(self.path):
            # The table may have more columns: a field `b` of a column `a`, if the wanted column is named `a.b`.
            values = self._file.read_row_group(group, columns=[column], use_threads=False).column(column)
            return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()

    def num_bytes(self, group: int, column: str) -> int:
        """The bytes that a column of a row group takes in memory, about."""
        return sum(chunk.total_uncompressed_size for chunk in _chunks(self._file, group, column))


class _Places:
    """The places of the rows of a row group in the file, which are known of those that were read, in their order.

    There is none for audio that the file holds only compressed or encoded, for rows without audio, and for objects in
    a store.

    A page of a Parquet column that is not encoded holds, for each value, its length in four bytes, and then its bytes.
    There are headers between pages.
    """

    def __init__(self, path: str, file: "pq.ParquetFile", group: int, column: str) -> None:
        self._path = path
        self._places: list[ByteRange | None] = []
        self._at = self._end = 0
        names = (column, f"{column}.{BYTES}")
        chunk = next((one for one in _chunks(file, group, column) if one.path_in_schema in names), None)
        self._are_plain = chunk is not None and chunk.compression == "UNCOMPRESSED" and not is_address(path)
        if chunk is not None:
            self._at, self._end = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size

    def of(self, row: int) -> ByteRange | None:
        """The place of a row of the group; None if it has none, or if it is not known yet."""
        return self._places[row] if self._are_plain and row < len(self._places) else None

    def add(self, values: "pyarrow.Array", first: int) -> None:
        """Note the places of some rows, the first of which has the number `first`."""
        if not self._are_plain or first != len(self._places):
            return
        with path_of(self._path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for row in range(len(values)):
                place = None
                with suppress(RecordRejected):
                    value = audio_value(values, row, self._path)
                    wanted = len(value).to_bytes(4, "little") + value
                    is_next = data[self._at : self._at + len(wanted)] == wanted
                    at = self._at if is_next else data.find(wanted, self._at, min(self._end, len(data)))
                    if at < 0:
                        self._are_plain = False
                        return
                    self._at = at + len(wanted)
                    place = ByteRange(self._path, at + 4, len(value))
                self._places.append(place)


class HeldRows:
    """The audio of the rows that this process holds in memory: of one batch, or of one row group.

    It is only one for all Parquet files, because a row group may have more than 100 MB, and files of some programs
    have only one. Rows in their order are read batch by batch. If one before them is asked for, the row group is
    held as a whole, a large one only after some returns to its start.
    """

    _rows: ParquetRows | None = None
    _place: tuple[int, str] | None = None
    _values: "Sequence[pyarrow.Scalar]" = ()
    _first = 0
    _batches: Iterator["pyarrow.Array"] = iter(())
    _num_returns = 0

    @classmethod
    def forget(cls) -> None:
        """Hold nothing any more."""
        cls._rows = cls._place = None
        cls._values, cls._batches = (), iter(())

    @classmethod
    def with_row(cls, rows: ParquetRows, group: int, column: str, row: int) -> "tuple[pyarrow.Array, int]":
        """Values of a column among which is that of a row of a row group, and the number of their first row."""
        is_same = cls._rows is rows and cls._place == (group, column)
        if not is_same or row < cls._first:
            cls._num_returns = cls._num_returns + 1 if is_same else 0
            cls.forget()
            cls._rows, cls._place, cls._values, cls._first = rows, (group, column), (), 0
            cls._batches = cls._begin(rows, group, column)
        try:
            while row >= cls._first + len(cls._values):
                cls._first += len(cls._values)
                cls._values = next(cls._batches)
        except BaseException:
            cls.forget()  # the next row begins at the start again, and meets the same damage or does not reach it
            raise
        return cls._values, cls._first

    @classmethod
    def _begin(cls, rows: ParquetRows, group: int, column: str) -> Iterator["pyarrow.Array"]:
        if is_address(rows.path):  # few large requests
            return iter([rows.whole(group, column)])
        if cls._num_returns and (rows.num_bytes(group, column) <= _MAX_WHOLE or cls._num_returns > _MAX_RETURNS):
            with suppress(UsageError):  # it is damaged, but perhaps not in the rows that are asked for
                return iter([rows.whole(group, column)])
        return rows.batches(group, column)


def _chunks(file: "pq.ParquetFile", group: int, column: str) -> "list[pq.ColumnChunkMetaData]":
    """The parts of a row group in which the values of a column are stored."""
    stored = file.metadata.row_group(group)
    chunks = (stored.column(number) for number in range(stored.num_columns))
    return [chunk for chunk in chunks if f"{chunk.path_in_schema}.".startswith(f"{column}.")]


def column_batches(file: "pq.ParquetFile", group: int, name: str) -> Iterator["pyarrow.Array"]:
    """A column of a row group in arrays of a few rows; raises pyarrow's errors."""
    for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[name], use_threads=False):
        yield batch.column(name)


def column_values(file: "pq.ParquetFile", group: int, name: str) -> Iterator[tuple["pyarrow.Array", int]]:
    """For each value of a column of a row group, an array that has it, and its place there; raises pyarrow's errors."""
    for batch in column_batches(file, group, name):
        for place in range(len(batch)):
            yield batch, place


def open_parquet(path: str) -> "pq.ParquetFile":
    """Open a Parquet file.

    Raises:
        UsageError: pyarrow is not installed, or the file is damaged.
    """
    check_installed()
    import pyarrow.parquet as pq

    buffer = 0 if is_address(path) else _BUFFER
    with naming_damage(path):
        return pq.ParquetFile(
            openable(path), buffer_size=buffer, pre_buffer=False, memory_map=False, page_checksum_verification=True
        )


def audio_value(values: "pyarrow.Array", row: int, name: str) -> bytes:
    """The encoded audio in a row of a column; decoded audio becomes a WAV file.

    Args:
        values: the column, of a type for which `audio_form` is not None.
        row: the row.
        name: the name of the record for messages.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if the row has no audio, only a path, or samples that are none.
    """
    import numpy as np
    import pyarrow as pa

    path = None
    if pa.types.is_struct(values.type):
        names = [field.name for field in values.type]
        if BYTES not in names:
            return _wav_of(values[row], name)
        if values[row].is_valid and PATH in names:
            path = values.field(PATH)[row].as_py()
        values = values.field(BYTES)
    value = values[row]
    if value.is_valid and pa.types.is_dictionary(values.type):
        value = value.value
    if not value.is_valid:
        raise _not_embedded(name, path)
    if isinstance(value, pa.ListScalar | pa.LargeListScalar):
        return bytes(np.asarray(value.values).view(np.uint8).tobytes())
    return bytes(value.as_buffer())


def _wav_of(value: "pyarrow.StructScalar", name: str) -> bytes:
    """Decoded audio as a WAV file: 16 bits if these hold the samples exactly, else 32-bit floats."""
    import numpy as np

    array, rate = (value[SAMPLES], value[RATE].as_py()) if value.is_valid else (None, None)
    if array is None or not array.is_valid:
        raise _not_embedded(name, None)
    if not isinstance(rate, int | float) or not 0 < rate < 1 << 31 or rate != int(rate):
        raise RecordRejected(RejectReason.UNREADABLE_AUDIO, f"the {RATE} of {name} is {rate}, not a rate in Hz")
    samples = array.values.to_numpy(zero_copy_only=False)
    if samples.dtype != np.int16:
        if not (np.abs(samples) <= _MAX_SAMPLE).all():  # NaN is not
            detail = f"the {SAMPLES} of {name} has samples that are not floats between -1 and 1"
            raise RecordRejected(RejectReason.UNREADABLE_AUDIO, detail)
        scaled = samples.astype(np.float64) * 32768
        is_exact = (scaled == np.rint(scaled)).all() and (scaled >= -32768).all() and (scaled <= 32767).all()
        samples = scaled.astype("<i2") if is_exact else samples.astype("<f4")
    data: bytes = samples.tobytes()
    width = samples.itemsize
    form = (1 if width == 2 else 3, 1, int(rate), int(rate) * width, width, 8 * width)
    return _WAV.pack(b"RIFF", _WAV.size - 8 + len(data), b"WAVEfmt ", 16, *form, b"data", len(data)) + data


def _not_embedded(name: str, path: object) -> RecordRejected:
    only = (
        f": the row has only the path {path}, which is not followed. Embed the files, as save_to_disk of Hugging Face "
        "datasets does, or make a manifest of them with prepcli make-manifest"
        if path
        else ""
    )
    return RecordRejected(RejectReason.UNREADABLE_AUDIO, f"the audio of {name} is not embedded{only}")
