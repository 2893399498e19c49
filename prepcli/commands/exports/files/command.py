"""convert-audio: writes the audio of manifests to plain files, which are cut, resampled, downmixed or copied."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Unpack

from prepcli.commands.exports.options import AudioArguments
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import ForceCodec, Manifests, TargetRate

if TYPE_CHECKING:
    from prepcli.commands.exports.files.contents import ConvertContents
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.plan import Plan
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordUnit

MANIFEST_NAME = "manifest.json"


@command("convert-audio")
def convert_audio(
    manifest: Manifests,
    out: Annotated[
        PathText,
        Option("Directory for the files and the manifest.", metavar="OUT", is_argument=True, shapes_output=False),
    ],
    *,
    force_codec: ForceCodec = None,
    target_sample_rate: TargetRate = None,
    **more: Unpack[AudioArguments],
) -> "Report":
    """Cut, resample, downmix or unpack the audio of NeMo manifests into plain files, with a manifest of them.

    Writes a file OUT/PATH.flac (or .wav, ...) for each record, where PATH is that of the record's audio, and
    OUT/manifest.json: the records in their order with all of their fields, and paths relative to OUT. Without options
    files are copied byte for byte, and segments are cut exactly. Records of the same segment share a file; different
    segments of a file get names with offset and duration, such as talk@1_5_2_0.flac.

    Run the same command again to continue after an interruption.

    Example: prepcli convert-audio train.json converted/ --target-sample-rate 16000 --force-codec flac

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest of the files.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.convert_audio("manifest.json", "converted", target_sample_rate=8000)
        >>> report.records_out
        48
        >>> report.outputs["manifest"]
        '/.../converted/manifest.json'
    """
    from prepcli.audio.channels import SEVERAL_CHANNELS, channels_note
    from prepcli.audio.segments import CONVERT
    from prepcli.commands.exports.files.contents import plan_files, write_files
    from prepcli.commands.exports.records import conversion
    from prepcli.engine.publishing.publish import totals
    from prepcli.engine.run.function import Output, run
    from prepcli.jobs.merging import write_merged
    from prepcli.jobs.records import OWN_AUDIO
    from prepcli.jobs.row_names import BY_ID
    from prepcli.jobs.source import RecordSource

    output = Output(out, MANIFEST_NAME)
    source = RecordSource(manifest, output)
    audio = conversion(CONVERT, force_codec, target_sample_rate, more)

    def plan(workspace: "Workspace") -> "Plan[RecordUnit, ConvertContents]":
        return plan_files(source, workspace, audio.policy)

    def write(contents: "ConvertContents", unit: "RecordUnit", writer: "UnitWriter") -> None:
        write_files(contents, unit, writer, audio)

    def merge(
        made: "Plan[RecordUnit, ConvertContents]", markers: "Sequence[Marker]", writer: "UnitWriter"
    ) -> dict[str, Any]:
        write_merged(MANIFEST_NAME, markers, writer)
        details = {"manifest": output.path / MANIFEST_NAME}
        return details | channels_note(totals(markers)[SEVERAL_CHANNELS], "records")

    def settings(made: "Plan[RecordUnit, ConvertContents]") -> dict[str, Any]:
        return source.settings | {OWN_AUDIO: True} | (BY_ID if made.contents.by_id else {})

    return run(output, plan, write, merge, settings=settings)
