"""make-manifest: writes a manifest with the audio of a source."""

import contextlib
import glob
import hashlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from prepcli.audio.info import AudioInfo, unreadable
from prepcli.audio.limits import segment_samples
from prepcli.audio.probe import Probes, plain_wav_seconds, probe_bytes
from prepcli.commands.make_manifest.entries import Catalog, MatchBy, SourceEntry, encodable, write_catalog
from prepcli.commands.make_manifest.formats import TABLES, source_of
from prepcli.commands.make_manifest.kaldi import in_archive, is_command, words_of_command
from prepcli.commands.make_manifest.options import MakeManifest
from prepcli.commands.make_manifest.source import EntrySource, PathNames, stem_of
from prepcli.commands.make_manifest.tables import Table, read_transcripts
from prepcli.commands.make_manifest.transcripts import changed_transcript, missing_transcripts, read_text, transcript_of
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.workspace import FileWorkspace, Workspace, real_file
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.gate import RATE_FIELDS, ROUNDING, fit, note_on_moved, rate_changes
from prepcli.interface.options import settings_of
from prepcli.jobs.line_job import LINES_NAME, LineJob, LineWriter
from prepcli.manifest.line_slices import LineSlice
from prepcli.manifest.missing import explain_missing
from prepcli.processes.pools import map_in_order
from prepcli.storage.input_files import state_of
from prepcli.storage.one_name import OTHER_FORM, other_forms

_SAME_LENGTH = 1e-3
"""Maximum difference in seconds between the length of a file and the rounded length that lhotse has for it."""
_ODD = re.compile(r"[^\w.-]")


def audio_folder(manifest: str) -> str:
    """The folder for audio that comes from the commands in a source (`sox ... |`), next to the manifest.

    For the manifest `train.json` it is `train_audio`.
    """
    return f"{os.path.splitext(manifest)[0]}_audio"


