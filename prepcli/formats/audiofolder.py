"""The metadata of Hugging Face's `audiofolder`: tables whose rows name audio files relative to the table.

The rules are those of datasets (packaged_modules/folder_based_builder).
"""

import csv
import io
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.interface.printing import number_of

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_FILE_NAME = "file_name"


def is_metadata(name: str) -> bool:
    """Whether a file is the metadata of the audio in its folder and below."""
    return name.endswith(METADATA) and name.rpartition("/")[2] in METADATA


def metadata_of(names: Iterable[str], place: str) -> list[str]:
    """The metadata files among the names of all files, sorted; `place` names the folder or archive in messages.

    Raises:
        UsageError: a folder has two metadata files.
    """
    files = sorted(filter(is_metadata, names))
    for file, other in pairwise(files):
        if file.rpartition("/")[0] == other.rpartition("/")[0]:
            raise UsageError(f"{place} has both {file} and {other}; keep one of them")
    return files


def metadata_rows(name: str, data: bytes, place: str) -> Iterator[tuple[str, dict[str, Any] | RecordRejected]]:
    """Yield the path of the audio and the other values of each row, or why the row cannot be used.

    Args:
        name: the name of the metadata file; paths are relative to the same root.
        data: its content.
        place: the name of the folder or archive in messages.

    Raises:
        UsageError: the table has no column with names of files, or cannot be read.
    """
    column: str | None = None
    folder = posixpath.dirname(name)
    for number, row in _rows(name, data, place):
        if isinstance(row, RecordRejected):
            yield "", row
            continue
        column = column or _audio_column(list(row), name, place)
        path = row.pop(column, None)
        if not isinstance(path, str) or not path:
            yield "", RecordRejected(RejectReason.MISSING_FIELD, f"{name}: row {number} has no {column}")
        else:
            yield posixpath.normpath(posixpath.join(folder, path)), row


def _audio_column(columns: Sequence[str], name: str, place: str) -> str:
    matches = [column for column in columns if column == _FILE_NAME or column.endswith(f"_{_FILE_NAME}")]
    if _FILE_NAME in matches or len(matches) == 1:
        return _FILE_NAME if _FILE_NAME in matches else matches[0]
    raise UsageError(
        f"{name} in {place} has {'several columns' if matches else 'no column'} with the names of audio files (its "
        f"columns are {', '.join(columns)}); name it {_FILE_NAME}, or, if it lists texts by id, unpack the set: "
        f"prepcli make-manifest --transcripts {name} FOLDER_OF_AUDIO OUT.json"
    )


def _rows(name: str, data: bytes, place: str) -> Iterator[tuple[int, dict[str, Any] | RecordRejected]]:
    """The rows of a table by number, from 1, without values that are missing."""
    if name.endswith(".parquet"):
        yield from enumerate(_of_parquet(data, f"{name} in {place}"), 1)
    elif name.endswith(".csv"):
        yield from _of_csv(name, data, place)
    else:
        for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
            if line.strip():
                try:
                    yield number, msgspec.json.decode(line, type=dict[str, Any])
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    yield number, RecordRejected(RejectReason.BROKEN_JSON, f"{name}:{number}: broken JSON: {error}")


def _of_csv(name: str, data: bytes, place: str) -> Iterator[tuple[int, dict[str, Any] | RecordRejected]]:
    try:
        text = data.decode("utf-8-sig")
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        header = next(rows, [])
        _audio_column(header, name, place)
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                detail = (
                    f"{name}:{rows.line_num}: the row has {number_of(len(row), 'column')}, the header has {len(header)}"
                )
                yield rows.line_num, RecordRejected(RejectReason.BAD_FIELD, detail)
                continue
            values = {column: value for column, value in zip(header, row, strict=True) if value}
            yield (
                rows.line_num,
                values | {column: _number(values[column]) for column in ("offset", "duration") if column in values},
            )
    except UnicodeDecodeError:
        raise UsageError(f"{name} in {place} is not UTF-8; convert it") from None
    except csv.Error as error:
        raise UsageError(f"{name} in {place} cannot be read as a table: {error}; correct it") from None


def _number(text: str) -> Any:
    """The number that a text of a CSV is; the text itself if it is none, which is then refused as a value."""
    try:
        return float(text)
    except ValueError:
        return text


def _of_parquet(data: bytes, what: str) -> Iterator[dict[str, Any]]:
    from prepcli.formats.parquet import check_installed, naming_damage

    check_installed()
    import pyarrow
    import pyarrow.parquet

    with naming_damage(what):
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
    for batch in table.to_batches(1024):
        yield from batch.to_pylist()
