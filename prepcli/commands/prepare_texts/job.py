"""prepare-texts: makes a record of each text, with the text that ASR writes and the text that TTS reads."""

import glob
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from prepcli.commands.prepare_texts.options import PrepareTexts
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.state.plan import Plan, input_file
from prepcli.engine.state.workspace import FileWorkspace, Workspace, real_file
from prepcli.errors import RecordRejected, RejectReason, UsageError, naming, option
from prepcli.formats.names import brace_text, check_loadable
from prepcli.interface.options import settings_of
from prepcli.jobs.line_job import LINES_NAME, LineContents, LineJob, SliceWriter
from prepcli.manifest.fields import decode_line, decode_value, parse_fields
from prepcli.manifest.foreign import check_is_json_lines, check_is_text
from prepcli.manifest.json_kinds import PAIRS
from prepcli.manifest.line_slices import LineSlice, slice_lines
from prepcli.manifest.sources import expand_paths, open_bytes
from prepcli.planning.split import by_count

Normalize = Callable[[str], str]


def check_installed() -> None:
    """Check that nemo_text_processing is installed, without importing it.

    Raises:
        UsageError: the package is not installed.
    """
    if importlib.util.find_spec("nemo_text_processing") is None:
        raise UsageError(
            f"{option('--normalize')} needs nemo_text_processing, which is not installed: pip install "
            f"nemo_text_processing (with pynini); or normalize elsewhere and give {option('--is-normalized')} or "
            f"{option('--tts-text-field')}"
        )


def load_normalizer(lang: str, whitelist: Path | None) -> Normalize:
    """Return a function that normalizes a text as NeMo's hybrid ASR-TTS training does.

    Raises:
        UsageError: the package is missing, or does not know the language.
    """
    check_installed()
    from nemo_text_processing.text_normalization.normalize import Normalizer

    try:
        normalizer = Normalizer(input_case="cased", lang=lang, whitelist=str(whitelist) if whitelist else None)
    except Exception as error:  # the grammars of each language raise different errors
        raise UsageError(
            f"{option('--normalize', lang)}: nemo_text_processing cannot load its grammars: {error}"
        ) from None
    return partial(normalizer.normalize, verbose=False, punct_pre_process=True, punct_post_process=True)


TTS_TEXT, TTS_TEXT_NORMALIZED = "tts_text", "tts_text_normalized"
_NOT_PLAIN = re.compile(r"[^\w\s']|_")


@dataclass(frozen=True, slots=True)
class TextsContents(LineContents):
    """The lines, and for each input file whether it is a manifest of records (True) or a file of texts (False)."""

    are_records: list[bool]


TextsPlan = Plan[LineSlice, TextsContents]


