"""The fields of a record beside its audio: transcripts, speakers, constants, and what the source says."""

import os
from pathlib import Path
from typing import Any

import msgspec

from prepcli.audio.opening import open_source
from prepcli.audio.source import refuse
from prepcli.commands.make_manifest.entries import Entry
from prepcli.commands.make_manifest.options import MakeManifest
from prepcli.commands.make_manifest.recording import Recordings
from prepcli.commands.make_manifest.source import Source
from prepcli.errors import RecordRejected, RejectReason
from prepcli.storage.one_name import OTHER_FORM, other_forms

NAMED_FIELDS = ("text", "speaker", "lang")
"""The fields that every format may give, in the order in which they follow the audio's."""


class Fields:
    """Adds fields to the records of one unit."""

    def __init__(self, source: Source, options: MakeManifest, recordings: Recordings) -> None:
        self._tables = source.tables
        self._suffix = options.text_suffix
        self._base = source.base
        self._pattern = options.pattern()
        self._constants = options.constants()
        self._recordings = recordings
        self._adds_nothing = not (source.tables or self._suffix or self._pattern or self._constants)

    def add(self, record: dict[str, Any], entry: Entry) -> None:
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

    def ambiguous(self, entry: Entry) -> RecordRejected:
        """Why a record is rejected whose key another one has as well."""
        detail = f"several records are called {entry.key}, so it cannot be told whose text or speaker is meant"
        return RecordRejected(RejectReason.BAD_FIELD, detail)

    def _speaker(self, entry: Entry) -> str:
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
