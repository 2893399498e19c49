"""score: measures the audio and the text of records, and writes the records with the results."""

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Unpack

from prepcli.engine.run.options import RecordArguments
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option
from prepcli.interface.shared_options import Channel, Manifests, OutFile

if TYPE_CHECKING:
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.plan import Plan
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordContents, RecordUnit
    from prepcli.manifest.record import Value

FIELDS = {
    "basic": (
        *("bandwidth", "loudness", "peak_db", "dc", "clipped", "snr", "silence_share", "silence_start", "silence_end"),
        *("equal_channels", "char_rate", "word_rate", "unique_words", "longest_word"),
    ),
    "bandwidth_sdp": ("bandwidth_sdp",),
    "speech": ("speech_share", "speech_start", "speech_end", "speech_segments", "longest_pause"),
    "text": ("text_lang", "text_lang_probability"),
}
"""The fields of each group, in the order of the documentation."""
GROUPS = tuple(FIELDS)
_UNIT_SECONDS, _UNIT_RECORDS = 3600.0, 250
"""Size of a unit in seconds of audio, and in records of mean duration; the smaller size counts.

Measuring a unit takes a few seconds."""
_PACKAGES = {
    "basic": ("scipy", "pyloudnorm"),
    "bandwidth_sdp": ("scipy",),
    "speech": ("onnxruntime", "silero_vad"),
    "text": ("py3langid",),
}


@command("score")
def score(
    manifest: Manifests,
    out: OutFile,
    *,
    fields: Annotated[
        str | Sequence[str],
        Option("What is measured, between commas: basic, bandwidth_sdp, speech, text.", between_commas=True),
    ] = "basic",
    channel: Channel = None,
    **more: Unpack[RecordArguments],
) -> "Report":
    """Measure the audio and the text of each record, and write the records with the results as fields.

    basic: bandwidth, loudness, peak_db, dc, clipped, snr, silence_share, silence_start, silence_end, equal_channels,
    char_rate, word_rate, unique_words, longest_word. speech: speech_share, speech_start, speech_end, speech_segments,
    longest_pause, by Silero's detector. text: text_lang and text_lang_probability, by py3langid. bandwidth_sdp: the
    bandwidth as NeMo SDP computes it. The documentation defines each field.

    A measure that a record is too short for is null. A field that a record has under one of these names is replaced;
    all others keep their text. Audio that cannot be read is a reject. The result of a record depends on this record
    alone. prepcli filter selects by the fields, and prepcli inspect shows them.

    Run the same command again to continue after an interruption.

    Example: prepcli score train.json scored.json --fields basic

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest with the fields.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or a package that is missing.

    Examples:
        >>> import prepcli
        >>> report = prepcli.score("manifest.json", "scored.json")
        >>> report.records_out
        48
    """
    from prepcli.audio.probe import Probes
    from prepcli.audio.segments import SCORE, locate, with_channel
    from prepcli.commands.score.audio import audio_measures
    from prepcli.commands.score.text import language_of, text_measures
    from prepcli.engine.run.function import OutputFile, run
    from prepcli.formats.names import absolute_folder
    from prepcli.gate import rate_changes
    from prepcli.jobs.inputs.named import names_note
    from prepcli.jobs.line_job import LINES_NAME
    from prepcli.jobs.record_job import RecordContents
    from prepcli.jobs.records import base_directories
    from prepcli.jobs.source import RecordSource, blocks, items
    from prepcli.manifest.output_name import check_manifest_name

    output = OutputFile(out)
    source = RecordSource(manifest, output)
    check_manifest_name(output.path, "score")
    groups = groups_of(str(fields))
    policy = with_channel(SCORE, channel)
    base_dirs = set(base_directories(source.manifests, source.audio_base_dir))
    paths_stay = base_dirs == {absolute_folder(str(output.path.parent))}
    _check_packages(groups)

    def plan(workspace: "Workspace") -> "Plan[RecordUnit, RecordContents]":
        records = source.read(workspace)
        return records.plan(blocks(records, _UNIT_SECONDS, _UNIT_RECORDS), RecordContents(records))

    def measure(contents: "RecordContents", unit: "RecordUnit", writer: "UnitWriter") -> None:
        records, probes, lines = contents.records, Probes(1), []
        for item in items(contents, unit, writer):
            with item:
                record = item.record
                changes: dict[str, Value] = {}
                if groups != ["text"]:
                    path = records.audio_path(item.number, record.audio_filepath)
                    place = record.offset, record.duration, record.get("channel")
                    segment = locate(path, probes(path), *place, policy, path)
                    changes = audio_measures(segment, groups) | rate_changes(record.fields, segment.info.sampling_rate)
                    item.seconds = segment.duration
                text = record.text("text")
                if "basic" in groups:
                    changes |= text_measures(text, record.duration)
                if "text" in groups:
                    changes |= language_of(text)
                if not paths_stay:
                    changes |= records.absolute_paths(item.number, record)
                lines.append(record.to_json(changes) + b"\n")
        writer.open_part(LINES_NAME.format(unit.id)).write(b"".join(lines))

    def join(
        made: "Plan[RecordUnit, RecordContents]", markers: "Sequence[Marker]", writer: "UnitWriter"
    ) -> dict[str, Any]:
        writer.join(output.name, (LINES_NAME.format(marker.unit) for marker in markers))
        return {"manifest": output.path} | names_note(source.manifests)

    paths = {} if paths_stay else {"paths": "absolute"}
    shaping = source.settings | {"--fields": ",".join(groups)} | paths
    return run(output, plan, measure, join, settings=shaping, reads_audio_files=groups != ["text"])


def groups_of(fields: str) -> list[str]:
    """The groups of fields to write, in the order of the documentation.

    Raises:
        UsageError: a group does not exist, or none is given.
    """
    names = {name.strip() for name in fields.split(",") if name.strip()}
    unknown = sorted(names.difference(GROUPS))
    if unknown or not names:
        wrong = f", not {unknown[0]}" if unknown else ""
        raise UsageError(f"{option('--fields')} takes {', '.join(GROUPS)}{wrong}")
    return [name for name in GROUPS if name in names]


def _check_packages(groups: Sequence[str]) -> None:
    from prepcli.models.silero import model_file

    for group in groups:
        for name in _PACKAGES[group]:
            if importlib.util.find_spec(name) is None:
                extra = "basic" if group == "basic" else "score"
                raise UsageError(f"the fields of {group} need {name}: pip install 'prepcli[{extra}]'")
    if "speech" in groups:
        model_file()
