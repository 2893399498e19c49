"""manifest-to-wenet: turns NeMo manifests into shards or a data list for WeNet."""

import glob
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import Unpack

from prepcli.commands.exports.options import ShardArguments, ShardSize
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import Manifests, TargetRate, WorkDir

if TYPE_CHECKING:
    from prepcli.commands.exports.records import ExportContents, ExportPlan
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordUnit

_PREFIX = re.compile(r"[\w.+-]+")
_RECORDS_OF_LIST = 50_000
"""Maximum number of records per unit with `--raw`."""


@command("manifest-to-wenet")
def manifest_to_wenet(
    manifest: Manifests,
    out: Annotated[
        PathText,
        Option(
            "Directory for the shards and lists.",
            metavar="OUT",
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ],
    *,
    raw: Annotated[
        bool,
        Option(
            "Write only OUT/data.list, which names the audio files where they are.",
            disables=("shard_size", "prefix", "target_sample_rate", "force_codec", "check_audio", "channel"),
        ),
    ] = False,
    prefix: Annotated[str, Option("First part of the names of the shards.")] = "shards",
    force_codec: Annotated[
        Literal["flac", "wav"] | None, Option("Encode audio to this format.", shown_default="unchanged")
    ] = None,
    relative_to: Annotated[
        PathText | None,
        Option("Folder that paths in the list start from.", shown_default="none, paths are absolute", metavar="DIR"),
    ] = None,
    shard_size: ShardSize = 1000,
    target_sample_rate: TargetRate = None,
    work_dir: WorkDir = None,
    **more: Unpack[ShardArguments],
) -> "Report":
    """Turn NeMo manifests into shards for WeNet, or with --raw into a data list.

    Writes OUT/shards_{000000000}.tar and OUT/shards.list, which is what data_type: shard reads; with --raw
    OUT/data.list, for data_type: raw. Keys are made from the names of the files and are unique. Files that need no
    change are copied byte for byte; segments are cut exactly. A record needs audio, but its text may be empty.

    Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-wenet train.json wenet/ --shard-size 1000 --target-sample-rate 16000

    Returns:
        The report of the run; `outputs["data_list"]` is the list to train with.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_wenet("manifest.json", "wenet", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["data_list"]
        '/.../wenet/shards.list'
    """
    from prepcli.audio.segments import WENET
    from prepcli.commands.exports.records import conversion, export_settings, plan_export, seed_of
    from prepcli.commands.exports.wenet.files import join_lines, listed_folder, notes, write_lines, write_shard
    from prepcli.engine.run.function import Output, run
    from prepcli.formats.wenet import LIST_NAME, RAW_LIST_NAME, SHARD_NAME, shard_list
    from prepcli.jobs.inputs.named import refuse_containers
    from prepcli.jobs.source import RecordSource

    output = Output(out, f"{glob.escape(prefix)}_{'[0-9]' * 9}.tar", LIST_NAME, RAW_LIST_NAME)
    source = RecordSource(manifest, output)
    if raw:
        refuse_containers(source.manifests, "--raw")
    audio = conversion(WENET, force_codec, target_sample_rate, more)
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f"{option('--prefix')} {prefix!r} must be of letters, digits, '.', '_', '+' and '-'")
    folder = None if raw else listed_folder(output.path, relative_to)

    def plan(workspace: "Workspace") -> "ExportPlan":
        size = _RECORDS_OF_LIST if raw else shard_size
        return plan_export(source, workspace, size, seed_of(more), takes_ids=True)

    def write(contents: "ExportContents", unit: "RecordUnit", writer: "UnitWriter") -> None:
        if raw:
            write_lines(contents, unit, writer, relative_to)
        else:
            write_shard(contents, unit, writer, SHARD_NAME.format(prefix, unit.number), audio)

    def finish(made: "ExportPlan", markers: "Sequence[Marker]", writer: "UnitWriter") -> dict[str, Any]:
        if folder is None:
            join_lines(markers, writer)
        else:
            names = [SHARD_NAME.format(prefix, unit.number) for unit in made.units]
            writer.open(LIST_NAME).write(shard_list(folder, names))
        return notes(made, markers, writer, raw)

    return run(output, plan, write, finish, settings=lambda made: export_settings(source, made))
