"""Inspects exports to other toolkits: WeNet, mels with file lists, Parquet with audio, OmniVoice and Qwen3-TTS."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from prepcli.commands.inspect.audio import AudioFacts, NamedFile, look_at_files
from prepcli.commands.inspect.conversations import look_at_conversations
from prepcli.commands.inspect.report import Inspection
from prepcli.commands.inspect.sample import EvenSample, spread
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.conversations import ConversationSet
from prepcli.formats.folders import Listing
from prepcli.formats.mels import AUDIO, LIST_FILE, MEL, SEPARATOR, MelSet
from prepcli.formats.omnilingual import RATE, SIZE
from prepcli.formats.omnivoice import LIST_NAME, OmnivoiceSet, read_list
from prepcli.formats.parquet import ParquetSet, check_installed, python_values, seconds_in
from prepcli.formats.parquet_audio import audio_value, column_values, open_parquet
from prepcli.formats.parquet_columns import audio_column
from prepcli.formats.qwen3_tts import CODES, LINES_FILE, QwenSet
from prepcli.formats.stored_set import StoredSet
from prepcli.formats.wenet import WenetSet, list_kind
from prepcli.interface.printing import first_line, number_of
from prepcli.jobs.inputs.conversations import conversation_tars
from prepcli.manifest.conversations import PLACEHOLDERS
from prepcli.storage.paths import AnyPath
from prepcli.storage.ranges import openable

MAX_FILES = 8
"""Maximum number of Parquet files whose audio is inspected; they are evenly spread."""


def export_of(path: AnyPath) -> StoredSet | None:
    """The export to which a file belongs, by its name or first bytes; None if it belongs to none."""
    with path.open("rb") as file:
        head = file.read(4096)
    alone = Listing([path.name], [])
    if head[:4] == b"PAR1":
        return ParquetSet(path.parent, alone)
    if LIST_FILE.match(path.name):
        return MelSet(path.parent, alone)
    if path.name == LIST_NAME:
        return OmnivoiceSet(path)
    if LINES_FILE.match(path.name):
        return QwenSet(path.parent, alone)
    kind = list_kind(path)
    return None if kind is None else WenetSet(path, is_raw=kind == "raw")


def look_at_export(export: StoredSet, num_audio_files: int, report: Inspection) -> None:
    """Add to `report` the number of records of an export and, if it holds or names audio, facts on a sample of it.

    Shards for WeNet are not opened here: only missing shards are noted.
    """
    files = list(export.files())
    report.files = len(files)
    LOOKS[export.kind](export, files, num_audio_files, report)


def _look_at_wenet(export: WenetSet, files: list[AnyPath], num_audio_files: int, report: Inspection) -> None:
    if not export.tars:
        _look_at_lists(files, _raw_lines, num_audio_files, report)
        return
    report.files = len(export.tars)
    if missing := [str(path) for path in export.tars if not path.is_file()]:
        report.notes.append(f"missing of the list: {number_of(len(missing), 'shard')}, the first is {missing[0]}")


def _look_at_conversations(
    stored: ConversationSet, files: list[AnyPath], num_audio_files: int, report: Inspection
) -> None:
    report.files = len(files)
    look_at_conversations(conversation_tars(stored, PLACEHOLDERS), num_audio_files, report)


def _look_at_mels(_: StoredSet, files: list[AnyPath], num_audio_files: int, report: Inspection) -> None:
    _look_at_lists(files, _list_lines, num_audio_files, report)


def _look_at_omnivoice(export: OmnivoiceSet, _: list[AnyPath], __: int, report: Inspection) -> None:
    """Add the records and hours that the list of the export states, and a note on tars that are missing."""
    try:
        lines = read_list(export.list)
    except ValueError as error:
        raise UsageError(f"{export.list}: {error}") from None
    report.records = report.lines = sum(line.num_records for line in lines)
    report.hours = sum(line.seconds for line in lines) / 3600
    if missing := [str(line.codes) for line in lines if not line.codes.is_file()]:
        report.notes.append(f"missing of the list: {number_of(len(missing), 'tar')}, the first is {missing[0]}")


def _look_at_qwen(_: StoredSet, paths: list[AnyPath], __: int, report: Inspection) -> None:
    """Add the number of lines and their hours of audio, and a note with the total number of code frames."""
    frames = 0
    for path in paths:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    item = json.loads(line)
                    frames += len(item[CODES])
                    report.hours += float(item.get("duration") or 0.0) / 3600
                except (ValueError, TypeError, KeyError, AttributeError):
                    raise UsageError(f"{path}:{number} is not a line with {CODES}") from None
                report.records += 1
    report.lines = report.records
    report.notes.append(f"{frames:,} frames of codes")


def _look_at_lists(
    paths: list[AnyPath], read: Callable[[AnyPath], Iterator[str | None]], num_audio_files: int, report: Inspection
) -> None:
    sample: EvenSample[NamedFile] = EvenSample(num_audio_files)
    mels = [path for path in paths if f"_{MEL}_" in path.name]
    for path in paths:
        count = 0
        for audio in read(path):
            count += 1
            if audio is not None:
                sample.add([(audio, 0.0, 0.0)])
        report.records += count if not mels or path in mels else 0  # the list of audio has the same records
        report.notes.append(f"{path.name} has {number_of(count, 'line')}")
    if num_audio_files and sample.items:
        report.audio = [look_at_files(sample.chosen())]


def _raw_lines(path: AnyPath) -> Iterator[str | None]:
    """The audio file that each line of a data list for WeNet names."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            try:
                audio = os.path.join(str(path.parent), json.loads(line)["wav"])
            except (ValueError, TypeError, KeyError):
                raise UsageError(f"{path}:{number} is not a line of a data list with key, wav and txt") from None
            yield audio


