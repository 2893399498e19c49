"""manifest-to-shar: turns NeMo manifests, with or without context audio, into numbered Lhotse Shar shards."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import Unpack

from prepcli.commands.exports.options import ShardArguments, ShardSize
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import Manifests, WorkDir

if TYPE_CHECKING:
    from prepcli.commands.manifest_to_shar.shards import SharContents, SharPlan
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordUnit

OPUS_RATE = 48_000
"""Sampling rate of Opus in Hz. Decoders treat other rates differently, so lhotse stores all Opus at this rate."""


@command("manifest-to-shar")
def manifest_to_shar(
    manifest: Manifests,
    out: Annotated[
        PathText,
        Option(
            "Directory for the Shar data set.",
            metavar="OUT",
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ],
    *,
    shard_size: ShardSize = 4096,
    audio_format: Annotated[
        Literal["flac", "wav", "opus", "original"],
        Option("Encode audio to this format; original: keep the format of each file."),
    ] = "flac",
    audio_field: Annotated[
        Literal["recording", "target_audio"] | None,
        Option(
            "Field with the audio of the cuts: recording, which NeMo's ASR and every program of lhotse read, or "
            "target_audio, which only Magpie-TTS reads.",
            shown_default="target_audio where records have context audio, else recording",
            added_later=True,
        ),
    ] = None,
    target_sample_rate: Annotated[
        int | None, Option("Resample to this rate (Hz).", shown_default="unchanged; opus: 48000")
    ] = None,
    indexed: Annotated[
        bool,
        Option(
            "Write the cuts uncompressed, and indexes into OUT/index, with which lhotse 2 and NeMo after 3.0 resume in "
            "the middle of an epoch."
        ),
    ] = False,
    work_dir: WorkDir = None,
    **more: Unpack[ShardArguments],
) -> "Report":
    """Turn NeMo manifests into Lhotse Shar shards, for ASR or, with context audio, for Magpie-TTS.

    Writes OUT/cuts/cuts.{000000}.jsonl.gz and OUT/recording/recording.{000000}.tar, as CutSet.from_shar and NeMo's ASR
    read them. If the records name a context, writes OUT/target_audio/recording.{000000}.tar and
    OUT/context_audio/recording.{000000}.tar instead, as NeMo's MagpieTTSLhotseDataset reads them.

    Within a shard a segment is decoded and encoded once, however many records use it; a whole mono file that already
    has the right format and rate is copied byte for byte.

    Memory per worker: up to 256 MB of encoded audio that the shard uses again (the rest goes to a file next to OUT),
    the longest decoded segment, and about 10 MB per 4096 records of --shard-size. Memory shared by all workers: 60
    bytes per record of the manifests.

    Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-shar train_withContextAudio.json shar/ --audio-base-dir audio/ --shard-size 4096

    Returns:
        The report of the run; `outputs` has `cuts` and `recording`, or `target_audio` and `context_audio`.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_shar("manifest_with_context.json", "shar", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["cuts"]
        '/.../shar/cuts/cuts._OP_000000..000002_CL_.jsonl.gz'
    """
    from prepcli.audio.segments import SHAR, TargetFormat
    from prepcli.commands.exports.records import conversion, seed_of
    from prepcli.commands.manifest_to_shar.shards import check_cuts, lines_for_training, notes, plan_shards, write_shard
    from prepcli.engine.run.function import Output, run
    from prepcli.formats.indexes import indexes_of
    from prepcli.formats.names import check_loadable
    from prepcli.formats.shar import CUTS_NAME, OUTPUT_PATTERNS, PLAIN_CUTS_NAME, RECORDING
    from prepcli.jobs.source import RecordSource
    from prepcli.storage.paths import path_of

    check_loadable(path_of(str(out)))
    output = Output(out, *OUTPUT_PATTERNS)
    source = RecordSource(manifest, output)
    audio = conversion(SHAR, None if audio_format == "original" else audio_format, target_sample_rate, more)
    if audio_format == "opus":
        if target_sample_rate not in (None, OPUS_RATE):
            rate = option("--target-sample-rate", target_sample_rate)
            raise UsageError(f"lhotse stores Opus at {OPUS_RATE} Hz: leave {rate} out")
        audio = audio._replace(target=TargetFormat("opus", OPUS_RATE))
    cuts = PLAIN_CUTS_NAME if indexed else CUTS_NAME

    def plan(workspace: "Workspace") -> "SharPlan":
        return plan_shards(source, workspace, shard_size, seed_of(more), audio_field, replaces=output.engine.overwrite)

    def settings(made: "SharPlan") -> dict[str, Any]:
        """Sets of 0.3, which had no such option, have target_audio."""
        field = made.contents.field
        values = {name: value for name, value in source.settings.items() if name != "--audio-field"}
        return values | ({"--audio-field": field} if field == RECORDING else {})

    def check(_: object, workspace: "Workspace") -> None:
        check_cuts(workspace, cuts)

    def write(contents: "SharContents", unit: "RecordUnit", writer: "UnitWriter") -> None:
        write_shard(contents, unit, writer, cuts, audio)

    def finish(made: "SharPlan", markers: "Sequence[Marker]", writer: "UnitWriter") -> dict[str, Any]:
        told = notes(made, markers, names_channel=more["channel"] is not None)
        return lines_for_training(made, markers, writer, cuts) | told

    return run(output, plan, write, finish, settings=settings, check_done=check, made_of=indexes_of)
