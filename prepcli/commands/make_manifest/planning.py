"""Reads a source: its entries, its tables and its transcripts; and the checks and the report of its manifest."""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from prepcli.commands.make_manifest.entries import Catalog, MatchBy, SourceEntry, write_catalog
from prepcli.commands.make_manifest.formats import TABLES, advice_on_files, source_of
from prepcli.commands.make_manifest.kaldi import is_command, words_of_command
from prepcli.commands.make_manifest.recordings import (
    EMPTY_TEXT,
    MOVED,
    NAMED_FIELDS,
    WITH_TEXT,
    WITHOUT_RATE,
    audio_folder,
)
from prepcli.commands.make_manifest.settings import MakeSettings
from prepcli.commands.make_manifest.source import EntrySource, PathNames, stem_of
from prepcli.commands.make_manifest.tables import Table, read_transcripts
from prepcli.commands.make_manifest.transcripts import changed_transcript, missing_transcripts, transcript_of
from prepcli.engine.publishing.publish import Marker, totals
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, UsageError, option
from prepcli.gate import RATE_FIELDS, note_on_moved
from prepcli.interface.calls import current_call
from prepcli.interface.options import settings_of
from prepcli.interface.printing import number_of
from prepcli.jobs.line_job import LINES_NAME
from prepcli.manifest.line_slices import LineSlice
from prepcli.manifest.missing import explain_missing
from prepcli.processes.pools import map_in_order
from prepcli.storage.input_files import state_of


@dataclass(frozen=True, slots=True)
class MakeContents:
    """The source, and the catalog of its entries."""

    source: EntrySource
    catalog: Catalog


MakePlan = Plan[LineSlice, MakeContents]


def plan_of(asked: MakeSettings, folder: Path) -> MakePlan:
    """Read the source, and store its entries in a catalog; `folder` is for temporary files.

    Raises:
        UsageError: the source cannot be read, or names no audio.
    """
    source = source_of(asked, folder)
    if asked.times is not None:
        from prepcli.commands.make_manifest.times import with_times

        source = with_times(source, asked.times, asked.times_format)
    transcripts = _transcripts(source, asked)
    catalog = _catalog(source, transcripts, folder, asked)
    slices = catalog.slices
    if not slices.num_records:
        why = "; ".join(source.notes()) or "it is empty"
        raise UsageError(f"{source.path} names no audio ({why}){advice_on_files(source)}")
    notes = [f"{source.path} is read as {source.kind}: {source.how}", *source.notes()]
    if transcripts is not None and "normalized_text" in source.tables:
        notes.append(f"{transcripts.path} has two texts for each id: text and normalized_text")
    if (keys := catalog.keys) is not None:
        by_path = {table.path: table for table in source.tables.values()}
        unused = ((table, table.num_unused(keys)) for table in by_path.values())
        notes += [
            f"{num:,} of {number_of(len(table), 'line')} of {table.path} {'matches' if num == 1 else 'match'} no audio"
            for table, num in unused
            if num
        ]
    return Plan(
        slices.units,
        slices.num_records,
        MakeContents(source, catalog),
        _inputs(source, slices.inputs[0].sha256),
        notes=notes,
        knows_seconds=False,
        missing_sample=partial(_missing_sample, source, catalog, asked.text_suffix),
    )


def _catalog(source: EntrySource, transcripts: Table | None, folder: Path, asked: MakeSettings) -> Catalog:
    """Store the entries of the source, and find those whose id is repeated or whose transcript is ambiguous."""
    entries = source.entries()
    match_by: MatchBy | None = None
    if transcripts is not None:
        entries = _with_keys(entries)
        match_by = None if source.has_ids else "key"
    elif asked.text_suffix is not None and not source.has_commands:
        match_by = "path"  # two files `a/x.wav` and `a/x.flac` make a transcript next to them ambiguous
    return write_catalog(
        entries,
        folder,
        with_keys=source.has_ids or transcripts is not None,
        match_by=match_by,
        ids_of=os.path.basename(source.files[0]) if source.has_ids else None,
    )


def _transcripts(source: EntrySource, asked: MakeSettings) -> Table | None:
    given = option("--transcripts" if asked.transcripts is not None else "--text-suffix")
    if "text" in source.tables and (asked.transcripts is not None or asked.text_suffix is not None):
        raise UsageError(f"the transcripts of {source.path} are in {source.tables['text'].path}; leave out {given}")
    if asked.transcripts is None:
        return None
    tables = read_transcripts(asked.transcripts, stem_of, asked.columns)
    source.tables.update(tables)
    return tables["text"]


def _inputs(source: EntrySource, sha256: str) -> list[InputFile]:
    """The input files; the source comes first, since rejects refer to it.

    `sha256`: the digest of all entries, which shows whether the content of the source has changed.
    """
    is_file = source.files[:1] == (source.path,)
    inputs = [InputFile(source.path, sha256, state_of(source.path) if is_file else None)]
    empty = hashlib.sha256().hexdigest()  # the digest of the entries stands for their content
    inputs += [InputFile(path, empty, state_of(path)) for path in source.files[is_file:]]
    tables = [*source.tables.values(), *([source.recordings] if source.recordings else [])]
    by_path = {table.path: table for table in tables}
    inputs += source.times.inputs if source.times is not None else []
    return inputs + [InputFile(table.path, table.sha256, table.state) for table in by_path.values()]


