"""Reads audio from Parquet files of any origin: finds the column of the audio, and the bytes of each row."""

import mmap
from typing import TYPE_CHECKING, Any

from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.archives import Container
from prepcli.formats.parquet import check_installed, naming_damage
from prepcli.storage.addresses import ByteRange, is_address
from prepcli.storage.containers import name_in
from prepcli.storage.paths import path_of
from prepcli.storage.ranges import open_object

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet as pq


class ParquetRows(Container):
    """The audio of the rows of a Parquet file.

    The audio of one row group is held in memory. If a local file stores the audio neither compressed nor encoded, a
    process decodes each row group only once. After that it knows the place of each row's audio in the file, and reads
    rows in any order.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._file = open_parquet(path)
        self._column = audio_column(self._file.schema_arrow, path)
        metadata = self._file.metadata
        self._places: dict[int, list[ByteRange | None]] = {}
        self._first = [0]
        for group in range(metadata.num_row_groups):
            self._first.append(self._first[-1] + metadata.row_group(group).num_rows)

    def audio(self, member: str) -> ByteRange | bytes:
        """The audio of the row with the number `member`: its place in the file if it is known, else its bytes."""
        from bisect import bisect_right

        row = int(member) if member.isdigit() else -1
        if not 0 <= row < self._first[-1]:
            raise self.missing(member)
        group = bisect_right(self._first, row) - 1
        within = row - self._first[group]
        if group not in self._places:
            RowGroup.load(self, group)
        elif (place := self._places[group][within]) is not None:
            self.check()
            return place
        RowGroup.load(self, group)
        assert RowGroup.values is not None
        return audio_value(RowGroup.values, within, name_in(self.path, row))

    def read_group(self, group: int) -> "pyarrow.Array":
        """Read the audio of a row group, and note the places of its rows in the file."""
        self.check()
        with naming_damage(self.path):
            values = read_column(self._file, group, self._column)
        self._places[group] = self._places_of(group, values)
        return values

    def _places_of(self, group: int, values: "pyarrow.Array") -> list[ByteRange | None]:
        """The place in the file of each row's audio.

        None for audio that the file holds only compressed or encoded, for rows without audio, and for objects in a
        store.

        A page of a Parquet column that is not encoded holds, for each value, its length in four bytes, and then its
        bytes. There are headers between pages.
        """
        found: list[ByteRange | None] = [None] * len(values)
        stored = self._file.metadata.row_group(group)
        chunks = (stored.column(number) for number in range(stored.num_columns))
        chunk = next((one for one in chunks if one.path_in_schema in (self._column, f"{self._column}.bytes")), None)
        if chunk is None or chunk.compression != "UNCOMPRESSED" or is_address(self.path):
            return found
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
                found[row] = ByteRange(self.path, place + 4, len(value))
        return found


class RowGroup:
    """The audio of the row group that this process holds in memory.

    It is only one row group for all Parquet files, because a row group may have more than 100 MB.
    """

    place: tuple[str, int] | None = None
    values: "pyarrow.Array | None" = None

    @classmethod
    def load(cls, rows: ParquetRows, group: int) -> None:
        """Read a row group and hold it instead of the former one, unless it is held already."""
        if cls.place != (rows.path, group):
            cls.place = cls.values = None
            cls.values = rows.read_group(group)
            cls.place = rows.path, group


def read_column(file: "pq.ParquetFile", group: int, name: str) -> "pyarrow.Array":
    """A column of a row group as one array; raises pyarrow's errors."""
    column = file.read_row_group(group, columns=[name], use_threads=False).column(0)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def open_parquet(path: str) -> "pq.ParquetFile":
    """Open a Parquet file.

    Raises:
        UsageError: pyarrow is not installed, or the file is damaged.
    """
    check_installed()
    import pyarrow.parquet as pq

    with naming_damage(path):
        file = open_object(path) if is_address(path) else path
        return pq.ParquetFile(file, pre_buffer=False, memory_map=False, page_checksum_verification=True)


_AUDIO_COLUMNS = ("audio", "audio_bytes", "wav", "flac", "mp3", "speech")


def audio_column(schema: "pyarrow.Schema", path: str, wanted: str | None = None) -> str:
    """The column with encoded audio.

    This is `wanted` if it is given; else the column that is declared as audio in the metadata of Hugging Face datasets;
    else the column of a type for audio: a struct with `bytes`, binary data, or lists of bytes. If several columns fit,
    it is the first one of `_AUDIO_COLUMNS` among them.

    Raises:
        UsageError: no column is found, or several and none with a usual name.
    """
    names = list(schema.names)
    if wanted is not None:
        if wanted not in names:
            raise UsageError(f"{path} has no column {wanted}; its columns are {', '.join(names)}")
        return wanted
    features = huggingface_features(schema)
    named = [name for name in names if isinstance(features.get(name), dict) and features[name].get("_type") == "Audio"]
    found = named or [name for name in names if _may_be_audio(schema.field(name).type)]
    if len(found) > 1:
        found = [name for name in _AUDIO_COLUMNS if name in found][:1] or found
    if len(found) != 1:
        which = "several columns that may hold audio" if found else "no column with audio"
        raise UsageError(
            f"{path} has {which} (its columns are {', '.join(found or names)}); name it with {option('--audio-column')}"
        )
    return str(found[0])


def huggingface_features(schema: "pyarrow.Schema") -> dict[str, Any]:
    """The features, by column, that Hugging Face datasets has stored in a schema; empty if there are none."""
    import json

    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}
    return features if isinstance(features, dict) else {}


def _may_be_audio(kind: "pyarrow.DataType") -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return any(kind.field(number).name == "bytes" for number in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return bool(pa.types.is_int8(kind.value_type) or pa.types.is_uint8(kind.value_type))
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def audio_value(values: "pyarrow.Array", row: int, name: str) -> bytes:
    """The encoded audio in a row of a column.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if the row has no audio, or only a path.
    """
    import numpy as np
    import pyarrow as pa

    kind = values.type
    path = None
    if pa.types.is_struct(kind):
        if values[row].is_valid and any(kind.field(number).name == "path" for number in range(kind.num_fields)):
            path = values.field("path")[row].as_py()
        values = values.field("bytes")
    value = values[row]
    if not value.is_valid:
        raise _not_embedded(name, path)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return bytes(np.asarray(value.values).view(np.uint8).tobytes())
    return bytes(value.as_buffer())


def _not_embedded(name: str, path: object) -> RecordRejected:
    only = f": the row has only the path {path}, which is not followed" if path else ""
    return RecordRejected(RejectReason.UNREADABLE_AUDIO, f"the audio of {name} is not embedded{only}")
