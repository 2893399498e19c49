"""prepare-texts: each text becomes a record with what ASR writes and what TTS reads."""

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from prepcli.engine.job import Advance
from prepcli.engine.plan import Plan
from prepcli.engine.publish import Marker, UnitWriter
from prepcli.engine.rejects import Origin
from prepcli.engine.workers import UnitJob
from prepcli.engine.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.interface.options import settings_of
from prepcli.manifest.fields import decode_value, parse_fields
from prepcli.manifest.foreign import check_is_json_lines, check_is_text
from prepcli.manifest.line_slices import LineSlice, LineSlices, slice_lines
from prepcli.manifest.sources import open_bytes
from prepcli.texts.normalizing import Normalize, check_installed, load_normalizer
from prepcli.texts.options import PrepareTexts

_NOT_PLAIN = re.compile(r"[^\w\s']|_")


@dataclass(frozen=True, slots=True)
class Contents:
    """The lines, and for each file whether they are records."""

    slices: LineSlices
    are_records: list[bool]


TextsPlan = Plan[LineSlice, Contents]


class TextsJob(UnitJob[LineSlice, Contents]):
    """Writes one file of records and one of speakers. A unit is a slice of the input's lines."""

    command: ClassVar[str] = "prepare-texts"
    reads_audio_files = False

    def __init__(self, paths: Sequence[str], options: PrepareTexts) -> None:
        """`paths` are the files that `options.input` names."""
        options.check()
        if options.normalize is not None:
            check_installed()
        self.paths = paths
        self.options = options
        self._normalize: Normalize | None = None

    @property
    def speakers_name(self) -> str:
        """Name of the file of speakers."""
        return f"{os.path.splitext(self.options.out.name)[0]}_speakers.txt"

    def plan(self, workspace: Workspace) -> TextsPlan:
        """Cut the files into units."""
        slices = slice_lines(self.paths, workspace.spool)
        if not slices.num_records:
            raise UsageError(f"no texts in {', '.join(self.paths)}: all lines are empty")
        are_records = [_begins_with_brace(path) for path in self.paths]
        for path, is_manifest in zip(self.paths, are_records, strict=True):
            (check_is_json_lines if is_manifest else check_is_text)(path)
        if self.options.tts_text_field is not None and not all(are_records):
            text = self.paths[are_records.index(False)]
            raise UsageError(f"--tts-text-field is for manifests, and {text} is a file of texts")
        return Plan(slices.units, slices.num_records, Contents(slices, are_records), slices.inputs)

    def settings(self, plan: TextsPlan) -> dict[str, Any]:
        """The options."""
        return settings_of(self.options)

    def output_patterns(self, plan: TextsPlan) -> Sequence[str]:
        """The records and the speakers."""
        return (glob.escape(self.options.out.name), glob.escape(self.speakers_name))

    def prepare(self) -> None:
        """Load the grammars once; worker processes inherit them."""
        if self.options.normalize is not None and self._normalize is None:
            self._normalize = load_normalizer(self.options.normalize, self.options.whitelist)

    def process(self, plan: TextsPlan, unit: LineSlice, writer: UnitWriter, advance: Advance) -> None:
        """Write the records of a slice."""
        is_record, source = plan.contents.are_records[unit.source], plan.inputs[unit.source].path
        encode = msgspec.json.Encoder().encode
        lines: list[bytes] = []
        for number, line in plan.contents.slices.lines(unit):
            try:
                texts = self._of_record(line) if is_record else self._of_text(line)
            except RecordRejected as rejected:
                writer.reject(line, rejected, Origin(source, number))
            else:
                lines.append(encode(texts))
            advance(1, 0.0)
        part = writer.open_part(f"parts/{unit.id}.jsonl")
        if lines:
            part.write(b"\n".join(lines) + b"\n")
        writer.count(len(lines), 0.0)

    def _of_text(self, line: bytes) -> dict[str, str]:
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            detail = f"byte 0x{line[error.start]:02x} at position {error.start} is not UTF-8"
            raise RecordRejected(RejectReason.NOT_UTF8, detail) from None
        return self._texts(text, None)

    def _of_record(self, line: bytes) -> dict[str, str]:
        fields = parse_fields(line)
        names = (self.options.text_field, self.options.tts_text_field)
        text, normalized = (_text(fields, name) if name is not None else None for name in names)
        return self._texts(text or "", normalized)

    def _texts(self, text: str, normalized: str | None) -> dict[str, str]:
        """The fields of a record; all records have the same ones, or NeMo normalizes all texts again."""
        asr = text
        if self.options.asr_text != "as-is":
            asr = asr.lower()
        if self.options.asr_text == "plain":
            asr = " ".join(_NOT_PLAIN.sub(" ", asr.replace("\u2019", "'")).split())
        if not asr:
            raise RecordRejected(RejectReason.EMPTY_TEXT, "there is no text to learn")
        if self._normalize is not None:
            normalized = self._normalize(text)
        elif self.options.is_normalized:
            normalized = text
        if normalized is None:
            return {"text": asr, "tts_text": text}
        if not normalized.strip():
            raise RecordRejected(RejectReason.EMPTY_TEXT, "there is no text to read")
        return {"text": asr, "tts_text_normalized": normalized}

    def finish(self, plan: TextsPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the parts, and write the speakers."""
        speakers = self.options.speaker_numbers()
        writer.open(self.speakers_name).write("".join(f"{number}\n" for number in speakers).encode())
        writer.join(self.options.out.name, (f"parts/{marker.unit}.jsonl" for marker in markers))
        out = self.options.out
        return {"manifest_filepath": out, "speakers_filepath": out.with_name(self.speakers_name)}


def _text(fields: dict[str, msgspec.Raw], name: str) -> str:
    value = decode_value(fields[name]) if name in fields else None
    if value is None:
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {name}")
    if not isinstance(value, str):
        raise RecordRejected(RejectReason.BAD_FIELD, f"{name} must be text")
    return value.strip()


def _begins_with_brace(path: str) -> bool:
    """Whether the first line that is not empty begins as a JSON object does."""
    with open_bytes(path) as file:
        return file.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