class TextsJob(LineJob[LineSlice, TextsContents]):
    """Writes a file of records, a file of speakers and, optionally, shards of the records.

    A unit is a slice of the input's lines.
    """

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
    def _stem(self) -> str:
        return os.path.splitext(self.options.out.name)[0]

    @property
    def speakers_name(self) -> str:
        """Name of the file of speakers."""
        return f"{self._stem}_speakers.txt"

    def shard_name(self, number: int | str) -> str:
        """Path of a shard, relative to the folder of the output."""
        return f"{self._stem}_shards/{self._stem}_{number}.json"

    def plan(self, workspace: Workspace) -> TextsPlan:
        """Cut the input files into units, and check that the options fit these files."""
        slices = slice_lines(self.paths, workspace.spool)
        if not slices.num_records:
            raise UsageError(f"no texts in {', '.join(self.paths)}: all lines are empty")
        are_records = [_begins_with_brace(path) for path in self.paths]
        for path, is_manifest in zip(self.paths, are_records, strict=True):
            check_is_json_lines(path, (PAIRS,)) if is_manifest else check_is_text(path)
        if self.options.tts_text_field is not None and not all(are_records):
            text = self.paths[are_records.index(False)]
            raise UsageError(f"{option('--tts-text-field')} is for manifests, and {text} is a file of texts")
        if self.options.num_shards is not None:
            check_loadable(self.options.out)
            if self.options.num_shards > slices.num_records:
                raise UsageError(
                    f"{option('--num-shards', self.options.num_shards)} for {slices.num_records} texts: give fewer"
                )
        tables = [input_file(str(path)) for path in (self.options.whitelist,) if path is not None]
        contents = TextsContents(slices, are_records)
        return Plan(slices.units, slices.num_records, contents, [*slices.inputs, *tables], knows_seconds=False)

    def settings(self, plan: TextsPlan) -> dict[str, Any]:
        """The options of the call."""
        return settings_of(self.options)

    def output_patterns(self, plan: TextsPlan) -> Sequence[str]:
        """Patterns for the files of records, of speakers and of shards."""
        stem = glob.escape(self._stem)
        return (glob.escape(self.options.out.name), glob.escape(self.speakers_name), f"{stem}_shards/{stem}_*.json")

    def prepare(self) -> None:
        """Load the grammars once; worker processes inherit them."""
        if self.options.normalize is not None and self._normalize is None:
            self._normalize = load_normalizer(self.options.normalize, self.options.whitelist)

    def open_unit(self, plan: TextsPlan, unit: LineSlice, writer: UnitWriter) -> "_Texts":
        """Return the object that makes the records of a slice."""
        return _Texts(plan, unit, writer, self)

    def of_text(self, line: bytes) -> dict[str, str]:
        """The fields for a line of text; raises `RecordRejected` if the line is empty, or not UTF-8."""
        text = decode_line(line).strip()
        return self._texts(text, text)

    def of_record(self, line: bytes) -> dict[str, str]:
        """The fields for a line of a manifest; raises `RecordRejected` if the line has no text."""
        fields = parse_fields(line)
        text, name = _text(fields, self.options.text_field), self.options.tts_text_field
        if name is not None:
            return self._texts(text, _text(fields, name), name != TTS_TEXT and self.options.normalize is None)
        there = [one for one in (TTS_TEXT_NORMALIZED, TTS_TEXT) if bytes(fields.get(one, b"null")) != b"null"]
        found = there[0] if there else None
        return self._texts(text, _text(fields, found) if found else text, found == TTS_TEXT_NORMALIZED)

    def _texts(self, text: str, tts_text: str, is_normalized: bool = False) -> dict[str, str]:
        """The fields of a record: the text that ASR learns to write, and the text that TTS reads.

        `is_normalized`: whether `tts_text` is normalized already. Raises `RecordRejected` if a text is empty.
        """
        asr = text
        if self.options.asr_text != "as-is":
            asr = asr.lower()
        if self.options.asr_text == "plain":
            asr = " ".join(_NOT_PLAIN.sub(" ", asr.replace("\u2019", "'")).split())
        if not asr:
            raise RecordRejected(RejectReason.EMPTY_TEXT, "there is no text to learn")
        if self._normalize is not None and not is_normalized:
            tts_text, is_normalized = self._normalize(tts_text), True
        if not tts_text.strip():
            raise RecordRejected(RejectReason.EMPTY_TEXT, "there is no text to read")
        return {"text": asr, TTS_TEXT_NORMALIZED if is_normalized or self.options.is_normalized else TTS_TEXT: tts_text}

    def finish(self, plan: TextsPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the parts of the units, divide the records into shards, and write the speakers."""
        out, speakers = self.options.out, self.options.speaker_numbers()
        writer.open(self.speakers_name).write("".join(f"{number}\n" for number in speakers).encode())
        num_records = sum(marker.records_out for marker in markers)
        num_raw = round(totals(markers)[TTS_TEXT])
        is_mixed = 0 < num_raw < num_records
        details: dict[str, Any] = {"manifest_filepath": out, "speakers_filepath": out.with_name(self.speakers_name)}
        parts = self._parts(markers, writer, is_mixed)
        if self.options.num_shards is not None:
            bounds = by_count(num_records, self.options.num_shards).tolist()
            parts = self._divided(parts, bounds, writer)
            details["paths"] = out.parent / self.shard_name(brace_text("0", str(len(bounds) - 2)))
        whole = writer.open(out.name)
        for part in parts:
            whole.write(part)
        if is_mixed:
            details["tts_text"] = (
                f"{num_raw:,} of {num_records:,} texts are not normalized, so NeMo normalizes all of them each time it "
                f"loads them, and all are called tts_text; {option('--normalize')} LANG normalizes these now"
            )
        return details

    def _parts(self, markers: Sequence[Marker], writer: UnitWriter, is_mixed: bool) -> Iterator[bytes]:
        """Yield the lines of each unit; with `is_mixed`, `tts_text_normalized` is renamed to `tts_text`.

        `is_mixed`: only some texts are normalized; NeMo expects the same field in all records.
        """
        for marker in markers:
            lines = writer.part(LINES_NAME.format(marker.unit)).read_bytes()
            # Within a text, quotation marks are escaped, so the pattern cannot match there.
            yield lines.replace(b',"tts_text_normalized":', b',"tts_text":') if is_mixed else lines

    def _divided(self, parts: Iterable[bytes], bounds: Sequence[int], writer: UnitWriter) -> Iterator[bytes]:
        """Write the lines of all parts to shards, and yield each part again.

        `bounds`: the number of the first record of each shard, and at the end the number of all records.
        """
        number, shard, done = 0, writer.open(self.shard_name(0)), 0
        for part in parts:
            lines = part.splitlines(keepends=True)
            while lines:
                while done == bounds[number + 1]:
                    shard.close()  # closed, because a process cannot have thousands of open files
                    number += 1
                    shard = writer.open(self.shard_name(number))
                some = lines[: bounds[number + 1] - done]
                shard.write(b"".join(some))
                done += len(some)
                del lines[: len(some)]
            yield part
        for rest in range(number + 1, len(bounds) - 1):  # empty shards, if records are fewer than shards
            writer.open(self.shard_name(rest)).close()


class _Texts(SliceWriter):
    """Makes the records of a slice."""

    def __init__(self, plan: TextsPlan, unit: LineSlice, writer: UnitWriter, job: TextsJob) -> None:
        super().__init__(plan, unit)
        self._fields_of = job.of_record if plan.contents.are_records[unit.source] else job.of_text
        self._writer = writer
        self._encode = msgspec.json.Encoder().encode

    def make(self, item: tuple[int, bytes]) -> tuple[bytes, float]:
        texts = self._fields_of(item[1])
        self._writer.extra[TTS_TEXT] += TTS_TEXT in texts
        return self._encode(texts), 0.0


def _text(fields: dict[str, msgspec.Raw], name: str) -> str:
    value = decode_value(fields[name]) if name in fields else None
    if value is None:
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {name}")
    if not isinstance(value, str):
        raise RecordRejected(RejectReason.BAD_FIELD, f"{name} must be text")
    return value.strip()


def _begins_with_brace(path: str) -> bool:
    """Whether the first line that is not empty begins like a JSON object."""
    with naming(path), open_bytes(path) as file:
        return file.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def prepare_texts(options: PrepareTexts) -> Report:
    """Prepare texts for ASR training with synthetic audio.

    Returns:
        The report of the run; `outputs` has `manifest_filepath` and `speakers_filepath`, as NeMo's config names them.

    Raises:
        UsageError: options that do not go together, a missing package, or an input that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.prepare_texts("manifest.json", "texts.json", is_normalized=True, speakers="0-9")
        >>> report.records_out, report.outputs["speakers_filepath"]
        (48, '/.../texts_speakers.txt')
    """
    engine = options.engine()
    options = replace(options, out=real_file(options.out))
    return run_job(TextsJob(expand_paths(options.input), options), FileWorkspace(options.out), engine)
