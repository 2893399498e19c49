"""`prepcli extend-context-audio`."""

from pathlib import Path
from typing import Annotated

import typer

from prepcli.cli.groups import takes
from prepcli.cli.options import AudioBaseDir, Devices, JobOptions


@takes(common=JobOptions)
def extend_context_audio(
    manifest: Annotated[
        str, typer.Argument(metavar="MANIFEST", help="NeMo manifest(s): a path, several with commas, or brace forms.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Directory for the extended manifest.")],
    audio_base_dir: AudioBaseDir = None,
    speaker_model: Annotated[
        str,
        typer.Option(help="titanet_large or another of NeMo's pretrained names, a .nemo file, or resemblyzer."),
    ] = "titanet_large",
    group_by: Annotated[
        str,
        typer.Option(
            help="What makes a voice: the field speaker; a preset for a corpus (libritts, hifitts, hifitts2, "
            "nvyt2505, rivaLindyRodney, rivaEmmaMeganSeanTom, jhsdGtc20Amp20Keynote); or regex:FIELD:PATTERN, the "
            "pattern's groups joined by _."
        ),
    ] = "speaker",
    context_min_duration: Annotated[float, typer.Option(help="Shortest context (seconds).")] = 3.0,
    context_min_ssim: Annotated[float, typer.Option(help="Least cosine similarity of a context.")] = 0.6,
    batch_duration: Annotated[
        float, typer.Option(help="Seconds of audio in a batch, at most. Less takes less memory.")
    ] = 120.0,
    save_embeddings: Annotated[
        bool, typer.Option("--save-embeddings", help="Keep the embeddings: OUT/embeddings/bundle_*.npy and .jsonl.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw similarities and durations of contexts.")
    ] = None,
    devices: Devices = "auto",
    *,
    common: JobOptions,
) -> None:
    """Give each record a context: the most similar other utterance of its voice that is long enough.

    Writes OUT/<stem>_withContextAudioMinDur3.0MinSSIM0.6.json: the records in the order of the input, each with
    context_speaker_similarity, context_audio_filepath, context_audio_offset, context_audio_duration, context_audio_text
    and, where the other record has one, context_audio_normalized_text. Records without a context are listed as rejects.

    The same records give the same file with any number of ranks, and on a processor with any number of threads and any
    --batch-duration.
    Embeddings differ by float rounding between devices, and on GPUs with --batch-duration: now and then in a
    similarity's last digits, hardly ever in the choice.

    Run the same command again to continue after an interruption.

    Example: prepcli extend-context-audio train.json context/ --audio-base-dir audio/ --group-by libritts
    """
    from functools import partial

    from prepcli.cli.devices import run_on_devices
    from prepcli.context.job import ContextJob
    from prepcli.context.plan import ContextOptions
    from prepcli.engine.workspace import Workspace
    from prepcli.manifest.sources import expand_paths

    engine = common.engine()
    options = ContextOptions(
        audio_base_dir=audio_base_dir,
        speaker_model=speaker_model,
        group_by=group_by,
        context_min_duration=context_min_duration,
        context_min_ssim=context_min_ssim,
        save_embeddings=save_embeddings,
    )
    workspace = Workspace(out)
    make_job = partial(
        ContextJob,
        expand_paths(manifest),
        out,
        None if common.dry_run else workspace.root,
        options,
        batch_duration=batch_duration,
        num_workers=engine.num_workers,
    )
    after = None
    if plot is not None:
        from prepcli.context.plot import plot_contexts
        from prepcli.plotting import check_plot

        check_plot(plot)  # now, not after hours of work
        after = partial(plot_contexts, path=plot)
    run_on_devices(make_job, devices, workspace, engine, dry_run=common.dry_run, as_json=common.as_json, after=after)
