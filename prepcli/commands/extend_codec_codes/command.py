"""`extend-codec-codes` from its options to its report."""

from functools import partial

from prepcli.commands.extend_codec_codes.job import CodesJob, codes_workspace
from prepcli.commands.extend_codec_codes.manifest_job import ManifestCodesJob
from prepcli.commands.extend_codec_codes.options import ExtendCodecCodes
from prepcli.engine.run.report import Report
from prepcli.engine.state.work_folder import note_unused
from prepcli.formats.codes import CODES_FOLDER
from prepcli.formats.names import check_loadable
from prepcli.manifest.sources import expand_paths
from prepcli.models.codecs import codec_name
from prepcli.models.ranks import run_on_devices
from prepcli.storage.input_files import refuse_swapped
from prepcli.storage.paths import path_of


def extend_codec_codes(options: ExtendCodecCodes) -> Report:
    """Add codec codes to every cut of a Shar set, or to a manifest.

    Returns:
        The report of the run; `outputs` has `target_codes` and, if there is context audio, `context_codes`; for a
        manifest it has the new `manifest`.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.extend_codec_codes("shar", "codec.nemo", codec_name="21fps", devices="cpu")
        >>> report.outputs["target_codes"]
        '/.../shar/codes_21fps/target_codes/codes._OP_000000..000002_CL_.tar'
    """
    engine = options.engine()
    options.check_input()
    name = codec_name(options.codec_model, options.codec_name)
    out = options.output_dir or path_of(options.shar_dir)
    workspace = codes_workspace(out, name, options.work_dir)
    if options.is_manifest:
        note_unused(options.work_dir, out)
        refuse_swapped(options.shar_dir, out)
        manifests = expand_paths(options.shar_dir)
        make_plain = partial(
            ManifestCodesJob, manifests, options.audio_base_dir, out, options, num_workers=engine.num_workers
        )
        return run_on_devices(make_plain, options.devices, workspace, options, engine)
    note_unused(options.work_dir, out, path_of(options.shar_dir))
    check_loadable(out / CODES_FOLDER.format(name))
    make_job = partial(
        CodesJob,
        path_of(options.shar_dir),
        options,
        partial=options.partial,
        num_workers=engine.num_workers,
        work_dir=options.work_dir,
    )
    return run_on_devices(make_job, options.devices, workspace, options, engine)
