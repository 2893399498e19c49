"""The Python API: a function per command. Made by scripts/update_generated.py; do not edit."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

from prepcli.interface.from_python import call, in_full

if TYPE_CHECKING:
    from prepcli.commands.blend.command import blend as blend
    from prepcli.commands.blend.report import BlendReport as BlendReport
    from prepcli.commands.download.asr import download_aishell as download_aishell
    from prepcli.commands.download.asr import download_aishell2 as download_aishell2
    from prepcli.commands.download.asr import download_an4 as download_an4
    from prepcli.commands.download.asr import download_common_voice as download_common_voice
    from prepcli.commands.download.asr import download_librispeech as download_librispeech
    from prepcli.commands.download.asr import download_mls as download_mls
    from prepcli.commands.download.by_lhotse import download_lhotse as download_lhotse
    from prepcli.commands.download.report import DownloadReport as DownloadReport
    from prepcli.commands.download.telephone import download_fisher as download_fisher
    from prepcli.commands.download.telephone import download_hub5 as download_hub5
    from prepcli.commands.download.tts import download_hifitts as download_hifitts
    from prepcli.commands.download.tts import download_hifitts2 as download_hifitts2
    from prepcli.commands.download.tts import download_libritts as download_libritts
    from prepcli.commands.download.tts import download_libritts_r as download_libritts_r
    from prepcli.commands.download.tts import download_ljspeech as download_ljspeech
    from prepcli.commands.download.tts import download_vctk as download_vctk
    from prepcli.commands.estimate_batch_sizes.command import estimate_batch_sizes as estimate_batch_sizes
    from prepcli.commands.estimate_batch_sizes.report import BatchSizesReport as BatchSizesReport
    from prepcli.commands.estimate_bins.command import estimate_bins as estimate_bins
    from prepcli.commands.estimate_bins.command import estimate_bins_2d as estimate_bins_2d
    from prepcli.commands.estimate_bins.command import estimate_token_bins as estimate_token_bins
    from prepcli.commands.estimate_bins.durations import BinsReport as BinsReport
    from prepcli.commands.estimate_bins.tokens import TokenBinsReport as TokenBinsReport
    from prepcli.commands.estimate_bins.two_d import Bins2dReport as Bins2dReport
    from prepcli.commands.exports.files.command import convert_audio as convert_audio
    from prepcli.commands.exports.mels.command import manifest_to_mels as manifest_to_mels
    from prepcli.commands.exports.parquet.command import manifest_to_parquet as manifest_to_parquet
    from prepcli.commands.exports.wenet.command import manifest_to_wenet as manifest_to_wenet
    from prepcli.commands.extend_context_audio.command import extend_context_audio as extend_context_audio
    from prepcli.commands.extend_text_context.command import extend_text_context as extend_text_context
    from prepcli.commands.filter.command import filter as filter
    from prepcli.commands.filter.report import FilterReport as FilterReport
    from prepcli.commands.find_duplicates.command import find_duplicates as find_duplicates
    from prepcli.commands.find_duplicates.report import DuplicatesReport as DuplicatesReport
    from prepcli.commands.fix_durations.command import fix_durations as fix_durations
    from prepcli.commands.index.command import index as index
    from prepcli.commands.index.report import IndexReport as IndexReport
    from prepcli.commands.inspect.command import inspect as inspect
    from prepcli.commands.inspect.report import Inspection as Inspection
    from prepcli.commands.make_manifest.command import make_manifest as make_manifest
    from prepcli.commands.manifest_to_shar.command import manifest_to_shar as manifest_to_shar
    from prepcli.commands.manifest_to_tarred.command import manifest_to_tarred as manifest_to_tarred
    from prepcli.commands.prepare_texts.command import prepare_texts as prepare_texts
    from prepcli.commands.score.command import score as score
    from prepcli.commands.split.command import split as split
    from prepcli.commands.split.report import SplitReport as SplitReport
    from prepcli.commands.status.command import status as status
    from prepcli.commands.verify.command import verify as verify
    from prepcli.commands.verify.report import VerifyReport as VerifyReport
    from prepcli.engine.run.report import Report as Report
    from prepcli.engine.run.status import Status as Status
    from prepcli.engine.run.status import Statuses as Statuses
    from prepcli.errors import IncompleteError as IncompleteError
    from prepcli.errors import PrepcliError as PrepcliError
    from prepcli.errors import TooManyRejectsError as TooManyRejectsError
    from prepcli.errors import UsageError as UsageError


def extend_codec_codes(
    shar_dir: str | PathLike[str] | Sequence[str | PathLike[str]],
    codec_model: str | PathLike[str],
    *,
    codec_name: str | None = None,
    output_dir: str | PathLike[str] | None = None,
    output_form: Literal["shar", "files", "omnivoice", "qwen3-tts"] | None = None,
    shard_size: int | None = None,
    ref_audio: str | PathLike[str] | None = None,
    audio_base_dir: str | PathLike[str] | None = None,
    partial: bool = False,
    devices: str = "auto",
    input_format: Literal["manifest", "tarred", "shar", "wenet", "webdataset", "parquet", "zip"] | None = None,
    split: str | None = None,
    audio_column: str | None = None,
    text_column: str | None = None,
    speaker_column: str | None = None,
    lang_column: str | None = None,
    id_column: str | None = None,
    name_encoding: Literal[
        "cp437",
        "cp850",
        "cp852",
        "cp866",
        "cp932",
        "cp949",
        "cp1250",
        "cp1251",
        "cp1252",
        "gb18030",
        "big5",
        "euc_jp",
        "koi8_r",
    ]
    | None = None,
    num_codebooks: int | None = None,
    peak: float | None = None,
    batch_duration: float = 120.0,
    precision: Literal["fp32", "tf32", "bf16"] = "fp32",
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    pool_duration: float = 7200.0,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
    work_dir: str | PathLike[str] | None = None,
) -> "Report":
    """Add the codec codes of target and context audio to every cut of a Lhotse Shar set, or to a manifest.

    Of a Shar set, writes codes_<name>/target_codes/codes.*.tar and codes_<name>/context_codes/codes.*.tar, aligned
    with the cuts: int16 arrays (codebooks, frames) at the frame rate of the model. Codes of several codecs can be
    in one set. Of manifests, writes OUT/codes_<name>/PATH.pt for each segment, and
    OUT/<stem>_withAudioCodes_<name>.json whose lines name these files, as NeMo's MagpieTTSDataset reads them; this
    needs output_dir OUT. output_form writes the codes of any input for another trainer.

    The codes of a segment do not depend on other segments, also in batches of mixed lengths on a GPU. A segment
    that several cuts or records share is encoded once. Audio at another rate is resampled with torchaudio's sinc
    kernel, as lhotse does for training; soxr is faster on a CPU, but changes 5 to 7 % of the codes.

    The output is identical for any number of ranks, and on a CPU for any number of threads and any batch_duration
    and pool_duration, because each segment is encoded alone. On GPUs, these two options and the kind of GPU may
    change a few codes in ten thousand by float rounding.

    Run the same call again to continue after an interruption.

    Args:
        shar_dir: Lhotse Shar set, as manifest-to-shar writes it; or NeMo manifest(s): a path, several separated by
            commas, or a brace pattern; or another data set (tarred, WeNet, webdataset, Parquet, zip). Or a list of
            paths.
        codec_model: NeMo AudioCodecModel: a .nemo file or a pretrained name. Or Mimi, DAC, EnCodec, X-codec,
            X-codec2, Higgs audio v2, NeuCodec or the tokenizer of Qwen3-TTS of Hugging Face: a folder, or a name
            such as kyutai/mimi (extra models). Or a codec of another package, NAME:ARGUMENT (entry points
            prepcli.codecs).
        codec_name: Name in codes_<name>. Default: from the codec's file or name.
        output_dir: Directory for codes_<name>/, and for the manifest. Default: SHAR_DIR.
        output_form: The trainer that reads the codes: shar (fields of the set), files (a manifest and a file per
            segment), omnivoice (tars with labels), or qwen3-tts (JSON lines). Default: shar for a Shar set, else
            files.
        shard_size: Maximum number of records per tar of omnivoice. Default: 1000, or less for 32 tars.
        ref_audio: Audio of the voice, at 24 kHz, for all lines of qwen3-tts. Default: the field ref_audio.
        audio_base_dir: Base folder of relative audio paths in a manifest. Default: the manifest's folder.
        partial: Encode the finished shards of a Shar set that is not complete.
        devices: auto (all GPUs, else CPU), cpu, or a number of GPUs.
        input_format: Kind of the input. Default: by its content.
        split: Split of a data set with several, such as train. Default: its only one.
        audio_column: Column, or extension in a tar, with the audio. Default: by type and name.
        text_column: Column or field with the text. Default: by its name: text, sentence, ....
        speaker_column: Column or field with the speaker. Default: by its name: speaker, ....
        lang_column: Column or field with the language. Default: by its name: lang, ....
        id_column: Column or field with the id. Default: by its name: id, ....
        name_encoding: Encoding of names in a zip or tar, if not UTF-8. Default: cp437 in a zip.
        num_codebooks: Use the first codebooks of a codec of Hugging Face. Default: all.
        peak: Scale each segment so that its largest sample is this, such as 0.9; 0 keeps its level. Default: 0.9
            with --output-form omnivoice, else its level is kept.
        batch_duration: Maximum seconds of audio in a batch. Less takes less memory.
        precision: Precision of the codec. tf32 and bf16 are faster; the summary says how many codes differ from
            fp32.
        pool_duration: Minimum seconds of neighbouring shards that are batched and published together. With a
            smaller pool batches are less full; with a larger one, a stopped run loses more work.
        work_dir: For an OUT in an object store (s3://bucket/prefix): the folder for the state of the run, which all
            ranks share. Default: the current folder.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

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
    return call("extend_codec_codes", locals())


in_full(
    globals(),
    "For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.",
    """\
    dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
    num_workers: Number of local worker processes. Default: available CPU cores.
    max_rejects: Maximum rejects: a share (below 1) or a count; records that your settings leave out do not
        count. More rejects: TooManyRejectsError.
    overwrite: Start again instead of continuing; only files that the earlier run has written are removed.
    retry_rejects: Try records again whose audio was missing or unreadable, or whose transcript file was
        missing, after it was repaired, or for which there was too little memory.
    rank: Rank of this process, from 0. Default: from the launcher.
    world_size: Number of ranks. Default: from the launcher.
    progress: Show a progress bar and notes on stderr.
    launch_id: A common name for ranks that are started together by hand.
    no_steal: Do only this rank's share: make no missing units of other ranks of the launch as well.
    verify_inputs: Compare the content of manifests with the index of an earlier start, even if their size and
        times are the same.
""",
    """\
    IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
    TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.
""",
)
