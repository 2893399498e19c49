"""prepare-texts: makes a record of each text, with the text that ASR writes and the text that TTS reads."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import Unpack

from prepcli.engine.run.options import JobArguments
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText
from prepcli.interface.printing import number_of
from prepcli.interface.shared_options import OutFile

if TYPE_CHECKING:
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.plan import Plan
    from prepcli.engine.state.workspace import Workspace
    from prepcli.manifest.line_slices import LineSlice, LineSlices

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_MAX_SPEAKERS = 1_000_000


@command("prepare-texts")
def prepare_texts(
    input: Annotated[
        Paths,
        Option(
            "Texts or NeMo manifest(s): a path, several separated by commas, or a brace pattern.",
            metavar="INPUT",
            several_paths=True,
            is_argument=True,
            shapes_output=False,
        ),
    ],
    out: OutFile,
    *,
    text_field: Annotated[str, Option("Field of a manifest with the text.")] = "text",
    tts_text_field: Annotated[
        str | None,
        Option(
            "Field of a manifest with the text that the TTS model reads. Without --normalize, a text of another field "
            "than tts_text is taken as normalized, such as that of normalized_text.",
            shown_default="tts_text_normalized or tts_text of records that have it, otherwise the text",
        ),
    ] = None,
    is_normalized: Annotated[bool, Option("The texts are normalized already (no digits, no abbreviations).")] = False,
    normalize: Annotated[
        str | None,
        Option("Normalize with nemo_text_processing, in this language: en, de, ...", metavar="LANG"),
    ] = None,
    whitelist: Annotated[
        PathText | None,
        Option("With --normalize: table of words and how they are read.", must_exist="file", needs="normalize"),
    ] = None,
    asr_text: Annotated[
        Literal["as-is", "lower", "plain"],
        Option("Change the ASR text: lower: lower case; plain: also without punctuation."),
    ] = "as-is",
    speakers: Annotated[str, Option("Numbers of speakers of the TTS model: 0-99 or 1,5,7-9.")] = "0",
    num_shards: Annotated[
        int | None,
        Option("Also write so many shards, OUT_shards/OUT_0.json, ..., for NeMo's type txt_jsonl.", minimum=1),
    ] = None,
    **more: Unpack[JobArguments],
) -> "Report":
    """Prepare texts for ASR training with synthetic audio (NeMo's TextToTextDataset).

    INPUT is a file of texts, one per line, or a NeMo manifest. Writes OUT.json with a record per text: text (what the
    ASR model learns to write) and tts_text_normalized or tts_text (what the TTS model reads), and OUT_speakers.txt with
    the numbers of the TTS model's speakers. tts_text and tts_text_normalized of a manifest are kept. NeMo normalizes
    tts_text each time it loads it: use --normalize, or --is-normalized for texts that are normalized already.

    Run the same command again to continue after an interruption.

    Example: prepcli prepare-texts books.txt texts.json --normalize en --speakers 0-99 --asr-text lower

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
    import glob
    import os

    import msgspec

    from prepcli.commands.prepare_texts.texts import (
        TTS_TEXT,
        Texts,
        check_installed,
        has_records,
        load_normalizer,
    )
    from prepcli.engine.publishing.publish import totals
    from prepcli.engine.run.function import OutputFile, run
    from prepcli.engine.state.plan import Plan, input_file
    from prepcli.formats.names import brace_text, check_loadable
    from prepcli.jobs.line_job import write_from_lines
    from prepcli.manifest.line_slices import slice_lines
    from prepcli.manifest.output_name import check_manifest_name
    from prepcli.manifest.sources import expand_paths
    from prepcli.planning.split import by_count

    output = OutputFile(out)
    paths = expand_paths(str(input), what="manifest or file of texts")
    numbers = _numbers(speakers)
    if is_normalized and normalize is not None:
        raise UsageError(
            f"give {option('--is-normalized')} or {option('--normalize')}, not both: normalized texts stay as they are"
        )
    check_manifest_name(output.path, "prepare-texts", "texts.json")
    check_installed(normalize)
    stem = os.path.splitext(output.name)[0]
    speakers_name = f"{stem}_speakers.txt"
    shards = f"{glob.escape(stem)}_shards/{glob.escape(stem)}_*.json"
    output.patterns = (*output.patterns, glob.escape(speakers_name), shards)
    texts, encode = Texts(text_field, tts_text_field, asr_text, is_normalized), msgspec.json.Encoder().encode
    are_records: list[bool] = []

    def plan(workspace: "Workspace") -> "Plan[LineSlice, LineSlices]":
        slices = slice_lines(paths, workspace.spool)
        if not slices.num_records:
            raise UsageError(f"no texts in {', '.join(paths)}: all lines are empty")
        are_records[:] = [has_records(path, tts_text_field) for path in paths]
        if num_shards is not None:
            check_loadable(output.path)
            if num_shards > slices.num_records:
                raise UsageError(
                    f"{option('--num-shards', num_shards)} for {number_of(slices.num_records, 'text')}: give fewer"
                )
        tables = [] if whitelist is None else [input_file(str(whitelist))]
        return Plan(slices.units, slices.num_records, slices, [*slices.inputs, *tables], knows_seconds=False)

    def shard_name(number: int | str) -> str:
        return f"{stem}_shards/{stem}_{number}.json"

    def prepare() -> None:
        if normalize is not None and texts.normalize is None:  # worker processes inherit the grammars
            texts.normalize = load_normalizer(normalize, whitelist)

    def write(slices: "LineSlices", unit: "LineSlice", writer: "UnitWriter") -> None:
        fields_of = texts.of_record if are_records[unit.source] else texts.of_text

        def make(line: bytes) -> tuple[bytes, float]:
            fields = fields_of(line)
            writer.extra[TTS_TEXT] += TTS_TEXT in fields
            return encode(fields), 0.0

        write_from_lines(slices, unit, writer, make)

    def join(made: "Plan[LineSlice, LineSlices]", markers: "Sequence[Marker]", writer: "UnitWriter") -> dict[str, Any]:
        writer.open(speakers_name).write(numbers)
        num_records = sum(marker.records_out for marker in markers)
        num_raw = round(totals(markers)[TTS_TEXT])
        is_mixed = 0 < num_raw < num_records
        details: dict[str, Any] = {
            "manifest_filepath": output.path,
            "speakers_filepath": output.path.with_name(speakers_name),
        }
        parts = _parts(markers, writer, is_mixed)
        if num_shards is not None:
            bounds = by_count(num_records, num_shards).tolist()
            parts = _divided(parts, bounds, writer, shard_name)
            details["paths"] = output.path.parent / shard_name(brace_text("0", str(len(bounds) - 2)))
        whole = writer.open(output.name)
        for part in parts:
            whole.write(part)
        if is_mixed:
            details["tts_text"] = (
                f"{num_raw:,} of {num_records:,} texts {'is' if num_raw == 1 else 'are'} not normalized, so NeMo "
                f"normalizes all of them each time it loads them, and all are called tts_text; {option('--normalize')} "
                "LANG normalizes these now"
            )
        return details

    return run(output, plan, write, join, prepare=prepare, reads_audio_files=False)


def _numbers(speakers: str) -> bytes:
    """The content of the file of speakers: the numbers that `--speakers` lists, one per line.

    Raises:
        UsageError: the value is not a list of numbers and ranges, such as 1,5,7-9.
    """
    numbers: list[int] = []
    for part in speakers.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first >= _MAX_SPEAKERS:
            raise UsageError(
                f"{option('--speakers')} takes numbers and ranges such as 0-99 or 1,5,7-9, not {speakers!r}"
            )
        numbers += range(first, last + 1)
    return "".join(f"{number}\n" for number in dict.fromkeys(numbers)).encode()


def _parts(markers: "Sequence[Marker]", writer: "UnitWriter", is_mixed: bool) -> Iterator[bytes]:
    """Yield the lines of each unit; with `is_mixed`, `tts_text_normalized` is renamed to `tts_text`.

    `is_mixed`: only some texts are normalized; NeMo expects the same field in all records.
    """
    from prepcli.jobs.line_job import LINES_NAME

    for marker in markers:
        lines = writer.part(LINES_NAME.format(marker.unit)).read_bytes()
        # Within a text, quotation marks are escaped, so the pattern cannot match there.
        yield lines.replace(b',"tts_text_normalized":', b',"tts_text":') if is_mixed else lines


def _divided(
    parts: Iterable[bytes], bounds: Sequence[int], writer: "UnitWriter", name: Callable[[int], str]
) -> Iterator[bytes]:
    """Write the lines of all parts to shards, and yield each part again.

    `bounds`: the number of the first record of each shard, and at the end the number of all records.
    """
    number, shard, done = 0, writer.open(name(0)), 0
    for part in parts:
        lines = part.splitlines(keepends=True)
        while lines:
            while done == bounds[number + 1]:
                shard.close()  # closed, because a process cannot have thousands of open files
                number += 1
                shard = writer.open(name(number))
            some = lines[: bounds[number + 1] - done]
            shard.write(b"".join(some))
            done += len(some)
            del lines[: len(some)]
        yield part
    for rest in range(number + 1, len(bounds) - 1):  # empty shards, if records are fewer than shards
        writer.open(name(rest)).close()
