"""segment: cuts long recordings into segments, and writes a manifest of them."""

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from typing_extensions import Unpack

from prepcli.engine.run.options import JobArguments, RecordArguments
from prepcli.errors import TooManyRejectsError, UsageError, option
from prepcli.gate import MAX_SECONDS
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText, folder_of
from prepcli.interface.shared_options import Channel, OutFile, TimesFormat

if TYPE_CHECKING:
    from prepcli.commands.segment.parts import PartUnit
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.plan import Plan
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordContents

_OF_TEXTS = ("same_speaker", "end_at", "overlap")
_OF_PACKING = ("max", "join_pause", "pad")
_LENGTHS = ("min", *_OF_PACKING, "window")


@command("segment")
def segment(
    manifest: Annotated[
        Paths,
        Option(
            "Long recordings: a folder, an audio file, NeMo manifest(s), or a data set: a path, several separated by "
            "commas, or a brace pattern.",
            metavar="INPUT",
            several_paths=True,
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ],
    out: OutFile,
    *,
    by: Annotated[
        Literal["speech", "times", "windows"],
        Option("Cut by speech that Silero's detector finds, by texts with times, or into windows."),
    ] = "speech",
    times: Annotated[
        PathText | None,
        Option(
            "Texts with times: a folder with a file of the same name for each recording, or a file. Without it: the "
            "fields segments, words or alignment of each record.",
            metavar="DIR|FILE",
        ),
    ] = None,
    times_format: TimesFormat = "auto",
    min: Annotated[
        float | None, Option("Minimum seconds of a segment; shorter ones are left out.", minimum=0, shown_default="1")
    ] = None,
    max: Annotated[
        float | None, Option("Maximum seconds of a segment, with its margins.", above=0, shown_default="20")
    ] = None,
    join_pause: Annotated[
        float | None, Option("Longest pause (seconds) within a segment.", minimum=0, shown_default="1")
    ] = None,
    pad: Annotated[
        float | None,
        Option(
            "Margin (seconds) before and after speech, at most half of the pause there.", minimum=0, shown_default="0.2"
        ),
    ] = None,
    same_speaker: Annotated[bool, Option("Put no two speakers into one segment.")] = False,
    end_at: Annotated[
        Literal["punctuation", "pause", "any"] | None,
        Option(
            "Where a segment may end, besides at a pause longer than --join-pause: after a sentence, at a pause of 0.1 "
            "s, or after any word or line (words: at a pause, if its second half has one).",
            shown_default="any",
        ),
    ] = None,
    overlap: Annotated[
        Literal["drop", "keep"] | None,
        Option(
            "Words or lines that overlap by more than 0.1 s: leave them out, or keep them together.",
            shown_default="drop",
        ),
    ] = None,
    window: Annotated[float | None, Option("Seconds of a window.", above=0, shown_default="30")] = None,
    whisper_times: Annotated[
        bool, Option("Write Whisper's timestamps into the texts: <|0.00|> Hello.<|1.20|>.")
    ] = False,
    rttm_out: Annotated[
        PathText | None,
        Option(
            "Folder, in that of OUT.json, for an RTTM file of each window, for Sortformer.",
            metavar="DIR",
        ),
    ] = None,
    cut: Annotated[
        PathText | None,
        Option(
            "Also write the segments as files, with a manifest of them, as convert-audio does.",
            metavar="DIR",
            shapes_output=False,
        ),
    ] = None,
    channel: Channel = None,
    **more: Unpack[RecordArguments],
) -> "Report":
    """Cut long recordings into segments, and write a manifest of them with offset and duration; no audio is copied.

    By speech (needs silero-vad): speech is joined up to --max, with pauses up to --join-pause; speech that is too long
    is divided at its longest pause, or where speech is least probable. By times: of CTM, RTTM, SRT, WebVTT, TextGrid,
    JSON (Whisper, whisperX, faster-whisper, FunASR, AssemblyAI), Audacity labels, Kaldi segments; a segment has the
    text, speaker and words whose middle lies in it. By windows: of one length; with texts, a window ends before a word
    or line that it would cut.

    Each second of the recordings is accounted for: seconds in = segments + pauses + overlap + rejects. --dry-run cuts
    everything, and prints the account and the lengths of segments without writing.

    Run the same command again to continue after an interruption.

    Example: prepcli segment talks/ segments.json --by times --times subtitles/ --max 30

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest, `details["seconds"]` the account.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or a package that is missing.

    Examples:
        >>> import prepcli
        >>> report = prepcli.segment("manifest.json", "windows.json", by="windows", window=2)
        >>> report.details["recordings"]
        48
    """
    import msgspec

    from prepcli.audio.segments import SEGMENT, with_channel
    from prepcli.commands.exports.files.command import convert_audio
    from prepcli.commands.segment.account import details_of
    from prepcli.commands.segment.folder import audio_in, check_cut, folder_names
    from prepcli.commands.segment.parts import units_of_recordings
    from prepcli.commands.segment.recordings import SegmentSettings
    from prepcli.commands.segment.records import SegmentJob, Texts, rttm_folder, write_recordings
    from prepcli.engine.publishing.publish import totals
    from prepcli.engine.run.function import OutputFile, run
    from prepcli.engine.state.plan import AUDIO_BASE_DIRS
    from prepcli.formats.names import absolute_folder
    from prepcli.formats.times.times import notes_on_left_out
    from prepcli.interface.calls import current_call
    from prepcli.interface.command import call_within
    from prepcli.jobs.inputs.named import names_note
    from prepcli.jobs.line_job import LINES_NAME
    from prepcli.jobs.record_job import RecordContents
    from prepcli.jobs.records import base_directories
    from prepcli.jobs.source import RecordSource
    from prepcli.manifest.output_name import check_manifest_name
    from prepcli.processes.ranks import Rank

    asked = current_call().options
    _check(asked)
    output = OutputFile(out)
    source = RecordSource(manifest, output, others=audio_in)
    check_manifest_name(output.path, "segment")
    settings = SegmentSettings(
        by,
        shortest=1.0 if min is None else min,
        longest=(30.0 if window is None else window) if by == "windows" else 20.0 if max is None else max,
        join_pause=1.0 if join_pause is None else join_pause,
        pad=0.2 if pad is None else pad,
        same_speaker=same_speaker,
        end_at=end_at or "any",
        overlap=overlap or "drop",
        whisper_times=whisper_times,
        has_rttm=rttm_out is not None,
    )
    folder = absolute_folder(str(output.path.parent))
    paths_stay = set(base_directories(source.manifests, source.audio_base_dir)) == {folder}
    names = folder_names(source.manifests, output.path)
    if names is not None and source.audio_base_dir is not None:
        raise UsageError(f"{option('--audio-base-dir')} has no effect on a folder of audio: leave it out")
    if names is not None and times is None and (by == "times" or whisper_times):
        raise UsageError(f"{option('--times')} is missing: a folder of audio has no texts; give their folder or file")
    if cut is not None:
        check_cut(source.manifests, Path(cut))
    texts = Texts(by, folder_of(times), times_format)
    rttms = rttm_folder(output.path, folder_of(rttm_out))
    job = SegmentJob(with_channel(SEGMENT, channel), settings, texts, rttms, names, paths_stay)

    def plan(workspace: "Workspace") -> "Plan[PartUnit, RecordContents]":
        records = source.read(workspace)
        inputs, notes = texts.opened(records)
        units = units_of_recordings(records, by_parts=by == "speech")
        made = records.plan(units, RecordContents(records), notes=notes, may_be_long=True)
        made.inputs += inputs
        return made

    def write(contents: "RecordContents", unit: "PartUnit", writer: "UnitWriter") -> None:
        write_recordings(contents, unit, writer, job)

    def join(
        made: "Plan[PartUnit, RecordContents]", markers: "Sequence[Marker]", writer: "UnitWriter"
    ) -> dict[str, Any]:
        writer.join(output.name, (LINES_NAME.format(marker.unit) for marker in markers))
        counts = totals(markers)
        details = details_of(counts, settings.longest, sum(made.planned_rejects.values())) | notes_on_left_out(counts)
        return {"manifest": output.path} | details | names_note(source.manifests)

    shaping = source.settings | ({} if paths_stay or names else {"paths": "absolute"})
    if names is not None:
        del shaping[AUDIO_BASE_DIRS]  # paths of audio start from the folder of OUT.json, wherever it is moved
    if output.engine.dry_run:
        with tempfile.TemporaryDirectory(prefix="prepcli-") as place:
            output, engine = OutputFile(Path(place, output.name)), output.engine
            output.engine = dataclasses.replace(engine, dry_run=False, rank=Rank())
            try:
                report = run(output, plan, write, join, settings=shaping)
            except TooManyRejectsError as error:
                report = error.report
        del report.details["manifest"]
        details = report.details | {"rejects_by_reason": report.rejects_by_reason}
        removed: dict[str, Any] = {"outputs": {}, "rejects_filepath": "", "retry_with": None, "repair_with": None}
        return msgspec.structs.replace(report, status="dry_run", out=str(out), details=details, **removed)
    report = run(output, plan, write, join, settings=shaping)
    if cut is not None and report.status != "incomplete":
        shared = {name: getattr(asked, name) for name in get_type_hints(JobArguments)}
        shared["overwrite"] |= shared.pop("retry_rejects")  # there may be other segments now
        files = call_within(convert_audio, **shared, manifest=str(output.path), out=Path(cut), channel=channel)
        if "manifest" in files.outputs:  # else other ranks are at work
            report.outputs["files"] = report.details["files"] = files.outputs["manifest"]
    return report


def _check(asked: Any) -> None:
    """Raise `UsageError` if an option has no effect on the way of cutting that is asked for."""
    refused = {
        "speech": ("times", "window", "whisper_times", "rttm_out", *_OF_TEXTS),
        "times": ("window", "whisper_times", "rttm_out"),
        "windows": (*_OF_PACKING, *_OF_TEXTS),
    }[asked.by]
    for name in refused:
        if getattr(asked, name) not in (None, False):
            raise UsageError(f"{option('--' + name.replace('_', '-'))} has no effect with {option('--by', asked.by)}")
    for name in _LENGTHS:
        if (value := getattr(asked, name) or 0) > MAX_SECONDS:
            raise UsageError(f"{option('--' + name.replace('_', '-'), value)} is above {MAX_SECONDS:g} s: lower it")
    if asked.whisper_times and asked.rttm_out is not None:
        raise UsageError(f"{option('--whisper-times')} and {option('--rttm-out')} are for different models: choose one")
    if asked.rttm_out is not None and asked.cut is not None:
        raise UsageError(
            f"{option('--cut')} would write files for which the times in {option('--rttm-out')} are not right, because "
            "these are times of the recording: leave one of them out"
        )
    if asked.whisper_times and asked.window is not None and asked.window > 30:
        raise UsageError(f"{option('--whisper-times')}: Whisper hears 30 s, so {option('--window')} is at most 30")
    longest = 20.0 if asked.max is None else asked.max
    pad = 0.2 if asked.pad is None else asked.pad
    if asked.by != "windows" and (asked.min or 0) > longest:
        raise UsageError(f"{option('--min')} is more than {option('--max')}: no segment could have such a length")
    if asked.by != "windows" and longest <= 2 * pad:
        raise UsageError(f"{option('--max', longest)} leaves no room between two margins of {option('--pad', pad)}")
    if asked.by == "speech":
        from prepcli.models.silero import model_file

        model_file("segments of speech")
