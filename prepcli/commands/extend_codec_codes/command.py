"""extend-codec-codes: adds the codes of an audio codec to a Lhotse Shar set, or to manifests."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import Unpack

from prepcli.engine.run.options import Devices, InputJobArguments
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText, folder_of
from prepcli.interface.shared_options import WorkDir
from prepcli.storage.addresses import is_address
from prepcli.storage.paths import AnyPath, is_dir, is_file, path_of

if TYPE_CHECKING:
    from prepcli.engine.run.report import Report

_MANIFEST = re.compile(r"\.jsonl?(\.gz)?$|[,{}]|_OP_")
"""An input whose name has this pattern is taken for manifests, even if there is no file of this name."""


@command("extend-codec-codes")
def extend_codec_codes(
    shar_dir: Annotated[
        Paths,
        Option(
            "Lhotse Shar set, as manifest-to-shar writes it; or NeMo manifest(s): a path, several separated by "
            "commas, or a brace pattern; or another data set (tarred, WeNet, webdataset, Parquet, zip).",
            metavar="SHAR_DIR|MANIFEST",
            several_paths=True,
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ],
    codec_model: Annotated[
        PathText,
        Option(
            "NeMo AudioCodecModel: a .nemo file or a pretrained name. Or Mimi, DAC, EnCodec, X-codec, X-codec2, Higgs "
            "audio v2, NeuCodec or the tokenizer of Qwen3-TTS of Hugging Face: a folder, or a name such as kyutai/mimi "
            "(extra models). Or a codec of another package, NAME:ARGUMENT (entry points prepcli.codecs).",
            metavar="FILE.nemo|FOLDER|NAME",
            may_be_path=True,
        ),
    ],
    *,
    output_dir: Annotated[
        PathText | None,
        Option(
            "Directory for codes_<name>/, and for the manifest.",
            metavar="OUT",
            shown_default="SHAR_DIR",
            shapes_output=False,
            takes_address=True,
        ),
    ] = None,
    output_form: Annotated[
        Literal["shar", "files", "omnivoice", "qwen3-tts"] | None,
        Option(
            "The trainer that reads the codes: shar (fields of the set), files (a manifest and a file per segment), "
            "omnivoice (tars with labels), or qwen3-tts (JSON lines).",
            shown_default="shar for a Shar set, else files",
            added_later=True,
        ),
    ] = None,
    shard_size: Annotated[
        int | None,
        Option(
            "Maximum number of records per tar of omnivoice.",
            shown_default="1000, or less for 32 tars",
            minimum=1,
            needs="output_form",
            added_later=True,
        ),
    ] = None,
    ref_audio: Annotated[
        PathText | None,
        Option(
            "Audio of the voice, at 24 kHz, for all lines of qwen3-tts.",
            shown_default="the field ref_audio",
            metavar="FILE",
            must_exist="file",
            needs="output_form",
            added_later=True,
        ),
    ] = None,
    work_dir: WorkDir = None,
    audio_base_dir: Annotated[
        PathText | None,
        Option(
            "Base folder of relative audio paths in a manifest.",
            shown_default="the manifest's folder",
            must_exist="folder",
            shapes_output=False,
            takes_address=True,
        ),
    ] = None,
    partial: Annotated[
        bool,
        Option("Encode the finished shards of a Shar set that is not complete.", shapes_output=False),
    ] = False,
    devices: Devices = "auto",
    codec_name: Annotated[
        str | None, Option("Name in codes_<name>.", shown_default="from the codec's file or name", order=-1)
    ] = None,
    num_codebooks: Annotated[
        int | None,
        Option("Use the first codebooks of a codec of Hugging Face.", shown_default="all", minimum=1),
    ] = None,
    peak: Annotated[
        float | None,
        Option(
            "Scale each segment so that its largest sample is this, such as 0.9; 0 keeps its level.",
            shown_default="0.9 with --output-form omnivoice, else its level is kept",
            minimum=0,
            maximum=1,
            added_later=True,
        ),
    ] = None,
    batch_duration: Annotated[
        float, Option("Maximum seconds of audio in a batch. Less takes less memory.", above=0)
    ] = 120.0,
    pool_duration: Annotated[
        float,
        Option(
            "Minimum seconds of neighbouring shards that are batched and published together. With a smaller "
            "pool batches are less full; with a larger one, a stopped run loses more work.",
            above=0,
            order=1,
        ),
    ] = 7200.0,
    precision: Annotated[
        Literal["fp32", "tf32", "bf16"],
        Option("Precision of the codec. tf32 and bf16 are faster; the summary says how many codes differ from fp32."),
    ] = "fp32",
    **more: Unpack[InputJobArguments],
) -> "Report":
    """Add the codec codes of target and context audio to every cut of a Lhotse Shar set, or to a manifest.

    Of a Shar set, writes codes_<name>/target_codes/codes.*.tar and codes_<name>/context_codes/codes.*.tar, aligned with
    the cuts: int16 arrays (codebooks, frames) at the frame rate of the model. Codes of several codecs can be in one
    set. Of manifests, writes OUT/codes_<name>/PATH.pt for each segment, and OUT/<stem>_withAudioCodes_<name>.json whose
    lines name these files, as NeMo's MagpieTTSDataset reads them; this needs --output-dir OUT. --output-form writes
    the codes of any input for another trainer.

    The codes of a segment do not depend on other segments, also in batches of mixed lengths on a GPU. A segment that
    several cuts or records share is encoded once. Audio at another rate is resampled with torchaudio's sinc kernel, as
    lhotse does for training; soxr is faster on a CPU, but changes 5 to 7 % of the codes.

    The output is identical for any number of ranks, and on a CPU for any number of threads and any --batch-duration
    and --pool-duration, because each segment is encoded alone. On GPUs, these two options and the kind of GPU may
    change a few codes in ten thousand by float rounding.

    Run the same command again to continue after an interruption.

    Example: prepcli extend-codec-codes shar/ --codec-model codec.nemo --codec-name 21fps

    Returns:
        The report of the run. For a Shar set, `outputs` has `target_codes` and, if there is context audio,
        `context_codes`; for OmniVoice, it has `data_list`; for other outputs, it has the new `manifest`.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.extend_codec_codes("shar", "codec.nemo", codec_name="21fps", devices="cpu")
        >>> report.outputs["target_codes"]
        '/.../shar/codes_21fps/target_codes/codes._OP_000000..000002_CL_.tar'
    """
    from prepcli.commands.extend_codec_codes.settings import CodecSettings
    from prepcli.commands.extend_codec_codes.shar_codes import add_to_shar
    from prepcli.engine.run.function import Output
    from prepcli.formats.codes import CODES_FOLDER
    from prepcli.formats.names import check_loadable
    from prepcli.interface.calls import current_call
    from prepcli.interface.options import settings_of
    from prepcli.jobs.inputs.kinds import SHAR
    from prepcli.jobs.inputs.named import refuse_unused
    from prepcli.jobs.source import RecordSource
    from prepcli.models.codecs import check_codec_model
    from prepcli.models.codecs import codec_name as name_of
    from prepcli.storage.containers import Catalogue

    named = str(shar_dir)
    given_out = None if output_dir is None else path_of(str(output_dir))
    base = None if audio_base_dir is None else path_of(str(audio_base_dir))
    reference = None if ref_audio is None else Path(ref_audio)
    is_manifest = _is_manifest(named, has_output=given_out is not None)
    form = output_form or ("files" if is_manifest else "shar")
    _check_input(form, is_manifest, given_out, base, shard_size, reference, partial)
    codec = CodecSettings(
        codec_model=str(codec_model),
        codec_name=name_of(str(codec_model), codec_name),
        num_codebooks=num_codebooks,
        peak=peak,
        batch_duration=batch_duration,
        pool_duration=pool_duration,
        precision=precision,
        shard_size=shard_size,
        ref_audio=reference,
    )
    folder, state = CODES_FOLDER.format(codec.codec_name), folder_of(work_dir)
    shaping = settings_of(current_call().options)
    if form in ("shar", "files"):  # for these forms, the settings of older runs lack the option
        shaping.pop("--output-form", None)
    if form == "shar":
        output = Output(str(given_out or named), inside=folder, others=[path_of(named)])
        check_loadable(output.path / folder)
        refuse_unused([Catalogue(named, kind=SHAR)], current_call().options)
        check_codec_model(codec.codec_model, codec.num_codebooks)
        return add_to_shar(path_of(named), output, codec, shaping, devices, partial=partial, work_dir=state)
    output = Output(str(given_out), inside=folder)
    source = RecordSource(named, output)
    check_codec_model(codec.codec_model, codec.num_codebooks)
    return _run_of(form)(source, output, codec, shaping, devices)


def _run_of(form: str) -> "Callable[..., Report]":
    """The function that writes the codes of records in a form."""
    from prepcli.commands.extend_codec_codes.manifest_codes import codes_of_manifests
    from prepcli.commands.extend_codec_codes.trainer_codes import codes_for_omnivoice, codes_for_qwen3_tts

    if form == "files":
        return codes_of_manifests
    return codes_for_omnivoice if form == "omnivoice" else codes_for_qwen3_tts


def _is_manifest(name: str, has_output: bool) -> bool:
    """Whether the input is read as manifests, not as a Shar set.

    True for a file, and for a name that `_MANIFEST` matches. A folder must hold neither a Shar set nor codes; in
    addition, it must hold another data set, or `--output-dir` must be given.
    """
    if is_dir(name):
        from prepcli.formats.sets import sets_in  # needs NumPy, which `--help` does not import

        kinds = {stored.kind for stored in sets_in(path_of(name))}
        return bool(kinds or has_output) and not kinds & {"shar", "codes"}
    return _MANIFEST.search(name) is not None or is_file(name)


def _check_input(
    form: str,
    is_manifest: bool,
    output_dir: AnyPath | None,
    audio_base_dir: AnyPath | None,
    shard_size: int | None,
    ref_audio: Path | None,
    partial: bool,
) -> None:
    """Raise `UsageError` if an option is missing, or is for another kind of input or output."""
    if form == "shar" and is_manifest:
        raise UsageError(
            f"{option('--output-form', form)} adds codes to a Shar set: make one first (prepcli manifest-to-shar)"
        )
    if form != "shar" and output_dir is None:
        what = "of a manifest, the codes and a new manifest are written" if form == "files" else "a set is written"
        raise UsageError(f"{what}: give {option('--output-dir')} OUT")
    if form != "shar" and is_address(output_dir or ""):
        reader, of = ("NeMo", "of a manifest ") if form == "files" else (form, "")
        raise UsageError(
            f"{option('--output-dir', output_dir)}: {reader} reads the codes {of}only from files; "
            "give a local folder, or make a Shar set first (prepcli manifest-to-shar), whose codes can be in an "
            "object store"
        )
    if form != "shar" and partial:
        raise UsageError(f"{option('--partial')} is for a Shar set; leave it out for a manifest")
    if not is_manifest and audio_base_dir is not None:
        raise UsageError(f"{option('--audio-base-dir')} is for a manifest; a Shar set holds its audio")
    for name, value, owner in (
        ("--shard-size", shard_size, "omnivoice"),
        ("--ref-audio", ref_audio, "qwen3-tts"),
    ):
        if value is not None and form != owner:
            raise UsageError(f"{option(name, value)} is for {option('--output-form', owner)}; leave it out")
