"""The options of `extend-codec-codes`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from prepcli.engine.run.options import Devices, JobOptions
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import SetInput, WorkDir
from prepcli.storage.addresses import is_address
from prepcli.storage.paths import AnyPath, is_dir, is_file, path_of

_MANIFEST = re.compile(r"\.jsonl?(\.gz)?$|[,{}]|_OP_")
"""An input whose name has this pattern is taken for manifests, even if there is no file of this name."""


@dataclass(frozen=True)
class CodesOptions:
    """The options that shape the codes; durations in seconds."""

    codec_model: Annotated[
        str,
        Option(
            "NeMo AudioCodecModel: a .nemo file or a pretrained name. Or Mimi, DAC, EnCodec, X-codec, X-codec2, Higgs "
            "audio v2, NeuCodec or the tokenizer of Qwen3-TTS of Hugging Face: a folder, or a name such as kyutai/mimi "
            "(extra models). Or a codec of another package, NAME:ARGUMENT (entry points prepcli.codecs).",
            metavar="FILE.nemo|FOLDER|NAME",
            may_be_path=True,
        ),
    ]
    codec_name: Annotated[
        str | None, Option("Name in codes_<name>.", shown_default="from the codec's file or name", order=-1)
    ] = None
    num_codebooks: Annotated[
        int | None,
        Option("Use the first codebooks of a codec of Hugging Face.", shown_default="all", minimum=1),
    ] = None
    peak: Annotated[
        float | None,
        Option(
            "Scale each segment so that its largest sample is this, such as 0.9; 0 keeps its level.",
            shown_default="0.9 with --output-form omnivoice, else its level is kept",
            minimum=0,
            maximum=1,
            added_later=True,
        ),
    ] = None
    batch_duration: Annotated[
        float, Option("Maximum seconds of audio in a batch. Less takes less memory.", above=0)
    ] = 120.0
    pool_duration: Annotated[
        float,
        Option(
            "Minimum seconds of neighbouring shards that are batched and published together. With a smaller "
            "pool batches are less full; with a larger one, a stopped run loses more work.",
            above=0,
            order=1,
        ),
    ] = 7200.0
    precision: Annotated[
        Literal["fp32", "tf32", "bf16"],
        Option("Precision of the codec. tf32 and bf16 are faster; the summary says how many codes differ from fp32."),
    ] = "fp32"


@dataclass(frozen=True, kw_only=True)
class ExtendCodecCodes(SetInput, CodesOptions, JobOptions):
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
    """

    shar_dir: Annotated[
        str,
        Option(
            "Lhotse Shar set, as manifest-to-shar writes it; or NeMo manifest(s): a path, several separated by "
            "commas, or a brace pattern; or another data set (tarred, WeNet, webdataset, Parquet, zip).",
            metavar="SHAR_DIR|MANIFEST",
            several_paths=True,
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ]
    output_dir: Annotated[
        AnyPath | None,
        Option(
            "Directory for codes_<name>/, and for the manifest.",
            metavar="OUT",
            shown_default="SHAR_DIR",
            shapes_output=False,
        ),
    ] = None
    output_form: Annotated[
        Literal["shar", "files", "omnivoice", "qwen3-tts"] | None,
        Option(
            "The trainer that reads the codes: shar (fields of the set), files (a manifest and a file per segment), "
            "omnivoice (tars with labels), or qwen3-tts (JSON lines).",
            shown_default="shar for a Shar set, else files",
            added_later=True,
        ),
    ] = None
    shard_size: Annotated[
        int | None,
        Option(
            "Maximum number of records per tar of omnivoice.",
            shown_default="1000, or less for 32 tars",
            minimum=1,
            needs="output_form",
            added_later=True,
        ),
    ] = None
    ref_audio: Annotated[
        Path | None,
        Option(
            "Audio of the voice, at 24 kHz, for all lines of qwen3-tts.",
            shown_default="the field ref_audio",
            metavar="FILE",
            must_exist="file",
            needs="output_form",
            added_later=True,
        ),
    ] = None
    work_dir: WorkDir = None
    audio_base_dir: Annotated[
        AnyPath | None,
        Option(
            "Base folder of relative audio paths in a manifest.",
            shown_default="the manifest's folder",
            must_exist="folder",
            shapes_output=False,
        ),
    ] = None
    partial: Annotated[
        bool,
        Option("Encode the finished shards of a Shar set that is not complete.", shapes_output=False),
    ] = False
    devices: Devices = "auto"

    @property
    def is_manifest(self) -> bool:
        """Whether the input is read as manifests, not as a Shar set.

        True for a file, and for a name that `_MANIFEST` matches. A folder must hold neither a Shar set nor codes; in
        addition, it must hold another data set, or `--output-dir` must be given.
        """
        name = self.shar_dir
        if is_dir(name):
            from prepcli.formats.sets import sets_in  # needs NumPy, which `--help` does not import

            kinds = {one.kind for one in sets_in(path_of(name))}
            return bool(kinds or self.output_dir) and not kinds & {"shar", "codes"}
        return _MANIFEST.search(name) is not None or is_file(name)

    @property
    def form(self) -> str:
        """The value of `--output-form`; if it is not given, `files` for a manifest, else `shar`."""
        return self.output_form or ("files" if self.is_manifest else "shar")

    def check_input(self) -> None:
        """Check that the options agree with the input.

        Raises:
            UsageError: an option is missing, or is for another kind of input or output.
        """
        form = self.form
        if form == "shar" and self.is_manifest:
            raise UsageError(
                f"{option('--output-form', form)} adds codes to a Shar set: make one first (prepcli manifest-to-shar)"
            )
        if form != "shar" and self.output_dir is None:
            what = "of a manifest, the codes and a new manifest are written" if form == "files" else "a set is written"
            raise UsageError(f"{what}: give {option('--output-dir')} OUT")
        if form != "shar" and is_address(self.output_dir or ""):
            reader, of = ("NeMo", "of a manifest ") if form == "files" else (form, "")
            raise UsageError(
                f"{option('--output-dir', self.output_dir)}: {reader} reads the codes {of}only from files; "
                "give a local folder, or make a Shar set first (prepcli manifest-to-shar), whose codes can be in an "
                "object store"
            )
        if form != "shar" and self.partial:
            raise UsageError(f"{option('--partial')} is for a Shar set; leave it out for a manifest")
        if not self.is_manifest and self.audio_base_dir is not None:
            raise UsageError(f"{option('--audio-base-dir')} is for a manifest; a Shar set holds its audio")
        for name, value, owner in (
            ("--shard-size", self.shard_size, "omnivoice"),
            ("--ref-audio", self.ref_audio, "qwen3-tts"),
        ):
            if value is not None and form != owner:
                raise UsageError(f"{option(name, value)} is for {option('--output-form', owner)}; leave it out")
