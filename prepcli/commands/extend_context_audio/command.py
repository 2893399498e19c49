"""`extend-context-audio` from its options to its report."""

from functools import partial

from prepcli.commands.extend_context_audio.job import ContextJob
from prepcli.commands.extend_context_audio.options import ExtendContextAudio
from prepcli.engine.run.report import Report
from prepcli.engine.state.workspace import Workspace
from prepcli.manifest.sources import expand_paths
from prepcli.models.ranks import run_on_devices
from prepcli.storage.input_files import refuse_input_as_output, refuse_swapped


def extend_context_audio(options: ExtendContextAudio) -> Report:
    """Add context audio to each record.

    Returns:
        The report of the run; `outputs["manifest"]` is the extended manifest.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Example:
        >>> import prepcli
        >>> report = prepcli.extend_context_audio("manifest.json", "context", speaker_model="resemblyzer")
        >>> report.outputs["manifest"]
        '/.../context/manifest_withContextAudioMinDur3.0MinSSIM0.6.json'
    """
    engine = options.engine()
    refuse_swapped(options.manifest, options.out)
    workspace = Workspace(options.out)
    manifests = expand_paths(options.manifest)
    make_job = partial(
        ContextJob,
        manifests,
        options,
        batch_duration=options.batch_duration,
        num_workers=engine.num_workers,
        reuse_embeddings=options.reuse_embeddings,
    )
    after = None
    if options.plot is not None:
        from prepcli.commands.extend_context_audio.plot import plot_contexts
        from prepcli.interface.plotting import check_plot

        refuse_input_as_output("--plot", options.plot, lambda: [*manifests, options.speaker_model])
        check_plot(options.plot)  # now, and not after hours of work
        after = partial(plot_contexts, path=options.plot, options=options)
    return run_on_devices(make_job, options.devices, workspace, options, engine, after)
