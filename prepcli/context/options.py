"""The options of `extend-context-audio`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from prepcli.engine.options import Devices, JobOptions
from prepcli.errors import UsageError
from prepcli.options import AudioBaseDir, Manifest, Option


@dataclass(frozen=True)
class ContextOptions:
    """What shapes the extended manifest.

    `speaker_model` names a model or its file, `context_min_duration` is in seconds, `context_min_ssim` a cosine.
    """

    audio_base_dir: AudioBaseDir = None
    speaker_model: Annotated[
        str, Option("titanet_large or another of NeMo's pretrained names, a .nemo file, or resemblyzer.")
    ] = "titanet_large"
    group_by: Annotated[
        str,
        Option(
            "What makes a voice: the field speaker; a preset for a corpus (libritts, hifitts, hifitts2, "
            "nvyt2505, rivaLindyRodney, rivaEmmaMeganSeanTom, jhsdGtc20Amp20Keynote); or regex:FIELD:PATTERN, the "
            "pattern's groups joined by _."
        ),
    ] = "speaker"
    context_min_duration: Annotated[float, Option("Minimum duration of a context (seconds).")] = 3.0
    context_min_ssim: Annotated[float, Option("Minimum cosine similarity of a context.")] = 0.6
    save_embeddings: Annotated[bool, Option("Keep the embeddings: OUT/embeddings/bundle_*.npy and .jsonl.")] = False

    def check(self) -> None:
        """Find what cannot work.

        Raises:
            UsageError: with the options' command-line names and what to do.
        """
        if not self.context_min_duration >= 0 or self.context_min_duration == float("inf"):
            raise UsageError(f"--context-min-duration {self.context_min_duration} is not a number of seconds from 0 on")
        if not -1 <= self.context_min_ssim <= 1:
            raise UsageError(f"--context-min-ssim {self.context_min_ssim} is not a cosine similarity from -1 to 1")


@dataclass(frozen=True, kw_only=True)
class ExtendContextAudio(ContextOptions, JobOptions):
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

    manifest: Manifest
    out: Annotated[
        Path, Option("Directory for the extended manifest.", metavar="OUT", is_argument=True, shapes_output=False)
    ]
    batch_duration: Annotated[
        float,
        Option("Maximum seconds of audio in a batch. Less takes less memory.", shapes_output=False),
    ] = 120.0
    plot: Annotated[
        Path | None,
        Option("Draw similarities and durations of contexts.", metavar="FILE.png", shapes_output=False),
    ] = None
    devices: Devices = "auto"
