"""make-manifest: the audio that a source names becomes the records of a manifest."""

import contextlib
import glob
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from prepcli.engine.job import Advance
from prepcli.engine.plan import InputFile, Plan
from prepcli.engine.publish import Marker, UnitWriter
from prepcli.engine.rejects import Origin
from prepcli.engine.workers import UnitJob
from prepcli.engine.workspace import Workspace
from prepcli.errors import RecordRejected, UsageError
from prepcli.interface.options import settings_of
from prepcli.making.entries import Catalog, Entry, Slice, encodable, write_catalog
from prepcli.making.formats import open_source, with_stems
from prepcli.making.kaldi import in_archive, is_command
from prepcli.making.options import MakeManifest
from prepcli.making.paths import PathNames
from prepcli.making.recording import Recordings, audio_folder
from prepcli.making.source import Source, stem_of
from prepcli.making.tables import Split, Table, read_table
from prepcli.making.texts import Fields
from prepcli.manifest.missing import explain_missing, spread_over
from prepcli.storage.input_files import state_of

_WITH_TEXT = "with_text"
_ADVANCED_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Contents:
    """The source, and the catalog of its entries."""

    source: Source
    catalog: Catalog


MakePlan = Plan[Slice, Contents]


class MakeJob(UnitJob[Slice, Contents]):
    """Writes one manifest. A unit is a slice of the source's entries."""

    command: ClassVar[str] = "make-manifest"

    def __init__(self, options: MakeManifest) -> None:
        """`options` are checked here, the source when it is planned."""
        options.check()
        self.options = options

    def plan(self, workspace: Workspace) -> MakePlan:
        """List the source's entries."""
        options = self.options
        source = open_source(options)
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
        if transcripts is not None and catalog.keys is not None:
            unused = transcripts.num_unused(catalog.keys)
            notes += [f"{unused:,} of {len(transcripts):,} lines of {transcripts.path} match no audio"] * (unused > 0)
        units = catalog.units()
        return Plan(units, catalog.count, Contents(source, catalog), self._inputs(source, catalog), notes=notes)

    def _transcripts(self, source: Source) -> Table | None:
        options = self.options
        given = "--transcripts" if options.transcripts is not None else "--text-suffix"
        if "text" in source.tables and (options.transcripts is not None or options.text_suffix is not None):
            raise UsageError(f"the transcripts of {source.path} are in {source.tables['text'].path}; leave out {given}")
        if options.transcripts is None:
            return None
        plain = read_table(options.transcripts, "transcripts")
        table = read_table(options.transcripts, "transcripts", _by_stem(plain.split))
        source.tables["text"] = table
        return table

    def _inputs(self, source: Source, catalog: Catalog) -> list[InputFile]:
        """The source first: rejects are of it. The digest of the entries stands for its content."""
        inputs = [InputFile(source.path, catalog.sha256, None if not source.files else state_of(source.files[0]))]
        if source.files[:1] != (source.path,):
            inputs[0] = InputFile(source.path, catalog.sha256)
            empty = hashlib.sha256().hexdigest()  # their content is that of the entries
            inputs += [InputFile(path, empty, state_of(path)) for path in source.files]
        tables = [*source.tables.values(), *([source.recordings] if source.recordings else [])]
        return inputs + [InputFile(table.path, table.sha256, table.state) for table in tables]

    def settings(self, plan: MakePlan) -> dict[str, Any]:
        """The options, the format, and how the manifest names the base folder of the source."""
        source = plan.contents.source
        base = PathNames(self.options.out.parent, self.options.absolute_paths).name(f"{source.base}/")
        return settings_of(self.options) | {"--format": source.kind, "audio is named": f"{base}..."}

    def output_patterns(self, plan: MakePlan) -> Sequence[str]:
        """The manifest, and the audio that commands have made."""
        name = glob.escape(self.options.out.name)
        made = f"{glob.escape(audio_folder(self.options.out.name))}/*"
        return (name, made) if self.options.run_commands else (name,)

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
        part = writer.open_part(f"parts/{unit.id}.jsonl")
        if lines:
            part.write(b"\n".join(lines) + b"\n")
        writer.count(len(lines), seconds)
        writer.extra[_WITH_TEXT] += with_text

    def finish(self, plan: MakePlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the parts."""
        writer.join(self.options.out.name, (f"parts/{marker.unit}.jsonl" for marker in markers))
        details: dict[str, Any] = {"manifest": self.options.out}
        with_text = sum(marker.extra.get(_WITH_TEXT, 0) for marker in markers)
        gives_text = self.options.text_suffix is not None or "text" in plan.contents.source.tables
        if not with_text and not gives_text and any(marker.records_out for marker in markers):
            details["warning"] = "no record has a text: give --text-suffix or --transcripts if there are transcripts"
        return details


def _original(entry: Entry, record: dict[str, Any], recordings: Recordings, encode: Any) -> bytes:
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


def _keyed_by_path(entry: Entry) -> Entry:
    entry.key = os.path.splitext(entry.path)[0]
    return entry


def _by_stem(split: Split) -> Split:
    def split_by_stem(line: str) -> tuple[str, str]:
        key, value = split(line)
        return stem_of(key), value

    return split_by_stem
