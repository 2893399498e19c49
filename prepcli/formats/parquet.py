"""Parquet files with audio, as NeMo's LazyParquetIterator and Hugging Face datasets read them.

The columns are `id`, `audio` (a struct of `bytes` and `path`), and columns with one text, number or truth value per
row. A reader holds a whole row group in memory, so row groups are small; all files of a set have the same schema, which
`datasets` requires.
"""

import importlib.util
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from prepcli.errors import UsageError
from prepcli.formats.folders import Listing, numbered
from prepcli.formats.omnilingual import AUDIO, SIZE, TEXT
from prepcli.formats.stored_set import Shards, StoredSet
from prepcli.formats.tar import Sink
from prepcli.formats.training_config import parquet_entry
from prepcli.storage.paths import NUMBER, AnyPath, path_of

if TYPE_CHECKING:
    import pyarrow

FILE_NAME = "data-{}.parquet"
DATA_FILE = re.compile(r"data-(\d{6,})\.parquet$")
OUTPUT_PATTERNS = (FILE_NAME.format(NUMBER),)
MAX_GROUP_BYTES = 128 << 20
"""Maximum bytes of audio per row group; Arrow limits a column of bytes to 2 GiB."""
MAX_AUDIO_BYTES = (1 << 31) - (1 << 20)
"""Maximum bytes of audio per record: Parquet stores the length of a value in 31 bits."""

ColumnType = Literal["string", "int64", "float64", "bool"]


def check_installed() -> None:
    """Raise `UsageError` if pyarrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError("Parquet needs pyarrow: pip install 'prepcli[parquet]'")


@contextmanager
def naming_damage(path: str) -> Iterator[None]:
    """A context for code that reads the Parquet file `path`: pyarrow's errors and `OSError` become `UsageError`."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(
            f"{path} cannot be read as Parquet: {' '.join(str(error).split())}; copy it again, or leave it out"
        ) from None


def file_name(number: int) -> str:
    """`7` -> `data-000007.parquet`."""
    return FILE_NAME.format(f"{number:06d}")


def schema_of(columns: Mapping[str, ColumnType]) -> "pyarrow.Schema":
    """The schema of a file with the columns `id` and `audio`, and further columns: `columns` has the type of each name.

    Its metadata declare `audio` as audio for Hugging Face datasets.
    """
    import pyarrow as pa

    types = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
    audio = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
    fields = [pa.field("id", pa.string()), pa.field("audio", audio)]
    features: dict[str, Any] = {"id": {"dtype": "string", "_type": "Value"}, "audio": {"_type": "Audio"}}
    for name, kind in columns.items():
        fields.append(pa.field(name, types[kind]))
        features[name] = {"dtype": kind, "_type": "Value"}
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def seconds_in(value: object) -> float:
    """The number of seconds in a value of the column `duration`, which is an int, a float or a `Decimal`.

    Raises:
        ValueError: the value is not a number of seconds; the message says so.
    """
    seconds = float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"duration is {value!r}, not a number of seconds")
    return seconds


def python_values(data: "pyarrow.Table | pyarrow.ChunkedArray") -> list[Any]:
    """The rows of a table, or the values of a column, as Python objects.

    Raises:
        pyarrow.ArrowInvalid: a value is not of its type, such as a text that is not UTF-8.
    """
    import pyarrow as pa

    try:
        values: list[Any] = data.to_pylist()
    except (ValueError, OverflowError) as error:
        raise pa.ArrowInvalid(f"a value is not of its type: {error}") from None
    return values


