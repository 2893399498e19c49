"""Tables of records: CSV, TSV, and the `metadata.csv` and `metadata.jsonl` of a Hugging Face `audiofolder`."""

import csv
import gzip
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from prepcli.commands.make_manifest.entries import SourceEntry, rejected_entry
from prepcli.commands.make_manifest.options import MakeManifest
from prepcli.commands.make_manifest.source import stem_of, text_lines
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.interface.calls import Undo, keep_for_caller
from prepcli.manifest.sources import check_file, is_gzip

AUDIO = (
    *("audio_filepath", "file_name", "audio", "path", "file", "filename", "filepath", "file_path"),
    *("wav", "wav_path", "wav_filename", "wav_file", "audio_path", "audio_file"),
)
"""Names of columns with the path of the audio, in NeMo, Hugging Face, Common Voice, DeepSpeech and others."""
TEXT = ("text", "transcription", "transcript", "sentence", "normalized_text")
SPEAKER = ("speaker", "speaker_id", "client_id", "spk", "spk_id")
LANG = ("lang", "language", "locale")
METADATA = ("metadata.csv", "metadata.jsonl")


_Roles = tuple[str, dict[str, str]]
"""The name of the audio column; and a map from the text, speaker and language columns to fields of the manifest."""


def rows_of_csv(path: str, options: MakeManifest, folder: str = "") -> Iterator[SourceEntry]:
    """The rows of a table with a header; relative audio paths are below `folder`.

    TSV has no quotes, as in Common Voice: quotation marks are ordinary characters.

    Raises:
        UsageError: there is no header, two columns have the same name, no column names the audio, or a quotation mark
            is not closed.
    """
    keep_for_caller(_size_limit)
    csv.field_size_limit(sys.maxsize)
    tabs = path.removesuffix(".gz").endswith(".tsv")
    check_file(path, "source")
    opened = gzip.open if is_gzip(path) else open
    with opened(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        try:
            first = file.readline()
            comma = ";" if ";" in first and "," not in first else ","
            delimiter = "\t" if tabs or ("\t" in first and "," not in first) else comma
            quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
            header = next(csv.reader([first], delimiter=delimiter, quoting=quoting), [])
            if first.count("|") == 2 and options.audio_column is None:
                raise UsageError(
                    f"{path} has no header, but lines id|text|normalized text, as in LJSpeech: give the folder of the "
                    f"recordings as SOURCE, and {option('--transcripts', path)}"
                )
            names = [name.strip() for name in header]
            _check_names(names, path)
            roles = _roles(names, options, path)
            taken: list[str] = []  # the lines of the current row
            rows = csv.reader(_noting(file, taken), delimiter=delimiter, quoting=quoting)
            before = 1
            for row in rows:
                line, before = before + 1, rows.line_num + 1
                if len(taken) > 1:
                    _check_quotes(taken, delimiter, f"{path}:{line}")
                taken.clear()
                if not row:
                    continue
                if len(row) != len(names):
                    detail = f"the row has {len(row)} columns, the header has {len(names)}"
                    yield rejected_entry(RejectReason.BAD_FIELD, detail, line, delimiter.join(row))
                    continue
                values = {name: value for name, value in zip(names, row, strict=True) if value}
                if len(values) < len(row) - row.count(""):
                    detail = "the row has several values in columns without a name"
                    yield rejected_entry(RejectReason.BAD_FIELD, detail, line, delimiter.join(row))
                    continue
                yield _entry(values, roles, line, folder)
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


def _noting(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    for line in lines:
        taken.append(line)
        yield line


def _check_quotes(lines: list[str], delimiter: str, where: str) -> None:
    """Refuse a row of several lines with an unmatched quotation mark, which swallows the rows after it as text."""
    try:
        next(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:
        raise UsageError(
            f'{where} has a quotation mark that is not closed, or one within a text that is not doubled (""), and the '
            "row does not end with its line; correct it"
        ) from None


def rows_of_jsonl(path: str, options: MakeManifest, folder: str = "") -> Iterator[SourceEntry]:
    """The objects in a `metadata.jsonl`, treated as rows of a table; values may have any type, null is left out."""
    roles: _Roles | None = None
    for number, line in text_lines(path):
        try:
            row = msgspec.json.decode(line.encode("utf-8", "surrogateescape"), type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield rejected_entry(RejectReason.BROKEN_JSON, f"broken JSON: {error}", number, line)
            continue
        roles = roles or _roles(list(row), options, path)
        yield _entry({name: value for name, value in row.items() if value is not None}, roles, number, folder)


def metadata_files(folder: str, entries: Iterable["os.DirEntry[str]"]) -> list[str]:
    """The paths of the metadata files of an `audiofolder`, relative to `folder`, sorted.

    They are in the folder itself or in its subfolders, one for each split. `entries`: what `other_entries` returns for
    the folder.

    Raises:
        UsageError: a folder has two metadata files.
    """
    found: list[str] = []
    below = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    for place in ("", *below):
        here = [os.path.join(place, name) for name in METADATA if os.path.isfile(os.path.join(folder, place, name))]
        if len(here) > 1:
            raise UsageError(f"{folder} has both {here[0]} and {here[1]}; keep one of them, or name it as SOURCE")
        found += here
    return found


def _roles(names: Sequence[str], options: MakeManifest, path: str) -> _Roles:
    audio = _role(names, AUDIO, options.audio_column, "--audio-column", path)
    if audio is None:
        raise UsageError(
            f"{path} has no column that is known to name audio (its columns are {', '.join(names)}); name it with "
            f"{option('--audio-column')}"
        )
    named = {
        _role(names, TEXT, options.text_column, "--text-column", path): "text",
        _role(names, SPEAKER, options.speaker_column, "--speaker-column", path): "speaker",
        _role(names, LANG, None, "", path): "lang",
    }
    return audio, {column: name for column, name in named.items() if column is not None and column != audio}


def _role(names: Sequence[str], known: Sequence[str], wanted: str | None, flag: str, path: str) -> str | None:
    if wanted is not None:
        if wanted not in names:
            raise UsageError(f"{path} has no column {wanted} ({option(flag)}); its columns are {', '.join(names)}")
        return wanted
    found = [name for name in known if name in names]
    if len(found) > 1 and found[0] != known[0] and flag:
        raise UsageError(f"{path} has the columns {' and '.join(found)}; say with {option(flag)} which one is meant")
    return found[0] if found else None


def _entry(row: dict[str, Any], roles: _Roles, line: int, folder: str) -> SourceEntry:
    audio, named = roles
    path = row.pop(audio, None)
    if not isinstance(path, str) or not path.strip():
        return rejected_entry(RejectReason.MISSING_FIELD, f"there is no {audio}", line, str(row))
    path = os.path.join(folder, path)
    try:
        offset, duration = _number(row, "offset", 0.0), _number(row, "duration", None)
    except RecordRejected as rejected:
        return SourceEntry(path, line, fields=row, reason=rejected.reason.value, detail=rejected.detail)
    fields = {name: row[column] for column, name in named.items() if column in row}
    fields |= {name: value for name, value in row.items() if name not in named and name not in fields}
    # Without an offset the entry is the whole file, whose duration is measured.
    return SourceEntry(path, line, stem_of(path), fields, offset, (duration or 0.0) if offset is not None else 0.0)


def _number(row: dict[str, Any], name: str, minimum: float | None) -> float | None:
    """Remove column `name` from the row, and return its value in seconds; None if the row does not have it.

    Raises `RecordRejected` if the value is not a finite number or is below `minimum`. If `minimum` is None, the value
    must be above 0.
    """
    value = row.pop(name, None)
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    above = number >= minimum if minimum is not None else number > 0
    if not above or number == float("inf"):
        reason = RejectReason.BAD_OFFSET if name == "offset" else RejectReason.BAD_DURATION
        raise RecordRejected(reason, f"{name} is {value}; it must be a number of seconds")
    return number
