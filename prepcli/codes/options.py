"""The options of `extend-codec-codes`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from prepcli.engine.options import Devices, JobOptions
from prepcli.errors import UsageError
from prepcli.options import Option


@dataclass(frozen=True)
class CodesOptions:
    """What shapes the codes; durations in seconds."""

    codec_model: Annotated[
        str, Option("NeMo AudioCodecModel: a .nemo file or a pretrained name.", metavar="FILE.nemo|NAME")
    ]
    codec_name: Annotated[
        str | None, Option("Name in codes_<name>.", shown_default="from the codec's file or name")
    ] = None
    batch_duration: Annotated[float, Option("Maximum seconds of audio in a batch. Less takes less memory.")] = 120.0
    pool_duration: Annotated[
        float,
        Option(
            "Minimum seconds of neighbouring shards that are batched and published together. Less fills batches "
            "worse; more loses more when a run is stopped."
        ),
    ] = 7200.0
    precision: Annotated[
        Literal["fp32", "tf32", "bf16"],
        Option("Precision of the codec. For the faster ones the summary says how many codes differ."),
    ] = "fp32"

    def check(self) -> None:
        """Raises `UsageError` for what cannot work."""
        for name in ("batch_duration", "pool_duration"):
            if not getattr(self, name) > 0:
                raise UsageError(f"--{name.replace('_', '-')} {getattr(self, name)} is not a number of seconds above 0")


@dataclass(frozen=True, kw_only=True)
class ExtendCodecCodes(CodesOptions, JobOptions):
    """Give every cut of a Lhotse Shar set the codec codes of its target and context audio.

    Writes codes_<name>/target_codes/codes.*.tar and codes_<name>/context_codes/codes.*.tar aligned with the cuts, int16
    arrays (codebooks, frames); the frame rate is the model's. Later codecs go beside earlier ones.

    The codes are those of each segment alone: batches hold segments of equally many frames, so that nothing is padded.
    A segment that several cuts share is encoded once. Audio at another rate is resampled with torchaudio's sinc
    kernel, as lhotse does for training; soxr would be faster on a CPU, but changes 5 to 7 % of the codes.

    The same shards give the same bytes with any number of ranks, and on a processor with any number of threads and any
    --batch-duration and --pool-duration: there each segment is encoded by itself. On GPUs these two may change some
    codes in ten thousand by float rounding, as another kind of processor or GPU may.

    Run the same command again to continue after an interruption.

    Example: prepcli extend-codec-codes shar/ --codec-model codec.nemo --codec-name 21fps
    """

    shar_dir: Annotated[
        Path,
        Option(
            "Lhotse Shar set, as manifest-to-shar makes it.",
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
        Option("Encode what is there of a Shar set that manifest-to-shar has not finished.", shapes_output=False),
    ] = False
    devices: Devices = "auto"
