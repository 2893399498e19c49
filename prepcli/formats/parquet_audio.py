"""Reads audio from Parquet files of any origin: the bytes of each row."""

import mmap
import struct
from typing import TYPE_CHECKING

from prepcli.errors import RecordRejected, RejectReason
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
_WAV = struct.Struct("<4sI8sIHHIIHH4sI")


class ParquetRows(Container):
    """The audio of the rows of a Parquet file.

    The audio of one row group is held in memory. If a local file stores the audio neither compressed nor encoded, a
    process decodes each row group only once. After that it knows the place of each row's audio in the file, and reads
    rows in any order.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._file = open_parquet(path)
        self._columns: dict[str | None, str] = {}
        metadata = self._file.metadata
        self._places: dict[tuple[int, str], list[ByteRange | None]] = {}
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
        if (places := self._places.get((group, column))) is not None and (place := places[within]) is not None:
            self.check()
            return place
        RowGroup.load(self, group, column)
        assert RowGroup.values is not None
        return audio_value(RowGroup.values, within, name_in(self.path, member))

    def read_group(self, group: int, column: str) -> "pyarrow.Array":
        """Read the audio of a row group, and note the places of its rows in the file."""
        self.check()
        with naming_damage(self.path):
            values = read_column(self._file, group, column)
        self._places[group, column] = self._places_of(group, column, values)
        return values

    def _places_of(self, group: int, column: str, values: "pyarrow.Array") -> list[ByteRange | None]:
        """The place in the file of each row's audio.

        None for audio that the file holds only compressed or encoded, for rows without audio, and for objects in a
        store.

        A page of a Parquet column that is not encoded holds, for each value, its length in four bytes, and then its
        bytes. There are headers between pages.
        """
        places: list[ByteRange | None] = [None] * len(values)
        stored = self._file.metadata.row_group(group)
        chunks = (stored.column(number) for number in range(stored.num_columns))
        chunk = next(
            (column_chunk for column_chunk in chunks if column_chunk.path_in_schema in (column, f"{column}.{BYTES}")),
            None,
        )
        if chunk is None or chunk.compression != "UNCOMPRESSED" or is_address(self.path):
            return places
        start = chunk.data_page_offset
        with path_of(self.path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at, end = start, min(start + chunk.total_compressed_size, len(data))
            for row in range(len(values)):
                try:
                    value = audio_value(values, row, self.path)
                except RecordRejected:
                    continue
                wanted = len(value).to_bytes(4, "little") + value
                place = at if data[at : at + len(wanted)] == wanted else data.find(wanted, at, end)
                if place < 0:
                    return [None] * len(values)
                at = place + len(wanted)
                places[row] = ByteRange(self.path, place + 4, len(value))
        return places


class RowGroup:
    """The audio of the row group that this process holds in memory.

    It is only one row group for all Parquet files, because a row group may have more than 100 MB.
    """

    place: tuple[str, int, str] | None = None
    values: "pyarrow.Array | None" = None

    @classmethod
    def load(cls, rows: ParquetRows, group: int, column: str) -> None:
        """Read a column of a row group and hold it instead of the former one, unless it is held already."""
        if cls.place != (rows.path, group, column):
            cls.place = cls.values = None
            cls.values = rows.read_group(group, column)
            cls.place = rows.path, group, column


def read_column(file: "pq.ParquetFile", group: int, name: str) -> "pyarrow.Array":
    """A column of a row group as one array; raises pyarrow's errors."""
    # The table may have more columns: a field `b` of a column `a`, if the wanted column is named `a.b`.
    column = file.read_row_group(group, columns=[name], use_threads=False).column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def open_parquet(path: str) -> "pq.ParquetFile":
    """Open a Parquet file.

    Raises:
        UsageError: pyarrow is not installed, or the file is damaged.
    """
    check_installed()
    import pyarrow.parquet as pq

    with naming_damage(path):
        return pq.ParquetFile(openable(path), pre_buffer=False, memory_map=False, page_checksum_verification=True)


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
