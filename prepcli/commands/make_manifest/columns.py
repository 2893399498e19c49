"""Tables of records: CSV, TSV, lists with |, JSON lines, and the metadata of a Hugging Face `audiofolder`."""

import csv
import gzip
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Literal, TypeVar

import msgspec

from prepcli.commands.make_manifest.entries import SourceEntry, rejected_entry
from prepcli.commands.make_manifest.settings import MakeSettings
from prepcli.commands.make_manifest.source import byte_lines, other_entries, stem_of
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.audiofolder import METADATA
from prepcli.formats.tables import AUDIO, LANG, SPEAKER, TEXT, Layout, layout_of
from prepcli.gate import checked_fields, is_missing
from prepcli.interface.calls import Undo, keep_for_caller
from prepcli.interface.printing import number_of
from prepcli.manifest.fields import decode_value, parse_fields
from prepcli.manifest.json_kinds import decoded
from prepcli.manifest.kinds import first_lines
from prepcli.manifest.remedies import advice_on_ids, named_ids
from prepcli.manifest.sources import check_file, is_gzip

_FILE_NAME = "file_name"
_SAMPLE_ROWS = 1000
_TIMES = ("offset", "duration")
_NO_TIMES: Mapping[str, Any] = {}
_Cells = TypeVar("_Cells")
_Row = tuple[int, _Cells | RecordRejected, str]
"""The number of a row from 1; its cells, or why it cannot be read; and its text."""
_Roles = tuple[str, dict[str, str]]
"""The name of the audio column; and a map from the text, speaker and language columns to fields of the manifest."""


def table_layout(path: str, asked: MakeSettings, delimiter: str | None = None) -> Layout:
    """The columns of the table `path`, which is CSV, TSV, or, if `delimiter` is |, a list.

    Raises:
        UsageError: two columns have the same name, the names are not UTF-8, there is no header that is needed, or it
            cannot be decided which column holds what.
    """
    check_file(path, "source")
    lines = first_lines(path)
    if not lines:
        raise UsageError(f"{path} is empty")
    layout = layout_of(path, lines, asked.columns if asked.transcripts is None else None, delimiter)
    if layout.has_ids and asked.columns is None:
        raise UsageError(f"{path} is not a source ({named_ids(lines)}); {advice_on_ids(path, layout, lines)}")
    if not layout.names:
        raise UsageError(layout.question(path))
    _check_names(layout.names, path)
    return layout


def rows_of_table(path: str, layout: Layout, asked: MakeSettings, folder: str = "") -> Iterator[SourceEntry]:
    """The entries of the rows of a table; relative audio paths are below `folder`.

    A word such as `nan` or `null` is a word; an empty cell is missing.

    Raises:
        UsageError: no column names the audio, or a quotation mark is not closed.
    """
    audio, named = _roles([name for name in layout.names if name], asked, path)
    places = {name: place for place, name in enumerate(layout.names) if name}
    left_out = {audio, *_TIMES, *named, *named.values()}
    fields_at = [(field, places[name]) for name, field in named.items()]
    fields_at += [(name, place) for name, place in places.items() if name not in left_out]
    times_at = [(name, places[name]) for name in _TIMES if name in places]
    for line, row, text in _table_rows(path, layout):
        if isinstance(row, RecordRejected):
            yield rejected_entry(row.reason, row.detail, line, text)
            continue
        fields = {field: row[place] for field, place in fields_at if row[place]}
        times = {name: row[place] for name, place in times_at if row[place]} if times_at else _NO_TIMES
        yield _entry(row[places[audio]], fields, times, audio, line, folder)


def rows_of_objects(path: str, asked: MakeSettings, folder: str = "") -> Iterator[SourceEntry]:
    """The entries of objects with fields of any type: JSON lines, or the rows of Parquet. NaN and null are missing.

    Raises:
        UsageError: no field of the first rows names the audio, or Parquet is damaged.
    """
    rows = _parquet_rows(path) if path.endswith(".parquet") else _json_rows(path)
    sample = list(islice(rows, _SAMPLE_ROWS))
    names = dict.fromkeys(name for _, row, _ in sample if isinstance(row, dict) for name in row)
    roles: _Roles | None = None
    for line, row, text in chain(sample, rows):
        if isinstance(row, RecordRejected):
            yield rejected_entry(row.reason, row.detail, line, text)
            continue
        roles = roles or _roles(list(names or row), asked, path)
        audio, named = roles
        row = {name: value for name, value in row.items() if not is_missing(value)}
        left_out = {audio, *_TIMES, *named, *named.values()}
        fields = {field: row[name] for name, field in named.items() if name in row}
        fields |= {name: value for name, value in row.items() if name not in left_out}
        value = row.get(audio)
        value = value.get("path") if isinstance(value, dict) else value  # as Hugging Face writes audio
        times = {name: row[name] for name in _TIMES if name in row}
        entry = _entry(value, fields, times, audio, line, folder)
        if not entry.reason:
            try:
                entry.fields = checked_fields(entry.fields or {})
            except RecordRejected as rejected:
                entry.reason, entry.detail = rejected.reason.value, rejected.detail
        yield entry