def _list_lines(path: AnyPath) -> Iterator[str | None]:
    """The audio file that each line of a file list names; None for each line in a list of mels."""
    match = LIST_FILE.match(path.name)
    is_audio = match is not None and match[2] == AUDIO
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            yield os.path.join(str(path.parent), line.partition(SEPARATOR)[0]) if is_audio else None


def _look_at_parquet(_: StoredSet, paths: list[AnyPath], num_audio_files: int, report: Inspection) -> None:
    check_installed()
    import pyarrow
    import pyarrow.parquet as pq

    audio = AudioFacts(where="the files")
    opened = spread(paths, MAX_FILES)
    wanted = -(-num_audio_files // max(1, len(opened)))
    for path in paths:
        try:
            with pq.ParquetFile(openable(path)) as file:
                names = file.schema_arrow.names
                report.records += file.metadata.num_rows
                report.lines = report.records
                for name in names:
                    report.fields[name] = report.fields.get(name, 0) + file.metadata.num_rows
                if "duration" in names:
                    _add_durations(path.name, python_values(file.read(["duration"]).column(0)), report)
                elif SIZE in names:
                    sizes = python_values(file.read([SIZE]).column(0))
                    _add_durations(path.name, [None if size is None else size / RATE for size in sizes], report)
                if path in opened and file.num_row_groups:
                    size = min(wanted, num_audio_files - audio.looked_at)
                    (audio,) = map_refusing_crashes(_add_rows, [(audio, path, size)])
        except (pyarrow.ArrowException, OSError) as error:
            report.notes.append(f"damaged: {path.name}: {first_line(error)}")
    report.audio = [audio] if audio.looked_at else []


def _add_durations(name: str, durations: list[object], report: Inspection) -> None:
    problems: list[str] = []
    for row, value in enumerate(durations):
        try:
            report.hours += 0.0 if value is None else seconds_in(value) / 3600
        except ValueError as error:
            problems.append(f"row {row}: {error}")
    if problems:
        more = f", and {len(problems) - 1:,} more rows" if len(problems) > 1 else ""
        report.notes.append(f"{name}: {problems[0]}{more}")


def _add_rows(task: tuple[AudioFacts, AnyPath, int]) -> AudioFacts:
    """Look at the audio of a few rows of a Parquet file, and return the facts with what was found.

    `task`: the facts, the file, and the maximum number of rows, which are taken from the middle row group. Nothing is
    added if no column is certain to hold the audio.
    """
    audio, path, wanted = task
    with open_parquet(str(path)) as file:
        try:
            column = audio_column(file.schema_arrow, str(path))
        except UsageError:
            return audio
        group = file.num_row_groups // 2
        rows: EvenSample[int] = EvenSample(wanted)
        values = column_values(file, group, column)  # twice, because a row group may be large
        rows.add([row for row, (batch, at) in enumerate(values) if batch[at].is_valid])
        chosen = set(rows.chosen())
        for row, (batch, at) in enumerate(column_values(file, group, column)):
            if row not in chosen:
                continue
            name = f"{path.name}: row {row}"
            try:
                audio.add_bytes(audio_value(batch, at, name), name)
            except RecordRejected as rejected:
                audio.looked_at += 1
                audio.add_fault("unreadable", rejected.detail)
    return audio


LOOKS: dict[str, Callable[[Any, list[AnyPath], int, Inspection], None]] = {
    "conversations": _look_at_conversations,
    "wenet": _look_at_wenet,
    "mels": _look_at_mels,
    "parquet": _look_at_parquet,
    "omnilingual": _look_at_parquet,
    "omnivoice": _look_at_omnivoice,
    "qwen3-tts": _look_at_qwen,
}
"""For each kind of export the function that adds to the result; it takes the export, its files, and the maximum number
of audio files to look at."""
