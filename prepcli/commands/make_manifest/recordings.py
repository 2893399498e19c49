"""Finds and measures the audio of the entries of a source, and makes their records."""

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from prepcli.audio.info import AudioInfo, unreadable
from prepcli.audio.limits import segment_samples
from prepcli.audio.probe import Probes, plain_wav_seconds, probe_bytes
from prepcli.commands.make_manifest.entries import Catalog, SourceEntry, encodable
from prepcli.commands.make_manifest.kaldi import in_archive, is_command
from prepcli.commands.make_manifest.settings import MakeSettings
from prepcli.commands.make_manifest.source import EntrySource, PathNames
from prepcli.commands.make_manifest.transcripts import read_text, transcript_of
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.publishing.rejects import Origin
from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import RATE_FIELDS, ROUNDING, fit, rate_changes
from prepcli.manifest.fields import AUDIO_FIELDS
from prepcli.storage.addresses import is_address
from prepcli.storage.unicode_forms import OTHER_FORM, other_forms

_SAME_LENGTH = 1e-3
"""Maximum difference in seconds between the length of a file and the rounded length that lhotse has for it."""
_TABLES = ("csv", "filelist", "jsonl")
"""Formats whose further columns become fields, and name files as the column of audio does."""
_ODD = re.compile(r"[^\w.-]")
NAMED_FIELDS = ("text", "speaker", "lang")
"""The fields that every format may have. In a record they follow the fields of the audio, in this order."""
WITH_TEXT, EMPTY_TEXT, WITHOUT_RATE, MOVED = "with_text", "empty_text", "without_rate", "moved"
"""Keys of the counts of a unit."""


def audio_folder(manifest: str) -> str:
    """The folder for audio that comes from the commands in a source (`sox ... |`), next to the manifest.

    For the manifest `train.json` it is `train_audio`.
    """
    return f"{os.path.splitext(manifest)[0]}_audio"


class Recordings:
    """Finds and measures the audio of the entries of one unit. Consecutive entries of one file are measured once."""

    def __init__(self, source: EntrySource, asked: MakeSettings, writer: UnitWriter) -> None:
        self._source = source
        self._asked = asked
        self._writer = writer
        self._names = PathNames(asked.out.parent, asked.absolute_paths)
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
            self._writer.extra[MOVED] += fit(offset, duration, info.duration, "it", "its file", rate).moved
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
        path = self._source.audio_of(entry)
        if path is None:
            raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no recording {entry.path} in wav.scp")
        return path

    def name(self, entry: SourceEntry) -> str:
        """The name of the audio in the manifest, even if the audio cannot be used."""
        try:
            path = self.path(entry)
        except RecordRejected:
            return entry.path
        return path if "\0" in path else self._names.name(path)

    def with_names(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of an entry; those of a table that name other audio name the same file from the manifest's folder.

        Like the audio itself, it is named from the folder of the source.
        """
        changed = dict(fields)
        if self._source.kind in _TABLES:
            for name in AUDIO_FIELDS:
                path = changed.get(name)
                if isinstance(path, str) and path and "\0" not in path and not is_address(path):
                    changed[name] = self._names.name(os.path.join(self._source.base, path))
        return changed

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
        name = f"{audio_folder(self._asked.out.name)}/{stem}.{info.format}"
        self._writer.add(name, done.stdout)
        made = Path(self._asked.out.parent, name)
        return info, str(made.absolute()) if self._asked.absolute_paths else name


def _is_whole(entry: SourceEntry, seconds: float) -> bool:
    """Whether an entry without an offset is its whole file, which lasts `seconds`.

    It is if the entry has no duration, or the same duration as the file.
    """
    return not entry.duration or abs(seconds - entry.duration) < _SAME_LENGTH


class EntryRecords:
    """Makes the lines of the manifest for the entries of a unit."""

    def __init__(self, source: EntrySource, catalog: Catalog, writer: UnitWriter, asked: MakeSettings) -> None:
        self._source, self._writer = source, writer
        self._ambiguous, self._repeated = catalog.ambiguous, catalog.repeated
        self._recordings = Recordings(source, asked, writer)
        self._constants, self._pattern, self._suffix = asked.constants, asked.pattern, asked.text_suffix
        decided = {*self._constants, *(["speaker"] if self._pattern else [])}
        self._tables = {name: table for name, table in source.tables.items() if name not in decided}
        self._adds_nothing = not (self._tables or self._suffix or self._pattern or self._constants)
        self._encode = msgspec.json.Encoder().encode
        self._record: dict[str, Any] = {}

    def make(self, item: tuple[int, SourceEntry]) -> tuple[bytes, float]:
        """The line of an entry, which comes with its number in the catalog, and its seconds of audio.

        Raises:
            RecordRejected: the entry has no usable audio or text, or another one has its name.
        """
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
        self._writer.extra[WITH_TEXT] += "text" in record
        self._writer.extra[EMPTY_TEXT] += record.get("text") == ""
        return line, duration

    def _add_fields(self, record: dict[str, Any], entry: SourceEntry) -> None:
        """Add the fields of an entry to its record.

        Raises:
            RecordRejected: a transcript or a speaker is missing, or ambiguous.
        """
        if self._adds_nothing and not entry.fields:
            return
        fields = self._recordings.with_names(entry.fields) if entry.fields else {}
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
                self._writer.extra[WITHOUT_RATE] += 1
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
        match = self._pattern.search(path)
        if match is None:
            raise RecordRejected(RejectReason.BAD_SPEAKER, f"--speaker-pattern finds no speaker in {path}")
        return "_".join(group for group in match.groups() if group) or match.group()

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
