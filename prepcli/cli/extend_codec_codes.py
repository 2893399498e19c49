"""`prepcli extend-codec-codes`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from prepcli.cli.groups import takes
from prepcli.cli.options import Devices, JobOptions

if TYPE_CHECKING:
    from prepcli.models.protocols import Precision


@takes(common=JobOptions)
def extend_codec_codes(
    shar_dir: Annotated[
        Path, typer.Argument(metavar="SHAR_DIR", help="Lhotse Shar set, as manifest-to-shar makes it.")
    ],
    codec_model: Annotated[
        str, typer.Option(metavar="FILE.nemo|NAME", help="NeMo AudioCodecModel: a .nemo file or a pretrained name.")
    ],
    codec_name: Annotated[
        str | None, typer.Option(help="Name in codes_<name>.", show_default="from the codec's file or name")
    ] = None,
    output_dir: Annotated[
        Path | None, typer.Option(help="Directory for codes_<name>/.", show_default="SHAR_DIR")
    ] = None,
    batch_duration: Annotated[
        float, typer.Option(help="Seconds of audio in a batch, at most. Less takes less memory.")
    ] = 120.0,
    pool_duration: Annotated[
        float,
        typer.Option(
            help="Seconds of neighbouring shards that are batched and published together, at least. Less fills "
            "batches worse; more loses more when a run is stopped."
        ),
    ] = 7200.0,
    precision: Annotated[
        str, typer.Option(help="fp32, tf32 or bf16. For the faster ones the summary says how many codes differ.")
    ] = "fp32",
    devices: Devices = "auto",
    *,
    common: JobOptions,
) -> None:
    """Give every cut of a Lhotse Shar set the codec codes of its target and context audio.

    Writes codes_<name>/target_codes/codes.*.tar and codes_<name>/context_codes/codes.*.tar in step with the cuts, int16
    arrays (codebooks, frames); the frame rate is the model's. Later codecs go beside earlier ones.

    The codes are those of each segment alone: batches hold segments of equally many frames, so that nothing is padded.
    A segment that several cuts share is encoded once. Audio at another rate is resampled with torchaudio's sinc
    kernel, as lhotse does for training; soxr would be quicker on a processor, but changes 5 to 7 % of the codes.

    The same shards give the same bytes with any number of ranks, and on a processor with any number of threads and any
    --batch-duration and --pool-duration: there each segment is encoded by itself. On GPUs these two may change some
    codes in ten thousand by float rounding, as another kind of processor or GPU may.

    Run the same command again to continue after an interruption.

    Example: prepcli extend-codec-codes shar/ --codec-model codec.nemo --codec-name 21fps
    """
    from functools import partial

    from prepcli.cli.devices import run_on_devices
    from prepcli.codes.job import CodesJob, codes_workspace
    from prepcli.codes.plan import CodesOptions
    from prepcli.models.codecs import codec_name as name_codes

    engine = common.engine()
    options = CodesOptions(
        codec_model=codec_model,
        codec_name=name_codes(codec_model, codec_name),
        batch_duration=batch_duration,
        pool_duration=pool_duration,
        precision=cast("Precision", precision),
    )
    out = output_dir or shar_dir
    make_job = partial(CodesJob, shar_dir, out, options, num_workers=engine.num_workers)
    run_on_devices(
        make_job,
        devices,
        codes_workspace(out, options.codec_name),
        engine,
        dry_run=common.dry_run,
        as_json=common.as_json,
    )
