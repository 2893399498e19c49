"""manifest-to-tarred: makes a tarred set, adds shards to it (`--concat-to`), or removes the last addition."""

from typing import TYPE_CHECKING, Annotated

from typing_extensions import Unpack

from prepcli.commands.manifest_to_tarred.options import TarredArguments
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText
from prepcli.interface.shared_options import WorkDir

if TYPE_CHECKING:
    from prepcli.engine.run.report import Report


@command("manifest-to-tarred")
def manifest_to_tarred(
    manifest: Annotated[
        Paths | None,
        Option(
            "NeMo manifest(s), or a data set (tarred, Shar, WeNet, webdataset, Parquet, zip): a path, several "
            "separated by commas, or a brace pattern; required, but not with --undo-concat.",
            metavar="MANIFEST",
            several_paths=True,
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ] = None,
    out: Annotated[
        PathText | None,
        Option(
            "Directory for the data set; optional with --concat-to.",
            metavar="OUT",
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ] = None,
    *,
    work_dir: WorkDir = None,
    **more: Unpack[TarredArguments],
) -> "Report":
    """Turn NeMo manifests into tar shards with their manifests.

    Writes OUT/audio_{i}.tar, OUT/sharded_manifests/manifest_{i}.json, OUT/tarred_audio_manifest.json and
    OUT/metadata.yaml, as NeMo's data loaders and webdataset read them, and beside tars and manifests their indexes
    (.idx). Files that need no change are copied byte for byte. Run the same command again to continue after an
    interruption.

    Example: prepcli manifest-to-tarred train.json tarred/ --num-shards 64 --shuffle --force-codec flac

    Returns:
        The report of the run. `outputs` has `tarred_audio_filepaths` and `manifest_filepath` for a training config.
        With static buckets, each bucket has its own outputs; their names begin with its folder: `bucket1/...`.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "tarred", num_shards=4)
        >>> report.records_out, report.rejects_by_reason
        (48, {})
        >>> report.outputs["manifest_filepath"]
        '/.../tarred/sharded_manifests/manifest__OP_0..3_CL_.json'
    """
    from pathlib import Path

    from prepcli.commands.manifest_to_tarred.adding import add_to_set, newest_begun, refuse_to_change
    from prepcli.commands.manifest_to_tarred.making import make_set
    from prepcli.commands.manifest_to_tarred.options import check_form, decided
    from prepcli.commands.manifest_to_tarred.undoing import undo_concat
    from prepcli.engine.commits import read_ledger
    from prepcli.engine.run.function import Output
    from prepcli.engine.run.options import run_options
    from prepcli.formats.names import check_loadable
    from prepcli.interface.calls import current_call
    from prepcli.jobs.source import RecordSource
    from prepcli.storage.paths import path_of

    concat_to = more["concat_to"]
    folder = concat_to or out
    if more["undo_concat"]:
        engine = run_options(current_call().options)
        named = None if manifest is None else str(manifest)
        return undo_concat(named, None if folder is None else path_of(str(folder)), engine)
    if manifest is None:
        raise UsageError("missing argument 'MANIFEST' (see prepcli manifest-to-tarred --help)")
    if folder is None:
        raise UsageError("OUT is missing: give the directory for the data set")
    output = Output(folder)
    if concat_to is not None:
        output.workspace = newest_begun(output.path)
    source = RecordSource(manifest, output)
    if concat_to is not None:
        if out is not None and path_of(str(out)).absolute() != Path(concat_to).absolute():
            raise UsageError(f"{option('--concat-to', concat_to)} adds to that directory; leave out OUT ({out})")
        check_loadable(output.path)
        return add_to_set(output, source, more)
    check_loadable(output.path)
    if isinstance(output.path, Path) and any(commit.part for commit in read_ledger(output.workspace).commits):
        refuse_to_change(output.path, output.workspace, output.engine.overwrite, output.engine.retry_rejects)
    check_form(more)
    return make_set(output, source, decided(more))
