"""make-manifest: the audio that a source names becomes the records of a manifest."""

import contextlib
import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from prepcli.audio.opening import open_source
from prepcli.audio.source import refuse
from prepcli.commands.make_manifest.entries import Catalog, Slice, SourceEntry, encodable, write_catalog
from prepcli.commands.make_manifest.formats import source_of, with_stems
from prepcli.commands.make_manifest.kaldi import in_archive, is_command, words_of_command
from prepcli.commands.make_manifest.options import MakeManifest
from prepcli.commands.make_manifest.paths import PathNames
from prepcli.commands.make_manifest.recording import Recordings, audio_folder
from prepcli.commands.make_manifest.source import EntrySource, stem_of
from prepcli.commands.make_manifest.tables import Table, read_transcripts
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.run.job import Advance
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.run.workers import UnitJob
from prepcli.engine.state.file_output import FileWorkspace, real_file
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.interface.options import settings_of
from prepcli.manifest.missing import explain_missing, spread_over
from prepcli.processes.pools import map_in_order
from prepcli.storage.input_files import state_of
from prepcli.storage.one_name import OTHER_FORM, other_forms

NAMED_FIELDS = ("text", "speaker", "lang")
"""The fields that every format may give, in the order in which they follow the audio's."""


class Fields:
    """Adds fields to the records of one unit."""

    def __init__(self, source: EntrySource, options: MakeManifest, recordings: Recordings) -> None:
        self._tables = source.tables
        self._suffix = options.text_suffix
        self._base = source.base
        self._pattern = options.pattern()
        self._constants = options.constants()
        self._recordings = recordings
        self._adds_nothing = not (source.tables or self._suffix or self._pattern or self._constants)

    def add(self, record: dict[str, Any], entry: SourceEntry) -> None:
        """Add the fields of an entry to its record.

        Raises:
            RecordRejected: a transcript or a speaker is missing, or ambiguous.
        """
        if self._adds_nothing and not entry.fields:
            return
        fields = dict(entry.fields) if entry.fields else {}
        for name, table in self._tables.items():
            value = table.find(entry.key)
            if value is None:
                hint = f"; {OTHER_FORM}" if any(map(table.find, other_forms(entry.key))) else ""
                detail = f"there is no line for {entry.key} in {table.path}{hint}"
                raise RecordRejected(RejectReason.MISSING_FIELD, detail)
            fields[name] = value
        if self._suffix is not None:
            fields["text"] = _read_text(_transcript_of(self._recordings.path(entry), self._suffix))
        if self._pattern is not None:
            fields["speaker"] = self._speaker(entry)
        fields |= self._constants
        for name in NAMED_FIELDS:
            if name in fields:
                record[name] = fields.pop(name)
        for name, value in fields.items():
            record.setdefault(name, value)

    def ambiguous(self, entry: SourceEntry) -> RecordRejected:
        """Why a record is rejected whose key another one has as well."""
        detail = f"several records are called {entry.key}, so it cannot be told whose text or speaker is meant"
        return RecordRejected(RejectReason.BAD_FIELD, detail)

    def _speaker(self, entry: SourceEntry) -> str:
        path = self._recordings.path(entry)
        below = self._base.rstrip("/") + "/"
        path = path.removeprefix(below)
        assert self._pattern is not None
        found = self._pattern.search(path)
        if found is None:
            raise RecordRejected(RejectReason.BAD_SPEAKER, f"--speaker-pattern finds no speaker in {path}")
        return "_".join(group for group in found.groups() if group) or found.group()


def changed_transcript(part: Path, folder: str, suffix: str) -> str | None:
    """The first transcript that is not the text of its record in a part of a manifest.

    Args:
        part: JSON lines of a unit.
        folder: that of the manifest, where relative paths start.
        suffix: of the transcripts, which lie next to the audio. One that is not there is not compared.
    """
    decoder = msgspec.json.Decoder(_Written)
    with part.open("rb") as lines:
        for line in lines:
            record = decoder.decode(line)
            path = _transcript_of(os.path.join(folder, record.audio_filepath), suffix)
            try:
                if _read_text(path) != record.text:
                    return path
            except RecordRejected as rejected:
                if rejected.reason is not RejectReason.MISSING_FIELD:
                    return path
    return None


class _Written(msgspec.Struct):
    audio_filepath: str
    text: str = ""


def _transcript_of(audio: str, suffix: str) -> str:
    return os.path.splitext(audio)[0] + suffix


def _read_text(path: str) -> str:
    """The transcript in a file, as one line."""
    try:
        with open_source(path, path) as file:
            data = file.everything()
    except RecordRejected as rejected:
        if rejected.reason is RejectReason.MISSING_AUDIO:
            raise RecordRejected(RejectReason.MISSING_FIELD, f"the transcript {path} does not exist") from None
        raise
    except OSError as error:
        refuse(error, path)
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise RecordRejected(RejectReason.NOT_UTF8, f"the transcript {path} is not UTF-8") from None
    return " ".join(line.strip() for line in text.splitlines()) if "\n" in text else text