class Recordings:
    """Finds and measures the audio of the entries of one unit. Consecutive entries of one file are measured once."""

    def __init__(self, source: EntrySource, options: MakeManifest, writer: UnitWriter) -> None:
        self._source = source
        self._options = options
        self._writer = writer
        self._names = PathNames(options.out.parent, options.absolute_paths)
        self._measure = Probes(1)
        self._last: tuple[str, AudioInfo, str] | None = None
        self._has_commands = source.has_commands
        self._base = source.base.rstrip("/") + "/"

    def measure(self, entry: SourceEntry) -> tuple[dict[str, Any], float]:
        """Return the fields `audio_filepath`, `duration` and, for a segment, `offset`; and the duration in seconds.

        Raises:
            RecordRejected: the audio is missing or unreadable, or does not contain the segment.
        """
        if entry.offset is None and not self._has_commands:
            path = self._base + entry.path if entry.path[:1] != "/" else entry.path
            seconds = plain_wav_seconds(path)
            if seconds is not None and _is_whole(entry, seconds):
                return {"audio_filepath": self._names.name(path), "duration": seconds}, seconds
        info, name = self._info_and_name(entry)
        if entry.offset is None and _is_whole(entry, info.duration):
            return {"audio_filepath": name, "duration": info.duration}, info.duration
        offset = entry.offset or 0.0
        start, length = segment_samples(info, offset, entry.duration or None, ROUNDING)
        duration = entry.duration
        if duration:
            rate = info.sampling_rate
            self._writer.extra[_MOVED] += fit(offset, duration, info.duration, "it", "its file", rate).moved
        if not duration or start + length == info.num_samples:
            duration = min(duration or info.duration, info.num_samples / info.sampling_rate - offset)
        return {"audio_filepath": name, "duration": duration, "offset": offset}, duration

    def sampling_rate(self, entry: SourceEntry) -> int:
        """The sampling rate (Hz) of the audio of an entry; raises as `measure`."""
        return self._info_and_name(entry)[0].sampling_rate

    def _info_and_name(self, entry: SourceEntry) -> tuple[AudioInfo, str]:
        if self._last is None or self._last[0] != entry.path:
            self._last = (entry.path, *self._probe(entry))
        return self._last[1:]

    def path(self, entry: SourceEntry) -> str:
        """The absolute path of the audio.

        Raises:
            RecordRejected: the source does not have the recording of a segment, or has it several times.
        """
        return os.path.join(self._source.base, self._value(entry))

    def _value(self, entry: SourceEntry) -> str:
        found = self._source.audio_of(entry)
        if found is None:
            raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no recording {entry.path} in wav.scp")
        return found

    def name(self, entry: SourceEntry) -> str:
        """The name of the audio in the manifest, even if the audio cannot be used."""
        try:
            path = self.path(entry)
        except RecordRejected:
            return entry.path
        return path if "\0" in path else self._names.name(path)

    def _probe(self, entry: SourceEntry) -> tuple[AudioInfo, str]:
        value = self._value(entry)
        path = os.path.join(self._source.base, value)
        if self._has_commands:
            if is_command(value):
                return self._run(entry, value)
            if (place := in_archive(value)) is not None:
                path = os.path.join(self._source.base, place)
        try:
            return self._measure(path), self._names.name(path)
        except RecordRejected as rejected:
            if rejected.reason is RejectReason.MISSING_AUDIO and self._source.hint and not os.path.isabs(entry.path):
                raise RecordRejected(rejected.reason, f"{rejected.detail}; {self._source.hint}") from None
            raise

    def _run(self, entry: SourceEntry, command: str) -> tuple[AudioInfo, str]:
        """Run a command of wav.scp or lhotse, and write the audio that it outputs to a file.

        Returns the header of the audio, and the name of the file in the manifest.
        """
        words = command.strip().removesuffix("|")
        recording = entry.path if self._source.recordings is not None else entry.key
        done = subprocess.run(
            words, shell=True, cwd=self._source.base, capture_output=True, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            last_line = ": ".join(done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:])
            unreadable(
                recording, f"cannot be made: `{words.strip()}` ended with {done.returncode} {last_line}".rstrip()
            )
        info = probe_bytes(done.stdout, recording)
        stem = _ODD.sub("_", recording)
        if stem != recording or len(stem) > 180:  # distinct names must stay distinct
            stem = f"{stem[:180]}-{hashlib.blake2b(recording.encode(), digest_size=6).hexdigest()}"
        name = f"{audio_folder(self._options.out.name)}/{stem}.{info.format}"
        self._writer.add(name, done.stdout)
        made = Path(self._options.out.parent, name)
        return info, str(made.absolute()) if self._options.absolute_paths else name


def _is_whole(entry: SourceEntry, seconds: float) -> bool:
    """Whether an entry without an offset is its whole file, which lasts `seconds`.

    It is if the entry has no duration, or the same duration as the file.
    """
    return not entry.duration or abs(seconds - entry.duration) < _SAME_LENGTH


NAMED_FIELDS = ("text", "speaker", "lang")
"""The fields that every format may have. In a record they follow the fields of the audio, in this order."""


_WITH_TEXT, _EMPTY_TEXT, _WITHOUT_RATE, _MOVED = "with_text", "empty_text", "without_rate", "moved"


@dataclass(frozen=True, slots=True)
class MakeContents:
    """The source, and the catalog of its entries."""

    source: EntrySource
    catalog: Catalog


MakePlan = Plan[LineSlice, MakeContents]