def files_of_records(plan: MakePlan, asked: MakeSettings) -> Iterator[str]:
    """Yield the audio files, the transcripts next to them, and the words of commands, which may be paths of files.

    If a command contains the name of the output's `audio_folder`, also yield all files in this folder.
    """
    source, suffix = plan.contents.source, asked.text_suffix
    made = asked.out.with_name(audio_folder(asked.out.name))
    for _, entry in chain.from_iterable(map(plan.contents.catalog.read, plan.units)):
        try:
            value = None if entry.reason else source.audio_of(entry)
        except RecordRejected:
            continue
        if value is None:
            continue
        words = words_of_command(value) if is_command(value) else [value]
        yield from (os.path.join(source.base, word) for word in words)
        if suffix is not None:
            yield transcript_of(os.path.join(source.base, value), suffix)
        if is_command(value) and made.name in value and made.is_dir():
            yield from map(str, made.iterdir())


def _missing_sample(source: EntrySource, catalog: Catalog, suffix: str | None) -> str | None:
    """A message if all files of a sample of entries are missing, else None.

    The files are the audio, or the transcripts next to the audio if the source is a folder. If commands or archives
    have the audio, nothing is checked.
    """
    if source.kind == "folder":  # the walk found them; a broken link is rejected later
        audio = (os.path.join(source.base, entry.path) for entry in catalog.sample())
        return missing_transcripts(list(audio), suffix) if suffix is not None else None
    paths: list[str] = []
    for entry in catalog.sample():
        with contextlib.suppress(RecordRejected):  # the entry is rejected later, with this reason
            paths += filter(None, [None if entry.reason else source.audio_of(entry)])
    if any(is_command(path) or ".ark:" in path for path in paths):
        return None
    return explain_missing(
        [(source.base, path) for path in paths], source.path, source.path, file=next(iter(source.files), "")
    )


def check_transcripts(done: Sequence[LineSlice], workspace: Workspace, asked: MakeSettings, num_workers: int) -> None:
    """Check the finished units.

    Raises:
        UsageError: a transcript next to the audio has changed since its record was written.
    """
    suffix = asked.text_suffix
    if suffix is None:
        return
    parts = [workspace.part_file(unit.id, LINES_NAME.format(unit.id)) for unit in done]
    check = partial(changed_transcript, folder=str(asked.out.parent), suffix=suffix)
    for path in filter(None, map_in_order(check, parts, num_workers)):
        raise UsageError(
            f"the transcript {path} has changed since {asked.out} was made of it. Choose another file, or "
            f"give {option('--overwrite')} to start again"
        )


def settings_for(contents: MakeContents, asked: MakeSettings) -> dict[str, Any]:
    """The options, the format of the source, and its base folder as names in the manifest begin with it."""
    base = PathNames(asked.out.parent, asked.absolute_paths).name(f"{contents.source.base}/")
    settings = settings_of(current_call().options)
    return settings | {"--format": contents.source.kind, "audio is named": f"{base}..."}


def details_of(contents: MakeContents, markers: Sequence[Marker], asked: MakeSettings) -> dict[str, Any]:
    """The details of the report: the path of the manifest, and notes on missing and empty texts."""
    details: dict[str, Any] = {"manifest": asked.out}
    with_text = totals(markers)[WITH_TEXT]
    gives_text = asked.text_suffix is not None or contents.source.times is not None or "text" in contents.source.tables
    if not with_text and not gives_text and any(marker.records_out for marker in markers):
        details["warning"] = _advice_on_texts(contents)
    if num_empty := totals(markers)[EMPTY_TEXT]:
        details[EMPTY_TEXT] = f"transcripts without a word: {num_empty:,}"
    if num_segments := totals(markers)[WITHOUT_RATE]:
        details[WITHOUT_RATE] = (
            f"{' and '.join(RATE_FIELDS)} are left out of {number_of(num_segments, 'segment')}: NeMo does not load a "
            "line of a plain manifest that has them and an offset"
        )
    if num_moved := int(totals(markers)[MOVED]):
        details["rounding"] = note_on_moved(num_moved, "their files")
    return details


def _advice_on_texts(contents: MakeContents) -> str:
    """Advice for a manifest without texts: an option to give; for a table, also the columns that may have the text."""
    if contents.source.kind in TABLES:
        entries = contents.catalog.sample()
        left = dict.fromkeys(name for entry in entries for name in entry.fields or () if name not in NAMED_FIELDS)
        if left:
            return (
                f"no record has a text: name its column with {option('--text-column')}; left over are {', '.join(left)}"
            )
    return f"no record has a text: give {option('--text-suffix')} or {option('--transcripts')} if there are transcripts"


def _with_keys(entries: Iterator[SourceEntry]) -> Iterator[SourceEntry]:
    """Yield the entries, each with a key: its own, or the stem of its file."""
    for entry in entries:
        entry.key = entry.key or stem_of(entry.path)
        yield entry