_PART = "parts/{}.jsonl"
_WITH_TEXT = "with_text"
_ADVANCED_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class MakeContents:
    """The source, and the catalog of its entries."""

    source: EntrySource
    catalog: Catalog


MakePlan = Plan[Slice, MakeContents]


class MakeJob(UnitJob[Slice, MakeContents]):
    """Writes one manifest. A unit is a slice of the source's entries."""

    command: ClassVar[str] = "make-manifest"

    def __init__(self, options: MakeManifest, num_workers: int = 1) -> None:
        """`options` are checked here, the source when it is planned."""
        options.check()
        self.options = options
        self._num_workers = num_workers

    def plan(self, workspace: Workspace) -> MakePlan:
        """List the source's entries."""
        options = self.options
        source = source_of(options)
        transcripts = self._transcripts(source)
        by_key = transcripts is not None or source.needs_unique_keys or options.text_suffix is not None
        entries = source.entries()
        if options.text_suffix is not None and not source.needs_unique_keys:
            # A transcript beside `a/x.wav` and `a/x.flac` is of neither.
            entries = (_keyed_by_path(entry) for entry in entries)
        elif transcripts is not None:
            entries = with_stems(entries)
        catalog = write_catalog(entries, workspace.root, by_key)
        if not catalog.count:
            raise UsageError(f"{source.path} names no audio ({'; '.join(source.notes()) or 'it is empty'})")
        notes = [f"{source.path} is read as {source.kind}: {source.how}", *source.notes()]
        if transcripts is not None and len(source.tables) > 1:
            notes.append(f"{transcripts.path} has two texts for each id: text and normalized_text")
        if transcripts is not None and catalog.keys is not None:
            unused = transcripts.num_unused(catalog.keys)
            notes += [f"{unused:,} of {len(transcripts):,} lines of {transcripts.path} match no audio"] * (unused > 0)
        units = catalog.units()
        inputs = self._inputs(source, catalog)
        return Plan(units, catalog.count, MakeContents(source, catalog), inputs, notes=notes, knows_seconds=False)

    def _transcripts(self, source: EntrySource) -> Table | None:
        options = self.options
        given = "--transcripts" if options.transcripts is not None else "--text-suffix"
        if "text" in source.tables and (options.transcripts is not None or options.text_suffix is not None):
            raise UsageError(f"the transcripts of {source.path} are in {source.tables['text'].path}; leave out {given}")
        if options.transcripts is None:
            return None
        tables = read_transcripts(options.transcripts, stem_of)
        source.tables.update(tables)
        return tables["text"]

    def _inputs(self, source: EntrySource, catalog: Catalog) -> list[InputFile]:
        """The source first: rejects are of it. The digest of the entries stands for its content."""
        inputs = [InputFile(source.path, catalog.sha256, None if not source.files else state_of(source.files[0]))]
        if source.files[:1] != (source.path,):
            inputs[0] = InputFile(source.path, catalog.sha256)
            empty = hashlib.sha256().hexdigest()  # their content is that of the entries
            inputs += [InputFile(path, empty, state_of(path)) for path in source.files]
        tables = [*source.tables.values(), *([source.recordings] if source.recordings else [])]
        by_path = {table.path: table for table in tables}
        return inputs + [InputFile(table.path, table.sha256, table.state) for table in by_path.values()]

    def settings(self, plan: MakePlan) -> dict[str, Any]:
        """The options, the format, and how the manifest names the base folder of the source."""
        source = plan.contents.source
        base = PathNames(self.options.out.parent, self.options.absolute_paths).name(f"{source.base}/")
        return settings_of(self.options) | {"--format": source.kind, "audio is named": f"{base}..."}

    def output_patterns(self, plan: MakePlan) -> Sequence[str]:
        """The manifest, which names the audio that commands have made."""
        return (glob.escape(self.options.out.name),)

    def files_of_records(self, plan: MakePlan) -> Iterator[str]:
        """Audio, the transcripts next to it, and what commands name.

        If a command names the folder of the audio that commands have made, all of that folder.
        """
        source, suffix = plan.contents.source, self.options.text_suffix
        made = self.options.out.with_name(audio_folder(self.options.out.name))
        for entry in chain.from_iterable(map(plan.contents.catalog.read, plan.units)):
            try:
                value = None if entry.reason else source.audio_of(entry)
            except RecordRejected:
                continue
            if value is None:
                continue
            words = words_of_command(value) if is_command(value) else [value]
            yield from (os.path.join(source.base, word) for word in words)
            if suffix is not None:
                yield os.path.splitext(os.path.join(source.base, value))[0] + suffix
            if is_command(value) and made.name in value and made.is_dir():
                yield from map(str, made.iterdir())

    def missing_sample(self, plan: MakePlan) -> str | None:
        """Looks for a few files that the source names; None where commands or archives hold the audio."""
        source, catalog = plan.contents.source, plan.contents.catalog
        if source.kind == "folder":  # they are there; a link may be broken, and its reject says so
            return None
        sample = [catalog.entry(number) for number in spread_over(catalog.count)]
        paths: list[str] = []
        for one in sample:
            with contextlib.suppress(RecordRejected):  # it will be a reject, with this reason
                paths += filter(None, [None if one.reason else source.audio_of(one)])
        if any(is_command(path) or in_archive(path) for path in paths):
            return None
        return explain_missing([(source.base, path) for path in paths], source.path)

    def check_done(self, done: Sequence[Slice], workspace: Workspace) -> None:
        """Refuse to continue if transcripts next to the audio have changed."""
        suffix = self.options.text_suffix
        if suffix is None or "text" in self.options.constants():
            return
        parts = [workspace.root / _PART.format(unit.id) for unit in done]
        check = partial(changed_transcript, folder=str(self.options.out.parent), suffix=suffix)
        for path in filter(None, map_in_order(check, parts, self._num_workers)):
            raise UsageError(
                f"the transcript {path} has changed since {self.options.out} was made of it. Choose another file, or "
                "give --overwrite to start again"
            )

    def process(self, plan: MakePlan, unit: Slice, writer: UnitWriter, advance: Advance) -> None:
        """Measure the files of a slice, and write their records."""
        contents, options = plan.contents, self.options
        source, catalog, ambiguous = contents.source, contents.catalog, contents.catalog.ambiguous
        recordings = Recordings(source, options, writer)
        fields = Fields(source, options, recordings)
        encode = msgspec.json.Encoder().encode
        lines: list[bytes] = []
        seconds, with_text = 0.0, 0
        done, done_seconds = 0, 0.0
        for number, entry in enumerate(catalog.read(unit), start=unit.first):
            record: dict[str, Any] = {}
            try:
                if entry.reason:
                    raise entry.rejected()
                if ambiguous is not None and ambiguous[number]:
                    raise fields.ambiguous(entry)
                record, duration = recordings.measure(entry)
                fields.add(record, entry)
                lines.append(encode(record))
            except RecordRejected as rejected:
                origin = Origin(source.path, entry.line or number + 1)
                writer.reject(_original(entry, record, recordings, encode), rejected, origin)
            else:
                seconds += duration
                with_text += "text" in record
            done += 1
            if done == _ADVANCED_AT_ONCE:
                advance(done, seconds - done_seconds)
                done, done_seconds = 0, seconds
        advance(done, seconds - done_seconds)
        part = writer.open_part(_PART.format(unit.id))
        if lines:
            part.write(b"\n".join(lines) + b"\n")
        writer.count(len(lines), seconds)
        writer.extra[_WITH_TEXT] += with_text

    def finish(self, plan: MakePlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the parts."""
        writer.join(self.options.out.name, (_PART.format(marker.unit) for marker in markers))
        details: dict[str, Any] = {"manifest": self.options.out}
        with_text = sum(marker.extra.get(_WITH_TEXT, 0) for marker in markers)
        gives_text = self.options.text_suffix is not None or "text" in plan.contents.source.tables
        if not with_text and not gives_text and any(marker.records_out for marker in markers):
            details["warning"] = _advice_on_texts(plan.contents)
        return details


def _advice_on_texts(contents: MakeContents) -> str:
    """How to find texts; of a table, the columns that have no known name."""
    if contents.source.kind in ("csv", "audiofolder"):
        entries = [contents.catalog.entry(number) for number in spread_over(contents.catalog.count)]
        left = dict.fromkeys(name for entry in entries for name in entry.fields or () if name not in NAMED_FIELDS)
        if left:
            return f"no record has a text: name its column with --text-column; left over are {', '.join(left)}"
    return "no record has a text: give --text-suffix or --transcripts if there are transcripts"


def _original(entry: SourceEntry, record: dict[str, Any], recordings: Recordings, encode: Any) -> bytes:
    """The record as far as it is known, for the list of rejects."""
    known: dict[str, Any] = {"audio_filepath": recordings.name(entry)} if entry.path else {}
    if entry.offset is not None:
        known |= {"offset": entry.offset} | ({"duration": entry.duration} if entry.duration else {})
    known |= record | (entry.fields or {})
    try:
        line: bytes = encode(known)
    except (UnicodeEncodeError, msgspec.MsgspecError):
        line = encode({name: encodable(str(value)) for name, value in known.items()})
    return line


def _keyed_by_path(entry: SourceEntry) -> SourceEntry:
    entry.key = os.path.splitext(entry.path)[0]
    return entry


def make_manifest(options: MakeManifest) -> Report:
    """Make a manifest of audio.

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest.

    Raises:
        UsageError: options that do not go together, or a source that cannot be read.

    Example:
        >>> import prepcli
        >>> report = prepcli.make_manifest("s01", "own.json", set=["speaker=s01"])
        >>> report.records_out, report.outputs["manifest"]
        (6, '/.../own.json')
    """
    engine = options.engine()
    options = replace(options, out=real_file(options.out))
    return run_command(MakeJob(options, engine.num_workers), FileWorkspace(options.out), options, engine)
