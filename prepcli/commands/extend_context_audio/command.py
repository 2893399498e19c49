"""extend-context-audio: for each record, the most similar other utterance of its voice becomes its context audio."""

import glob
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Unpack

from prepcli.engine.run.options import Devices, InputJobArguments
from prepcli.errors import option
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import AudioFolder, Manifests

if TYPE_CHECKING:
    from prepcli.commands.extend_context_audio.job import ContextPlan
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.workspace import Workspace


@command("extend-context-audio")
def extend_context_audio(
    manifest: Manifests,
    out: Annotated[
        PathText, Option("Directory for the extended manifest.", metavar="OUT", is_argument=True, shapes_output=False)
    ],
    *,
    audio_base_dir: AudioFolder = None,
    speaker_model: Annotated[
        PathText,
        Option(
            "titanet_large or another pretrained model of NeMo, a .nemo file, or resemblyzer.",
            may_be_path=True,
            order=-1,
        ),
    ] = "titanet_large",
    group_by: Annotated[
        str,
        Option(
            "What identifies a voice: the field speaker; a preset for a corpus (libritts, librittsDevClean, "
            "hifitts, hifitts2, nvyt2505, rivaLindyRodney, rivaEmmaMeganSeanTom, jhsdGtc20Amp20Keynote); or "
            "regex:FIELD:PATTERN, where the groups of the pattern are joined by _.",
            order=-1,
        ),
    ] = "speaker",
    context_min_duration: Annotated[
        float, Option("Minimum duration of a context (seconds).", minimum=0, order=-1)
    ] = 3.0,
    context_min_ssim: Annotated[
        float, Option("Minimum cosine similarity to the context, from -1 to 1.", minimum=-1, maximum=1, order=-1)
    ] = 0.6,
    batch_duration: Annotated[
        float | None,
        Option(
            "Maximum seconds of audio in a batch. Less takes less memory.",
            above=0,
            shapes_output=False,
            shown_default="120 on the CPU, 600 on a GPU",
        ),
    ] = None,
    plot: Annotated[
        PathText | None,
        Option(
            "Plot similarities and durations of contexts, also of the records that the minimum leaves out.",
            metavar="FILE.png",
            names_file=True,
            shapes_output=False,
        ),
    ] = None,
    reuse_embeddings: Annotated[
        PathText | None,
        Option(
            "OUT of an earlier run over the same audio: its embeddings are used, and only the selection is done again.",
            metavar="OUT",
            shapes_output=False,
        ),
    ] = None,
    devices: Devices = "auto",
    save_embeddings: Annotated[bool, Option("Keep the embeddings: OUT/embeddings/bundle_*.npy and .jsonl.")] = False,
    **more: Unpack[InputJobArguments],
) -> "Report":
    """Add context audio to each record: the most similar other utterance of its voice that is long enough.

    Writes OUT/<stem>_withContextAudioMinDur3.0MinSSIM0.6.json: the records in the order of the input, each with
    context_speaker_similarity, context_audio_filepath, context_audio_offset, context_audio_duration, context_audio_text
    and, where the other record has them, context_audio_normalized_text and context_audio_channel. Records without a
    context are listed as rejects.

    The output is identical for any number of ranks, and on a CPU for any number of threads and any --batch-duration.
    Between devices, and on GPUs with another --batch-duration, embeddings differ by float rounding: sometimes in the
    last digits of a similarity, very rarely in the chosen context.

    Run the same command again to continue after an interruption. Embeddings are kept in OUT.prepcli/embeddings/: with
    another minimum and --overwrite, or another OUT and --reuse-embeddings, only the selection is done again.

    Example: prepcli extend-context-audio train.json context/ --audio-base-dir audio/ --group-by libritts

    Returns:
        The report of the run; `outputs["manifest"]` is the extended manifest.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.extend_context_audio("manifest.json", "context", speaker_model="resemblyzer")
        >>> report.outputs["manifest"]
        '/.../context/manifest_withContextAudioMinDur3.0MinSSIM0.6.json'
    """
    from prepcli.commands.extend_context_audio.bundle import VoiceSelection
    from prepcli.commands.extend_context_audio.job import (
        TELEMETRY,
        ContextsOnDevice,
        join_contexts,
        plan_contexts,
        plot_contexts,
    )
    from prepcli.commands.extend_context_audio.voices import group_key
    from prepcli.engine.publishing.plots import check_plot
    from prepcli.engine.run.function import Output
    from prepcli.jobs.model_job import run_with_model
    from prepcli.jobs.records import extended_name
    from prepcli.jobs.source import RecordSource
    from prepcli.models.speakers import check_speaker_model, identity

    output = Output(out)
    source = RecordSource(manifest, output)
    model = str(speaker_model)
    group_key(group_by)
    check_speaker_model(model)
    known_as = identity(model)
    selection = VoiceSelection(context_min_duration, context_min_ssim, save_embeddings)
    suffix = f"_withContextAudioMinDur{context_min_duration}MinSSIM{context_min_ssim}.json"
    file_name = extended_name(source.manifests, suffix)
    output.patterns = (glob.escape(file_name),)
    reused = None if reuse_embeddings is None else Path(reuse_embeddings)
    after = None
    if plot is not None:
        check_plot(Path(plot))  # checked before hours of work
        after = partial(plot_contexts, path=Path(plot), selection=selection)

    def plan(workspace: "Workspace") -> "ContextPlan":
        return plan_contexts(source, workspace, group_by, model)

    def finish(made: "ContextPlan", markers: "Sequence[Marker]", writer: "UnitWriter") -> dict[str, Any]:
        return join_contexts(file_name, made, markers, writer, context_min_ssim)

    return run_with_model(
        output,
        devices,
        lambda device: ContextsOnDevice(device, model, known_as, selection, batch_duration, reused),
        plan,
        finish,
        settings=source.settings | {"--speaker-model": known_as},
        after=after,
        input_files=[model],
        telemetry=TELEMETRY,
        kept_by_overwrite=(
            "embeddings of the same model and audio are used again; in another directory with "
            f"{option('--reuse-embeddings')} OUT"
        ),
    )