class MakeJob(LineJob[LineSlice, MakeContents]):
    """Writes one manifest. A unit is a slice of the source's entries."""

    command: ClassVar[str] = "make-manifest"

    def __init__(self, options: MakeManifest, num_workers: int = 1) -> None:
        """`options` are checked here; the source is checked by `plan`."""
        options.check()
        self.options = options
        self._num_workers = num_workers

    def plan(self, workspace: Workspace) -> MakePlan:
        """Read the source, and store its entries in a catalog."""
        options = self.options
        source = source_of(options, workspace.root)
        transcripts = self._transcripts(source)
        catalog = self._catalog(source, transcripts, workspace.root)
        slices = catalog.slices
        if not slices.num_records:
            raise UsageError(f"{source.path} names no audio ({'; '.join(source.notes()) or 'it is empty'})")
        notes = [f"{source.path} is read as {source.kind}: {source.how}", *source.notes()]
        if transcripts is not None and "normalized_text" in source.tables:
            notes.append(f"{transcripts.path} has two texts for each id: text and normalized_text")
        if (keys := catalog.keys) is not None:
            by_path = {table.path: table for table in source.tables.values()}
            unused = ((table, table.num_unused(keys)) for table in by_path.values())
            notes += [f"{num:,} of {len(table):,} lines of {table.path} match no audio" for table, num in unused if num]
        inputs, contents = self._inputs(source, slices.inputs[0].sha256), MakeContents(source, catalog)
        return Plan(slices.units, slices.num_records, contents, inputs, notes=notes, knows_seconds=False)

    def _catalog(self, source: EntrySource, transcripts: Table | None, folder: Path) -> Catalog:
        """Store the entries of the source, and find those whose id is repeated or whose transcript is ambiguous."""
        entries = source.entries()
        match_by: MatchBy | None = None
        if transcripts is not None:
            entries = _with_keys(entries)
            match_by = None if source.has_ids else "key"
        elif self.options.text_suffix is not None and not source.has_commands:
            match_by = "path"  # two files `a/x.wav` and `a/x.flac` make a transcript next to them ambiguous
        return write_catalog(
            entries,
            folder,
            with_keys=source.has_ids or transcripts is not None,
            match_by=match_by,
            ids_of=os.path.basename(source.files[0]) if source.has_ids else None,
        )

    def _transcripts(self, source: EntrySource) -> Table | None:
        options = self.options
        given = option("--transcripts" if options.transcripts is not None else "--text-suffix")
        if "text" in source.tables and (options.transcripts is not None or options.text_suffix is not None):
            raise UsageError(f"the transcripts of {source.path} are in {source.tables['text'].path}; leave out {given}")
        if options.transcripts is None:
            return None
        tables = read_transcripts(options.transcripts, stem_of, options.columns)
        source.tables.update(tables)
        return tables["text"]

    def _inputs(self, source: EntrySource, sha256: str) -> list[InputFile]:
        """The input files; the source comes first, since rejects refer to it.

        `sha256`: the digest of all entries, which shows whether the content of the source has changed.
        """
        is_file = source.files[:1] == (source.path,)
        inputs = [InputFile(source.path, sha256, state_of(source.path) if is_file else None)]
        empty = hashlib.sha256().hexdigest()  # the digest of the entries stands for their content
        inputs += [InputFile(path, empty, state_of(path)) for path in source.files[is_file:]]
        tables = [*source.tables.values(), *([source.recordings] if source.recordings else [])]
        by_path = {table.path: table for table in tables}
        return inputs + [InputFile(table.path, table.sha256, table.state) for table in by_path.values()]

    def settings(self, plan: MakePlan) -> dict[str, Any]:
        """The options, the format of the source, and its base folder as names in the manifest begin with it."""
        source = plan.contents.source
        base = PathNames(self.options.out.parent, self.options.absolute_paths).name(f"{source.base}/")
        return settings_of(self.options) | {"--format": source.kind, "audio is named": f"{base}..."}

    def output_patterns(self, plan: MakePlan) -> Sequence[str]:
        """A pattern for the name of the manifest. Audio made by commands needs no pattern: the manifest names it."""
        return (glob.escape(self.options.out.name),)

    def files_of_records(self, plan: MakePlan) -> Iterator[str]:
        """Yield the audio files, the transcripts next to them, and the words of commands, which may be paths of files.

        If a command contains the name of the output's `audio_folder`, also yield all files in this folder.
        """
        source, suffix = plan.contents.source, self.options.text_suffix
        made = self.options.out.with_name(audio_folder(self.options.out.name))
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

    def missing_sample(self, plan: MakePlan) -> str | None:
        """A message if all files of a sample of entries are missing, else None.

        The files are the audio, or the transcripts next to the audio if the source is a folder. If commands or archives
        have the audio, nothing is checked.
        """
        source = plan.contents.source
        if source.kind == "folder":  # the walk found them; a broken link is rejected later
            suffix = self.options.text_suffix
            audio = (os.path.join(source.base, one.path) for one in plan.contents.catalog.sample())
            return missing_transcripts(list(audio), suffix) if suffix is not None else None
        paths: list[str] = []
        for one in plan.contents.catalog.sample():
            with contextlib.suppress(RecordRejected):  # the entry is rejected later, with this reason
                paths += filter(None, [None if one.reason else source.audio_of(one)])
        if any(is_command(path) or ".ark:" in path for path in paths):
            return None
        return explain_missing(
            [(source.base, path) for path in paths], source.path, source.path, file=next(iter(source.files), "")
        )

    def check_done(self, done: Sequence[LineSlice], workspace: Workspace) -> None:
        """Raise `UsageError` if a transcript next to the audio has changed since its record was written."""
        suffix = self.options.text_suffix
        if suffix is None:
            return
        parts = [workspace.part_file(unit.id, LINES_NAME.format(unit.id)) for unit in done]
        check = partial(changed_transcript, folder=str(self.options.out.parent), suffix=suffix)
        for path in filter(None, map_in_order(check, parts, self._num_workers)):
            raise UsageError(
                f"the transcript {path} has changed since {self.options.out} was made of it. Choose another file, or "
                f"give {option('--overwrite')} to start again"
            )

    def open_unit(self, plan: MakePlan, unit: LineSlice, writer: UnitWriter) -> "_Entries":
        """Return the object that measures the files of a slice, and makes their records."""
        return _Entries(plan.contents, unit, writer, self.options)

    def finish(self, plan: MakePlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the lines of all units to one manifest; returns its path, and notes on missing and empty texts."""
        writer.join(self.options.out.name, (LINES_NAME.format(marker.unit) for marker in markers))
        details: dict[str, Any] = {"manifest": self.options.out}
        with_text = totals(markers)[_WITH_TEXT]
        gives_text = self.options.text_suffix is not None or "text" in plan.contents.source.tables
        if not with_text and not gives_text and any(marker.records_out for marker in markers):
            details["warning"] = _advice_on_texts(plan.contents)
        if num_empty := totals(markers)[_EMPTY_TEXT]:
            details[_EMPTY_TEXT] = f"transcripts without a word: {num_empty:,}"
        if num_segments := totals(markers)[_WITHOUT_RATE]:
            details[_WITHOUT_RATE] = (
                f"{' and '.join(RATE_FIELDS)} are left out of {num_segments:,} segments: NeMo does not load a line "
                "of a plain manifest that has them and an offset"
            )
        if num_moved := int(totals(markers)[_MOVED]):
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


class _Entries(LineWriter[tuple[int, SourceEntry]]):
    """Makes the manifest lines for a slice of the catalog, the file with the entries that were found in the source."""

    def __init__(self, contents: MakeContents, unit: LineSlice, writer: UnitWriter, options: MakeManifest) -> None:
        self.items = contents.catalog.read(unit)
        self._source, self._writer = contents.source, writer
        self._ambiguous, self._repeated = contents.catalog.ambiguous, contents.catalog.repeated
        self._recordings = Recordings(contents.source, options, writer)
        self._constants, self._pattern, self._suffix = options.constants(), options.pattern(), options.text_suffix
        decided = {*self._constants, *(["speaker"] if self._pattern else [])}
        self._tables = {name: table for name, table in contents.source.tables.items() if name not in decided}
        self._adds_nothing = not (self._tables or self._suffix or self._pattern or self._constants)
        self._encode = msgspec.json.Encoder().encode
        self._record: dict[str, Any] = {}
        self._with_text = 0

    def make(self, item: tuple[int, SourceEntry]) -> tuple[bytes, float]:
        number, entry = item
        self._record = {}
        if entry.reason:
            raise RecordRejected(RejectReason(entry.reason), entry.detail)
        if number in self._repeated:
            raise RecordRejected(RejectReason.BAD_FIELD, self._repeated[number])
        if self._ambiguous is not None and self._ambiguous[number]:
            name = os.path.splitext(entry.path)[0] if self._suffix is not None else entry.key
            raise RecordRejected(
                RejectReason.BAD_FIELD,
                f"several records are called {name}, so it cannot be told whose text or speaker is meant; give "
                "them different names, or a CSV of paths and texts as SOURCE",
            )
        record, duration = self._recordings.measure(entry)
        self._record = record
        self._add_fields(record, entry)
        line = self._encode(record)
        self._with_text += "text" in record
        self._writer.extra[_EMPTY_TEXT] += record.get("text") == ""
        return line, duration

    def close(self) -> None:
        self._writer.extra[_WITH_TEXT] = self._with_text

    def _add_fields(self, record: dict[str, Any], entry: SourceEntry) -> None:
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
            fields["text"] = read_text(transcript_of(self._recordings.path(entry), self._suffix))
        if self._pattern is not None:
            fields["speaker"] = self._speaker(entry)
        fields |= self._constants
        if rates := [name for name in RATE_FIELDS if name in fields]:
            if "offset" in record:
                for name in rates:
                    del fields[name]
                self._writer.extra[_WITHOUT_RATE] += 1
            else:
                fields |= rate_changes(fields, self._recordings.sampling_rate(entry))
        for name in NAMED_FIELDS:
            if name in fields:
                record[name] = fields.pop(name)
        for name, value in fields.items():
            record.setdefault(name, value)

    def _speaker(self, entry: SourceEntry) -> str:
        path = self._recordings.path(entry)
        path = path.removeprefix(self._source.base.rstrip("/") + "/")
        assert self._pattern is not None
        found = self._pattern.search(path)
        if found is None:
            raise RecordRejected(RejectReason.BAD_SPEAKER, f"--speaker-pattern finds no speaker in {path}")
        return "_".join(group for group in found.groups() if group) or found.group()

    def original(self, item: tuple[int, SourceEntry]) -> tuple[bytes, Origin]:
        """The line of a rejected entry for the rejects: a JSON object with its known fields; and its `Origin`."""
        number, entry = item
        known: dict[str, Any] = {"audio_filepath": self._recordings.name(entry)} if entry.path else {}
        if entry.offset is not None:
            known |= {"offset": entry.offset} | ({"duration": entry.duration} if entry.duration else {})
        known |= self._record | (entry.fields or {})
        try:
            line = self._encode(known)
        except (UnicodeEncodeError, msgspec.MsgspecError):
            line = self._encode({name: encodable(str(value)) for name, value in known.items()})
        return line, Origin(self._source.path, entry.line or number + 1)


def _with_keys(entries: Iterator[SourceEntry]) -> Iterator[SourceEntry]:
    """Yield the entries, each with a key: its own, or the stem of its file."""
    for entry in entries:
        entry.key = entry.key or stem_of(entry.path)
        yield entry


def make_manifest(options: MakeManifest) -> Report:
    """Make a manifest of audio.

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest.

    Raises:
        UsageError: options that do not go together, or a source that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.make_manifest("s01", "own.json", set=["speaker=s01"])
        >>> report.records_out, report.outputs["manifest"]
        (6, '/.../own.json')
    """
    engine = options.engine()
    options = replace(options, out=real_file(options.out))
    return run_job(MakeJob(options, engine.num_workers), FileWorkspace(options.out), engine)
