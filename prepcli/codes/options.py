"""The options of `extend-codec-codes`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from prepcli.engine.options import Devices, JobOptions
from prepcli.errors import UsageError
from prepcli.options import Option


@dataclass(frozen=True)
class CodesOptions:
    """The options that shape the codes; durations in seconds."""

    codec_model: Annotated[
        str,
        Option(
            "NeMo AudioCodecModel: a .nemo file or a pretrained name. Or Mimi, DAC or EnCodec of Hugging Face: a "
            "folder, or a name such as kyutai/mimi (extra hf-codecs).",
            metavar="FILE.nemo|FOLDER|NAME",
        ),
    ]
    codec_name: Annotated[
        str | None, Option("Name in codes_<name>.", shown_default="from the codec's file or name")
    ] = None
    num_codebooks: Annotated[
        int | None,
        Option("Use the first codebooks of Mimi, DAC or EnCodec.", shown_default="all", minimum=1),
    ] = None
    batch_duration: Annotated[float, Option("Maximum seconds of audio in a batch. Less takes less memory.")] = 120.0
    pool_duration: Annotated[
        float,
        Option(
            "Minimum seconds of neighbouring shards that are batched and published together. With a smaller "
            "pool batches are less full; with a larger one, a stopped run loses more work."
        ),
    ] = 7200.0
    precision: Annotated[
        Literal["fp32", "tf32", "bf16"],
        Option("Precision of the codec. tf32 and bf16 are faster; the summary says how many codes differ from fp32."),
    ] = "fp32"

    def check(self) -> None:
        """Check the values.

        Raises:
            UsageError: a duration is not above 0.
        """
        for name in ("batch_duration", "pool_duration"):
            if not getattr(self, name) > 0:
                raise UsageError(f"--{name.replace('_', '-')} {getattr(self, name)} is not a number of seconds above 0")


@dataclass(frozen=True, kw_only=True)
class ExtendCodecCodes(CodesOptions, JobOptions):
    """Add to every cut of a Lhotse Shar set the codec codes of its target and context audio.

    Writes codes_<name>/target_codes/codes.*.tar and codes_<name>/context_codes/codes.*.tar, aligned with the cuts:
    int16 arrays (codebooks, frames) at the frame rate of the model. Codes of several codecs can be in one set.

    The codes of a segment do not depend on other segments, also in batches of mixed lengths on a GPU. A segment that
    several cuts share is encoded once. Audio at another rate is resampled with torchaudio's sinc kernel, as lhotse does
    for training; soxr is faster on a CPU, but changes 5 to 7 % of the codes.

    The output is identical for any number of ranks, and on a CPU for any number of threads and any --batch-duration
    and --pool-duration, because each segment is encoded alone. On GPUs, these two options and the kind of GPU may
    change a few codes in ten thousand by float rounding.

    Run the same command again to continue after an interruption.

    Example: prepcli extend-codec-codes shar/ --codec-model codec.nemo --codec-name 21fps
    """

    shar_dir: Annotated[
        Path,
        Option(
            "Lhotse Shar set, as manifest-to-shar writes it.",
            metavar="SHAR_DIR",
            is_argument=True,
            shapes_output=False,
        ),
    ]
    output_dir: Annotated[
        Path | None,
        Option("Directory for codes_<name>/.", shown_default="SHAR_DIR", shapes_output=False),
    ] = None
    partial: Annotated[
        bool,
        Option("Encode the finished shards of a Shar set that is not complete.", shapes_output=False),
    ] = False
    devices: Devices = "auto"