class _ArrowSink:
    """Presents a `Sink` to pyarrow as a file that is only appended to."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._position = 0

    def write(self, data: Any) -> int:
        num_bytes = self._sink.write(data)
        self._position += num_bytes
        return num_bytes

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def writable(self) -> bool:
        return True


class _Audio:
    """The audio of a row group, in memory that is used again for the next group and the next file.

    The operating system fills new memory with zeros. New memory for each group would double the time of writing.
    """

    _kept: ClassVar[list[bytearray]] = []

    def __init__(self) -> None:
        self._memory = self._kept.pop() if self._kept else bytearray(1 << 20)
        self._ends = [0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def num_bytes(self) -> int:
        return self._ends[-1]

    def add(self, data: bytes) -> None:
        begin, end = self.num_bytes, self.num_bytes + len(data)
        if end > len(self._memory):
            larger = bytearray(max(end, min(2 * len(self._memory), MAX_GROUP_BYTES)))
            larger[:begin] = memoryview(self._memory)[:begin]
            self._memory = larger
        self._memory[begin:end] = data
        self._ends.append(end)

    def array(self) -> "pyarrow.Array":
        """The audio as an array with the bytes of one record per item. It must not be used after `clear`."""
        import pyarrow as pa

        ends = pa.py_buffer(np.array(self._ends, np.int32))
        data = pa.py_buffer(memoryview(self._memory)[: self.num_bytes])
        return pa.Array.from_buffers(pa.binary(), len(self), [None, ends, data])

    def clear(self) -> None:
        self._ends = [0]

    def close(self) -> None:
        self._kept[:] = [self._memory] if len(self._memory) <= MAX_GROUP_BYTES else []


class ParquetFile:
    """Appends records to a file, in row groups of `group_size` records, or fewer if they have much audio.

    Attributes:
        audio: the name of the column with the audio.
        encoded: the path in the schema that leads to the audio's bytes. pyarrow writes these without compression,
            because audio is compressed already or should be read fast.
        dictionaries: paths in the schema, below the column with the audio, that are written with a dictionary. Columns
            other than that of the audio always are.
        max_group_bytes: maximum bytes of audio per row group.
    """

    audio: ClassVar[str] = "audio"
    encoded: ClassVar[str] = "audio.bytes"
    dictionaries: ClassVar[tuple[str, ...]] = ("audio.path",)
    max_group_bytes: ClassVar[int] = MAX_GROUP_BYTES

    def __init__(self, sink: Sink, schema: "pyarrow.Schema", group_size: int) -> None:
        import pyarrow.parquet as pq

        plain = [name for name in schema.names if name != self.audio]
        # Statistics of the audio would repeat the longest recordings.
        self._writer = pq.ParquetWriter(
            _ArrowSink(sink),
            schema,
            compression=dict.fromkeys([*plain, *self.dictionaries], "ZSTD") | {self.encoded: "NONE"},
            use_dictionary=[*plain, *self.dictionaries],
            write_statistics=plain,
        )
        self._schema = schema
        self._group_size = group_size
        self._plain = plain
        self._audio = _Audio()
        self._clear()

    def _clear(self) -> None:
        self._audio.clear()
        self._paths: list[str] = []
        self._columns: dict[str, list[Any]] = {name: [] for name in self._plain}

    def add(self, audio: bytes, values: Mapping[str, Any], path: str = "") -> None:
        """Append a record. Columns that are missing in `values` get null; `path` is the name of the audio."""
        if self._audio and self._audio.num_bytes + len(audio) > self.max_group_bytes:
            self._flush()
        self._audio.add(audio)
        self._paths.append(path)
        for name, column in self._columns.items():
            column.append(values.get(name))
        if len(self._audio) == self._group_size:
            self._flush()

    def close(self) -> None:
        """Write the remaining records and the end of the file."""
        self._flush()
        self._writer.close()
        self._audio.close()

    def audio_array(self) -> "pyarrow.Array":
        """Return the audio of the row group as an Arrow array, the values of the column with the audio.

        The array must not be used after the row group is written.
        """
        import pyarrow as pa

        children = [self._audio.array(), _of_bytes(_encoded(self._paths), pa.string())]
        return pa.StructArray.from_arrays(children, fields=list(self._schema.field(self.audio).type))

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._audio:
            return
        audio = self.audio_array()
        arrays = [
            audio if field.name == self.audio else _array(self._columns[field.name], field.type)
            for field in self._schema
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=len(self._audio))
        self._clear()


class OmnilingualFile(ParquetFile):
    """Appends records to a Parquet file for omnilingual-asr, whose audio is a list of bytes per row."""

    audio: ClassVar[str] = AUDIO
    encoded: ClassVar[str] = f"{AUDIO}.list.element"
    dictionaries: ClassVar[tuple[str, ...]] = (f"{AUDIO}.list.element",)  # without a dictionary, a byte would take four
    max_group_bytes: ClassVar[int] = 32 << 20  # Arrow needs 13 bytes of memory per byte while it writes

    def audio_array(self) -> "pyarrow.Array":
        """Return the audio of the row group as an array with a list per record: the bytes of its audio, as int8."""
        import pyarrow as pa

        binary = self._audio.array()
        _, ends, data = binary.buffers()
        values = pa.Array.from_buffers(pa.int8(), self._audio.num_bytes, [None, data])
        return pa.Array.from_buffers(pa.list_(pa.int8()), len(binary), [None, ends], children=[values])


def omnilingual_schema() -> "pyarrow.Schema":
    """Return the schema of Parquet files for omnilingual-asr.

    Corpus, split and language are in the paths, not in columns.
    """
    import pyarrow as pa

    return pa.schema([(TEXT, pa.string()), (AUDIO, pa.list_(pa.int8())), (SIZE, pa.int64())])


# Arrays are made from buffers: `pyarrow.array` imports pandas for its first list, which takes a second.


def _array(values: Sequence[Any], type: "pyarrow.DataType") -> "pyarrow.Array":
    import pyarrow as pa

    if type == pa.string():
        return _of_bytes(_encoded(values), type)
    dtype: Any = {pa.int64(): np.int64, pa.float64(): np.float64, pa.bool_(): np.bool_}[type]
    numbers: NDArray[Any] = np.array([0 if value is None else value for value in values], dtype)
    data = np.packbits(numbers, bitorder="little") if dtype is np.bool_ else numbers
    return pa.Array.from_buffers(type, len(values), [_validity(values), pa.py_buffer(data)])


def _of_bytes(values: Sequence[bytes | None], type: "pyarrow.DataType") -> "pyarrow.Array":
    import pyarrow as pa

    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)], dtype=np.int32)
    data = b"".join(value for value in values if value is not None)
    return pa.Array.from_buffers(type, len(values), [_validity(values), pa.py_buffer(ends), pa.py_buffer(data)])


def _validity(values: Sequence[Any]) -> "pyarrow.Buffer | None":
    """A bitmap of the values that are not None; None if no value is None."""
    import pyarrow as pa

    if None not in values:
        return None
    return pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))


def _encoded(values: Sequence[str | None]) -> list[bytes | None]:
    return [None if value is None else value.encode("utf-8") for value in values]


class ParquetSet(StoredSet):
    """Parquet files with audio; `shards` are the files that prepcli wrote."""

    kind = "parquet"
    is_for_nemo = True

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "ParquetSet | None":
        """The set in a folder with Parquet files, or in which a run has `published` some; else None."""
        there = [name for name in listed.files if name.endswith(".parquet")]
        return cls(folder, Listing(there, [])) if there or any(map(DATA_FILE.match, published)) else None

    def title(self, *, is_file: bool = False) -> str:
        """The words for one file, or for several."""
        return "Parquet with audio" if len(self.listed.files) > 1 else "a Parquet file"

    def is_checked(self, published: Collection[str]) -> bool:
        """Only files that prepcli wrote; those of others are read as containers."""
        return bool(self.shards or published)

    @cached_property
    def shards(self) -> Shards:
        """The files with the names that `manifest-to-parquet` gives them, by number."""
        return numbered(self.folder, DATA_FILE, self.listed.files)

    def files(self) -> Iterator[AnyPath]:
        """All Parquet files, sorted by name."""
        yield from map(path_of, self.record_files())

    def record_files(self) -> tuple[str, ...]:
        """The paths of the Parquet files, which hold the records."""
        return tuple(str(self.folder / name) for name in self.listed.files)

    def entry(self) -> dict[str, Any]:
        """The entry in an `input_cfg` for the set; its paths are absolute."""
        return parquet_entry(self.files())