def rows_of_metadata(path: str, layout: Layout | None, asked: MakeSettings, folder: str = "") -> Iterator[SourceEntry]:
    """The entries of a metadata file of an audiofolder, as Hugging Face datasets reads it.

    Paths in it start from its folder, which is `folder` relative to the base folder; a backslash separates, too.
    `layout`: the columns of a CSV; None for a file of another kind.
    """
    rows = rows_of_table(path, layout, asked, folder) if layout else rows_of_objects(path, asked, folder)
    for entry in rows:
        entry.path = entry.path.replace("\\", "/")
        yield entry


def _table_rows(path: str, layout: Layout) -> Iterator[_Row[list[str]]]:
    """The rows of a table, each counted by columns; TSV and lists with | have no quotes, as in Common Voice."""
    keep_for_caller(_size_limit)
    csv.field_size_limit(sys.maxsize)
    names, delimiter = layout.names, layout.delimiter
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if layout.has_quotes else csv.QUOTE_NONE
    what = "the header has" if layout.has_header else "the table has"
    opened = gzip.open if is_gzip(path) else open
    with opened(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        try:
            taken: list[str] = []  # the lines of the current row
            rows = csv.reader(_noting(file, taken), delimiter=delimiter, quoting=quoting)
            before, has_names = 0, layout.has_header
            # One value without a name may be the number of the row, which pandas writes.
            unnamed = [place for place, name in enumerate(names) if not name] if layout.has_header else []
            for row in rows:
                line, before = before + 1, rows.line_num
                if len(taken) > 1:
                    _check_quotes(taken, delimiter, f"{path}:{line}")
                text = taken[0] if len(taken) == 1 else "".join(taken)
                taken.clear()
                if not row or (len(row) == 1 and not row[0].strip()):
                    continue
                if has_names:
                    has_names = False
                    continue
                if len(row) != len(names):
                    detail = f"the row has {number_of(len(row), 'column')}, {what} {len(names)}"
                elif "\0" in text:
                    detail = "the row has a NUL character; write the row again without it"
                else:
                    if delimiter == "|":
                        row = [cell.strip() for cell in row]
                    if not unnamed or sum(bool(row[place]) for place in unnamed) < 2:
                        yield line, row, text
                        continue
                    detail = "the row has several values in columns without a name"
                yield line, RecordRejected(RejectReason.BAD_FIELD, detail), text.rstrip("\r\n")
        except (csv.Error, EOFError) as error:
            raise UsageError(
                f"{path} cannot be read as a table: {error}; write it again, or give {option('--format')}"
            ) from None


def _size_limit() -> Undo:
    limit = csv.field_size_limit()
    return lambda: csv.field_size_limit(limit)


def _check_names(names: Sequence[str], path: str) -> None:
    """Refuse a header in which two columns have the same name: one would be lost. Names may be empty."""
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise UsageError(f"{path} has {names.count(twice[0])} columns with the name {twice[0]}; rename or remove one")
    if any("\udc80" <= letter <= "\udcff" for name in names for letter in name):
        raise UsageError(f"the header of {path} is not UTF-8; convert the file, with iconv -f ENCODING -t UTF-8")


def _noting(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    for line in lines:
        taken.append(line)
        yield line.replace("\0", "") if "\0" in line else line


def _check_quotes(lines: list[str], delimiter: str, where: str) -> None:
    """Refuse a row of several lines with an unmatched quotation mark, which swallows the rows after it as text."""
    try:
        next(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:
        raise UsageError(
            f'{where} has a quotation mark that is not closed, or one within a text that is not doubled (""), and the '
            "row does not end with its line; correct it"
        ) from None


def _json_rows(path: str) -> Iterator[_Row[dict[str, Any]]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    row: dict[str, Any] | RecordRejected
    for number, line in byte_lines(path):
        try:
            row = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            try:
                row = {name: decode_value(value) for name, value in parse_fields(line).items()}  # NaN is read, too
            except RecordRejected as rejected:
                row = rejected
        yield number, row, "" if isinstance(row, dict) else line.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _parquet_rows(path: str) -> Iterator[_Row[dict[str, Any]]]:
    from prepcli.formats.parquet import naming_damage
    from prepcli.formats.parquet_audio import open_parquet

    number = 0
    file = open_parquet(path)
    with naming_damage(path):
        for batch in file.iter_batches(use_threads=False):
            for row in batch.to_pylist():
                number += 1
                yield number, {name: value for name, value in row.items() if not isinstance(value, bytes)}, ""


def metadata_files(folder: str, asked: MakeSettings) -> list[str]:
    """The paths of the metadata files of an `audiofolder`, at any depth, relative to `folder`, sorted.

    Hidden folders are left out, and files below `folder` that name no audio. If there are transcripts of another kind,
    so is a list of ids and texts, as LJSpeech has one.

    Raises:
        UsageError: a folder has two metadata files.
    """
    files: list[str] = []
    has_transcripts = asked.transcripts is not None or asked.text_suffix is not None
    for place, names in _folders(folder):
        here = [path for name in METADATA if name in names for path in [os.path.join(place, name)]]
        here = [path for path in here if _names_audio(os.path.join(folder, path), asked, not place, has_transcripts)]
        if len(here) > 1:
            raise UsageError(f"{folder} has both {here[0]} and {here[1]}; keep one of them, or name it as SOURCE")
        files += here
    return sorted(files)


def _folders(top: str) -> Iterator[tuple[str, list[str]]]:
    """All folders below `top`, and itself, by their paths relative to it; each with its files that are not audio."""
    waiting, passed = [""], set[tuple[int, int]]()
    while waiting:
        place = waiting.pop()
        path = os.path.join(top, place)
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in passed:
                continue
            passed.add((status.st_dev, status.st_ino))
            entries = other_entries(path)
        except OSError:  # the walk for audio reports it
            continue
        yield place, [entry.name for entry in entries]
        folders = (entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
        waiting += [os.path.join(place, name) for name in folders if not name.endswith(".prepcli")]


def _names_audio(path: str, asked: MakeSettings, is_top: bool, has_transcripts: bool) -> bool:
    """Whether a file with the name of metadata describes audio; one at the top does, if nothing else has the texts."""
    check_file(path, "metadata")
    if path.endswith(".parquet"):
        from prepcli.formats.parquet_audio import open_parquet

        names = open_parquet(path).schema_arrow.names
    else:
        lines = first_lines(path)
        first = decoded(lines[0]) if path.endswith(".jsonl") and lines else None
        names = first or (layout_of(path, lines).names if lines else ())
    wanted = AUDIO if asked.audio_column is None else (asked.audio_column,)
    return not set(wanted).isdisjoint(names) or (is_top and not has_transcripts)


def _roles(names: Sequence[str], asked: MakeSettings, path: str) -> _Roles:
    wanted = asked.audio_column
    if wanted is None and _FILE_NAME in names and os.path.basename(path) in METADATA:
        wanted = _FILE_NAME
    audio = _role(names, AUDIO, wanted, "--audio-column", path)
    if audio is None:
        raise UsageError(
            f"{path} has no column that is known to name audio (its columns are {', '.join(names)}); name it with "
            f"{option('--audio-column')}"
        )
    named = {
        _role(names, TEXT, asked.text_column, "--text-column", path): "text",
        _role(names, SPEAKER, asked.speaker_column, "--speaker-column", path): "speaker",
        _role(names, LANG, asked.lang_column, "--lang-column", path): "lang",
    }
    return audio, {column: name for column, name in named.items() if column is not None and column != audio}


def _role(names: Sequence[str], known: Sequence[str], wanted: str | None, flag: str, path: str) -> str | None:
    if wanted is not None:
        if wanted not in names:
            raise UsageError(f"{path} has no column {wanted} ({option(flag)}); its columns are {', '.join(names)}")
        return wanted
    columns = [name for name in known if name in names]
    if len(columns) > 1 and columns[0] != known[0]:
        raise UsageError(f"{path} has the columns {' and '.join(columns)}; say with {option(flag)} which one is meant")
    return columns[0] if columns else None


def _entry(
    path: object, fields: dict[str, Any], times: Mapping[str, Any], audio: str, line: int, folder: str
) -> SourceEntry:
    """The entry of a row: the value of its column `audio`, its fields, and its `offset` and `duration`, if any."""
    if path is None or (isinstance(path, str) and not path.strip()):
        return rejected_entry(RejectReason.MISSING_FIELD, f"there is no {audio}", line, str(fields))
    if not isinstance(path, str) or "\0" in path:
        return rejected_entry(RejectReason.BAD_FIELD, f"{audio} is {path!r:.40}; it must be a path", line, str(fields))
    if folder:
        path = os.path.join(folder, path)
    if not times:
        return SourceEntry(path, line, stem_of(path), fields)
    try:
        offset, duration = _number(times, "offset", 0.0), _number(times, "duration", None)
    except RecordRejected as rejected:
        return SourceEntry(path, line, fields=fields, reason=rejected.reason.value, detail=rejected.detail)
    # Without an offset the entry is the whole file, whose duration is measured.
    return SourceEntry(path, line, stem_of(path), fields, offset, (duration or 0.0) if offset is not None else 0.0)


def _number(times: Mapping[str, Any], name: str, minimum: float | None) -> float | None:
    """The value of `name` in seconds; None if it is not there.

    Raises `RecordRejected` if the value is not a finite number or is below `minimum`. If `minimum` is None, the value
    must be above 0.
    """
    value = times.get(name)
    if value is None:
        return None
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    above = number >= minimum if minimum is not None else number > 0
    if not above or number == float("inf"):
        reason = RejectReason.BAD_OFFSET if name == "offset" else RejectReason.BAD_DURATION
        raise RecordRejected(reason, f"{name} is {value}; it must be a number of seconds")
    return number
