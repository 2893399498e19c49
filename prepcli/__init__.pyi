"""Made by scripts/update_generated.py of the options of each command; do not edit."""

from collections.abc import Sequence
from os import PathLike
from typing import Literal

from prepcli.bins.durations import BinsReport as BinsReport
from prepcli.bins.tokens import TokenBinsReport as TokenBinsReport
from prepcli.bins.two_d import Bins2dReport as Bins2dReport
from prepcli.corpora.running import DownloadReport as DownloadReport
from prepcli.engine.report import Report as Report
from prepcli.engine.status import Status as Status
from prepcli.errors import IncompleteError as IncompleteError
from prepcli.errors import PrepcliError as PrepcliError
from prepcli.errors import TooManyRejectsError as TooManyRejectsError
from prepcli.errors import UsageError as UsageError
from prepcli.inspection.report import Inspection as Inspection
from prepcli.verification.verify import VerifyReport as VerifyReport

__all__: list[str]
__version__: str

def download_aishell(
    data_root: str | PathLike[str],
    *,
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> DownloadReport:
    """Fetch AISHELL-1 and make NeMo manifests of it.

    Writes D/data_aishell/train.json, dev.json and test.json, and vocab.txt with the characters of all texts, the
    most frequent first. The recordings stay as they are published. Texts have no blanks.

    Run the same call again to continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        base_url: Fetch from this address, to which the archive's name is added. Default: the publisher's.
        archive: An archive that is there already, under its published name; checked as if it were fetched.
            Repeatable.
        checksums: For mirrors with other archives: lines of md5sum or sha256sum, instead of the published
            checksums.
        keep_archives: Keep the archives in D/archives.
        fetch_only: Fetch and unpack, and leave the rest to a later call, perhaps with many ranks.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report; of several data sets `data_sets` has each one's by its name. `outputs` are the manifests.

    Raises:
        UsageError: there is no such data set, something else stands in the way, or the given archive is damaged.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_aishell("data")
        >>> report.outputs["train"]
        'data/data_aishell/train.json'
    """

def download_aishell2(
    audio_folder: str | PathLike[str],
    data_root: str | PathLike[str],
    *,
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> DownloadReport:
    """Make NeMo manifests of a copy of AISHELL-2.

    Writes D/train.json, dev.json and test.json (what is there of them), and D/vocab.txt with the characters of the
    training texts, the most frequent first. The recordings stay where they are; the manifests name them absolutely.

    Args:
        audio_folder: The corpus: holds iOS/data, or transcript/ and wav/.
        data_root: Folder for the corpus, its audio and its manifests.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report; of several data sets `data_sets` has each one's by its name. `outputs` are the manifests.

    Raises:
        UsageError: there is no such data set, something else stands in the way, or the given archive is damaged.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_aishell2("AISHELL-2", "data")
        >>> report.outputs["train"]
        'data/train.json'
    """

def download_an4(
    data_root: str | PathLike[str],
    *,
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> DownloadReport:
    """Fetch AN4 (CMU's census database) and make NeMo manifests of it.

    Writes D/an4/train_manifest.json, D/an4/test_manifest.json and a .wav beside each .sph. Nobody publishes a
    checksum of the archive: its length, the CRC inside and the end of the tar are checked; checksums takes your
    own.

    Run the same call again to continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        base_url: Fetch from this address, to which the archive's name is added. Default: the publisher's.
        archive: An archive that is there already, under its published name; checked as if it were fetched.
            Repeatable.
        checksums: For mirrors with other archives: lines of md5sum or sha256sum, instead of the published
            checksums.
        keep_archives: Keep the archives in D/archives.
        fetch_only: Fetch and unpack, and leave the rest to a later call, perhaps with many ranks.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report; of several data sets `data_sets` has each one's by its name. `outputs` are the manifests.

    Raises:
        UsageError: there is no such data set, something else stands in the way, or the given archive is damaged.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_an4("data")
        >>> report.outputs["train_manifest"]
        'data/an4/train_manifest.json'
    """

def download_fisher(
    ldc_root: str | PathLike[str] | Sequence[str | PathLike[str]],
    dest_root: str | PathLike[str],
    *,
    min_slice_duration: float = 10.0,
    keep_low_conf: bool = False,
    remove_noises: bool = False,
    noises_to_emoji: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> Report:
    """Slice a licensed copy of Fisher English (1,960 hours, from the LDC) into utterances of one speaker.

    Reads LDC2004S13-Part1 and LDC2005S13-Part2 as the LDC ships them, one part alone as well. Writes
    DEST/{train,val,test}/fe_03_NNNNN_A_001.wav (8 kHz, 16 bits) and DEST/manifest_{train,val,test}.json: 80, 10 and
    10 % of the conversations by their sorted numbers.

    A slice joins utterances of one speaker until min_slice_duration is reached, without the silence between them;
    what is left at the end of a conversation is listed as a reject. A record is a line of a transcript. Recordings
    that are compressed with shorten need sph2pipe (`lhotse install-sph2pipe`); the others are read as they are.

    Memory, per worker: a slice, or a whole conversation (80 MB in all) where it is compressed. Run the same command
    again to continue after an interruption.

    Args:
        ldc_root: Folder with LDC2004S13, LDC2005S13 or both, and their transcripts; may be given more than once.
        dest_root: Directory of the slices and manifests.
        min_slice_duration: Minimum seconds of speech per slice.
        keep_low_conf: Keep lines with (( )), of which the transcriber was not sure.
        remove_noises: Leave [laughter], [noise] and the like out of the text.
        noises_to_emoji: Write laughter and other noises as emoji.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_fisher("LDC", "fisher", remove_noises=True)
        >>> report.outputs["manifest_train"]
        'fisher/manifest_train.json'
    """

def download_hub5(
    data_root: str | PathLike[str] | Sequence[str | PathLike[str]],
    dest_root: str | PathLike[str],
    *,
    min_slice_duration: float = 10.0,
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> Report:
    """Slice a licensed copy of the 2000 HUB5 English evaluation (11 hours, from the LDC) into a test set.

    Reads hub5e_00/english/*.sph and the reference hub5e00.english.000405.stm, less the stretches that it leaves out
    of scoring. Writes DEST/audio/en_4156_a_001.wav (8 kHz, 16 bits), DEST/manifest_hub5.json and DEST/vocab.txt,
    the characters of the texts.

    Slices are made as by `download fisher`. Recordings that are compressed with shorten need sph2pipe (`lhotse
    install-sph2pipe`). Run the same call again to continue after an interruption.

    Args:
        data_root: Folder with LDC2002S09 and LDC2002T43; may be given more than once.
        dest_root: Directory of the slices and manifests.
        min_slice_duration: Minimum seconds of speech per slice; 0: each utterance by itself.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_hub5("LDC", "hub5")
        >>> report.outputs["manifest_hub5"]
        'hub5/manifest_hub5.json'
    """

def download_librispeech(
    data_root: str | PathLike[str],
    *,
    data_sets: str = "dev_clean",
    audio_format: Literal["wav", "flac"] = "wav",
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> DownloadReport:
    """Fetch LibriSpeech or Mini LibriSpeech and make NeMo manifests of it.

    Writes D/LibriSpeech/<set>-processed/*.wav and D/<data_set>.json with audio_filepath, duration, lower-case text,
    speaker and chapter. Paths are relative to the manifest. The archives are checked by the published checksums.

    Run the same call again to continue, also in the middle of an archive; other data sets can be added later.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        data_sets: dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500,
            with commas between; ALL of these; or mini (dev_clean_2 and train_clean_5).
        audio_format: wav: convert the published FLAC; flac: use it as it is.
        base_url: Fetch from this address, to which the archive's name is added. Default: the publisher's.
        archive: An archive that is there already, under its published name; checked as if it were fetched.
            Repeatable.
        checksums: For mirrors with other archives: lines of md5sum or sha256sum, instead of the published
            checksums.
        keep_archives: Keep the archives in D/archives.
        fetch_only: Fetch and unpack, and leave the rest to a later call, perhaps with many ranks.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report; of several data sets `data_sets` has each one's by its name. `outputs` are the manifests.

    Raises:
        UsageError: there is no such data set, something else stands in the way, or the given archive is damaged.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_librispeech("data", data_sets="mini")
        >>> report.outputs["dev_clean_2"]
        'data/dev_clean_2.json'
    """

def download_ljspeech(
    data_root: str | PathLike[str],
    *,
    val_size: int = 100,
    test_size: int = 500,
    split_seed: int = 0,
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> DownloadReport:
    """Fetch LJSpeech 1.1 and make NeMo manifests of it, and the file lists of Tacotron 2 and WaveGlow.

    Writes D/LJSpeech-1.1/{train,val,test}_manifest.json with text and normalized_text, and
    D/filelists/ljs_audio_text_{train,val,test}_filelist.txt with lines path|normalised text, paths from D. The
    recordings stay as they are published.

    Run the same call again to continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        val_size: Utterances of the validation part.
        test_size: Utterances of the test part.
        split_seed: Another seed gives another split; the same on every machine.
        base_url: Fetch from this address, to which the archive's name is added. Default: the publisher's.
        archive: An archive that is there already, under its published name; checked as if it were fetched.
            Repeatable.
        checksums: For mirrors with other archives: lines of md5sum or sha256sum, instead of the published
            checksums.
        keep_archives: Keep the archives in D/archives.
        fetch_only: Fetch and unpack, and leave the rest to a later call, perhaps with many ranks.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report; of several data sets `data_sets` has each one's by its name. `outputs` are the manifests.

    Raises:
        UsageError: there is no such data set, something else stands in the way, or the given archive is damaged.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_ljspeech("data", val_size=1, test_size=1)
        >>> report.outputs["val_manifest"]
        'data/LJSpeech-1.1/val_manifest.json'
    """

def estimate_bins(
    data: str | PathLike[str],
    *,
    text_field: str = "text",
    lang_field: str = "lang",
    num_buckets: int = 30,
    num_examples: int = -1,
    min_duration: float | None = None,
    max_duration: float | None = None,
    batch_duration: float = 360.0,
    num_workers: int | None = None,
    progress: bool = False,
    plot: str | PathLike[str] | None = None,
    write_config: str | PathLike[str] | None = None,
    max_rejects: float = 0.05,
) -> BinsReport:
    """Estimate duration bins for bucketed training, and how much padding they leave.

    The bins are those of lhotse and NeMo; the lines to paste into a training config are NeMo's. Weights of the
    input decide which examples come first (-n); over all of them they change nothing.

    Args:
        data: Manifest(s): a path, several with commas, or brace forms; [[a.json,0.7],[b.json,0.3]]; an input_cfg
            .yaml; a Shar or tarred directory; or key=value with manifest_filepath, shar_path, cuts_path or
            input_cfg.
        text_field: Ignored: durations need no text; calls can be shared.
        lang_field: Ignored: durations need no language; calls can be shared.
        num_buckets: Number of buckets.
        num_examples: Use so many examples, from the start of each input in proportion to its weight. -1: all.
        min_duration: Leave out shorter examples (seconds).
        max_duration: Leave out longer examples (seconds).
        batch_duration: Seconds in a batch, for the share of padding.
        num_workers: Local worker processes. Default: the processors this process may use.
        progress: Show a progress bar, and notes, on stderr.
        plot: Draw the data with the bins.
        write_config: Put the options into a data loader's config: into model.train_ds, data.train_ds or train_ds of
            a file that is there, whose other keys and comments stay, or into a new file.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.

    Returns:
        The bins in seconds, and the share of padding from 0 to 1; `durations` is a sorted array, seconds.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or fewer examples than buckets.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Example:
        >>> import prepcli
        >>> report = prepcli.estimate_bins("manifest.json", num_buckets=5)
        >>> report.bucket_duration_bins
        [1.74, 3.26, 3.64, 5.06]
        >>> report.max_duration
        6.52
    """

def estimate_bins_2d(
    data: str | PathLike[str],
    tokenizer: str | Sequence[str],
    *,
    num_buckets: int = 30,
    sub_buckets: int = 2,
    token_outlier_threshold: float = 4.0,
    num_examples: int = -1,
    min_duration: float | None = None,
    max_duration: float | None = None,
    text_field: str = "text",
    lang_field: str = "lang",
    batch_duration: float = 360.0,
    num_workers: int | None = None,
    progress: bool = False,
    langs: str | Sequence[str] = (),
    prompt_format: str | None = None,
    prompt: str | None = None,
    plot: str | PathLike[str] | None = None,
    write_config: str | PathLike[str] | None = None,
    max_rejects: float = 0.05,
) -> Bins2dReport:
    """Estimate bins by duration and number of tokens, for two-dimensional bucketing.

    The numbers are those of NeMo's script, and so are the lines to paste into a training config. max_tps is only
    needed where low quality data have long transcripts for little audio.

    Args:
        data: Manifest(s): a path, several with commas, or brace forms; [[a.json,0.7],[b.json,0.3]]; an input_cfg
            .yaml; a Shar or tarred directory; or key=value with manifest_filepath, shar_path, cuts_path or
            input_cfg.
        tokenizer: A SentencePiece model; a Hugging Face tokenizer.json, folder or name; a folder with one of them.
            Several, one a language: with langs.
        num_buckets: Number of buckets of durations.
        sub_buckets: Number of buckets of tokens in each of these.
        token_outlier_threshold: Leave out examples whose tokens per second are so many standard deviations above
            the mean.
        num_examples: Use so many examples, from the start of each input in proportion to its weight. -1: all.
        min_duration: Leave out shorter examples (seconds).
        max_duration: Leave out longer examples (seconds).
        text_field: The field with the transcript.
        lang_field: The field with the language.
        batch_duration: Seconds in a batch, for the share of padding.
        num_workers: Local worker processes. Default: the processors this process may use.
        progress: Show a progress bar, and notes, on stderr.
        langs: The language of each tokenizer. Default: one for all.
        prompt_format: Count texts in one of NeMo's prompts, e.g. canary (with the extra nemo).
        prompt: Slots of the prompt for records without them: [{'role':'user','slots':{'source_lang':'en'}}].
        plot: Draw the data with the bins.
        write_config: Put the options into a data loader's config: into model.train_ds, data.train_ds or train_ds of
            a file that is there, whose other keys and comments stay, or into a new file.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.

    Returns:
        The bins as pairs of seconds and tokens, `max_tps` in tokens per second, and the shares of padding from 0 to 1.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or fewer examples than buckets.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Example:
        >>> import prepcli
        >>> report = prepcli.estimate_bins_2d("manifest.json", "tokenizer.model", num_buckets=3, sub_buckets=2)
        >>> report.num_examples, len(report.bucket_duration_bins)
        (48, 6)
    """

def estimate_token_bins(
    data: str | PathLike[str],
    tokenizer: str | Sequence[str],
    *,
    num_buckets: int = 30,
    sub_buckets: int | None = None,
    token_outlier_threshold: float = 6.0,
    num_examples: int = -1,
    min_tokens: float | None = None,
    max_tokens: float | None = None,
    max_tpt: float | None = None,
    measure_total_length: bool = False,
    token_equivalent_duration: float = 0.08,
    audio_locator_tag: str | None = None,
    batch_tokens: float = 16000,
    num_workers: int | None = None,
    progress: bool = False,
    langs: str | Sequence[str] = (),
    prompt_format: str | None = None,
    prompt: str | None = None,
    plot: str | PathLike[str] | None = None,
    write_config: str | PathLike[str] | None = None,
    max_rejects: float = 0.05,
) -> TokenBinsReport:
    """Estimate bins by number of tokens, for bucketed training on texts and conversations.

    With prompt_format the lengths are those that NeMo's samplers measure. Without one the last turn of an example
    is its output (of pairs the target, of plain texts all), and everything before it the input.

    Args:
        data: An input_cfg with entries of type txt, txt_pair or multimodal_conversation.
        tokenizer: A SentencePiece model; a Hugging Face tokenizer.json, folder or name; a folder with one of them.
            Several, one a language: with langs.
        num_buckets: Number of buckets of lengths.
        sub_buckets: Number of buckets of output tokens in each of these. Default: one dimension.
        token_outlier_threshold: Leave out examples whose output per input is so many standard deviations above the
            mean.
        num_examples: Use so many examples, from the start of each input in proportion to its weight. -1: all.
        min_tokens: Leave out examples with fewer tokens.
        max_tokens: Leave out examples with more tokens.
        max_tpt: Leave out examples with more output tokens per input token than this.
        measure_total_length: An example is as long as input and output together (decoder-only models); else as its
            input. In two dimensions this is for min_tokens and max_tokens alone.
        token_equivalent_duration: Seconds of audio that count as one token, where the input does not say.
        audio_locator_tag: What stands for audio in a prompt, where the input does not say.
        batch_tokens: Tokens in a batch, for the share of padding.
        num_workers: Local worker processes. Default: the processors this process may use.
        progress: Show a progress bar, and notes, on stderr.
        langs: The language of each tokenizer. Default: one for all.
        prompt_format: Count texts in one of NeMo's prompts, e.g. canary (with the extra nemo).
        prompt: Slots of the prompt for records without them: [{'role':'user','slots':{'source_lang':'en'}}].
        plot: Draw the data with the bins.
        write_config: Put the options into a data loader's config: into model.train_ds, data.train_ds or train_ds of
            a file that is there, whose other keys and comments stay, or into a new file.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.

    Returns:
        The bins in tokens, or with `sub_buckets` as pairs of input and output tokens, and the shares of padding.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or fewer examples than buckets.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Example:
        >>> import prepcli
        >>> report = prepcli.estimate_token_bins("texts.yaml", "tokenizer.model", measure_total_length=True)
        >>> report.num_examples
        48
    """

def extend_codec_codes(
    shar_dir: str | PathLike[str],
    codec_model: str,
    *,
    output_dir: str | PathLike[str] | None = None,
    partial: bool = False,
    devices: str = "auto",
    codec_name: str | None = None,
    batch_duration: float = 120.0,
    pool_duration: float = 7200.0,
    precision: Literal["fp32", "tf32", "bf16"] = "fp32",
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> Report:
    """Give every cut of a Lhotse Shar set the codec codes of its target and context audio.

    Writes codes_<name>/target_codes/codes.*.tar and codes_<name>/context_codes/codes.*.tar aligned with the cuts,
    int16 arrays (codebooks, frames); the frame rate is the model's. Later codecs go beside earlier ones.

    The codes are those of each segment alone: batches hold segments of equally many frames, so that nothing is
    padded. A segment that several cuts share is encoded once. Audio at another rate is resampled with torchaudio's
    sinc kernel, as lhotse does for training; soxr would be faster on a CPU, but changes 5 to 7 % of the codes.

    The same shards give the same bytes with any number of ranks, and on a processor with any number of threads and
    any batch_duration and pool_duration: there each segment is encoded by itself. On GPUs these two may change some
    codes in ten thousand by float rounding, as another kind of processor or GPU may.

    Run the same call again to continue after an interruption.

    Args:
        shar_dir: Lhotse Shar set, as manifest-to-shar makes it.
        codec_model: NeMo AudioCodecModel: a .nemo file or a pretrained name.
        output_dir: Directory for codes_<name>/. Default: SHAR_DIR.
        partial: Encode what is there of a Shar set that manifest-to-shar has not finished.
        devices: auto (all GPUs, else CPU), cpu, or a number of GPUs.
        codec_name: Name in codes_<name>. Default: from the codec's file or name.
        batch_duration: Maximum seconds of audio in a batch. Less takes less memory.
        pool_duration: Minimum seconds of neighbouring shards that are batched and published together. Less fills
            batches worse; more loses more when a run is stopped.
        precision: Precision of the codec. For the faster ones the summary says how many codes differ.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report of the run; `outputs` has `target_codes` and, where there is context audio, `context_codes`.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.extend_codec_codes("shar", "codec.nemo", codec_name="21fps", devices="cpu")
        >>> report.outputs["target_codes"]
        'shar/codes_21fps/target_codes/codes._OP_000000..000002_CL_.tar'
    """

def extend_context_audio(
    manifest: str | PathLike[str],
    out: str | PathLike[str],
    *,
    batch_duration: float = 120.0,
    plot: str | PathLike[str] | None = None,
    devices: str = "auto",
    audio_base_dir: str | PathLike[str] | None = None,
    speaker_model: str = "titanet_large",
    group_by: str = "speaker",
    context_min_duration: float = 3.0,
    context_min_ssim: float = 0.6,
    save_embeddings: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> Report:
    """Give each record a context: the most similar other utterance of its voice that is long enough.

    Writes OUT/<stem>_withContextAudioMinDur3.0MinSSIM0.6.json: the records in the order of the input, each with
    context_speaker_similarity, context_audio_filepath, context_audio_offset, context_audio_duration,
    context_audio_text and, where the other record has one, context_audio_normalized_text. Records without a context
    are listed as rejects.

    The same records give the same file with any number of ranks, and on a processor with any number of threads and
    any batch_duration. Embeddings differ by float rounding between devices, and on GPUs with batch_duration: now
    and then in a similarity's last digits, hardly ever in the choice.

    Run the same call again to continue after an interruption.

    Args:
        manifest: NeMo manifest(s): a path, several with commas, or brace forms.
        out: Directory for the extended manifest.
        batch_duration: Maximum seconds of audio in a batch. Less takes less memory.
        plot: Draw similarities and durations of contexts.
        devices: auto (all GPUs, else CPU), cpu, or a number of GPUs.
        audio_base_dir: Folder that relative audio paths start from. Default: the manifest's folder.
        speaker_model: titanet_large or another of NeMo's pretrained names, a .nemo file, or resemblyzer.
        group_by: What makes a voice: the field speaker; a preset for a corpus (libritts, hifitts, hifitts2,
            nvyt2505, rivaLindyRodney, rivaEmmaMeganSeanTom, jhsdGtc20Amp20Keynote); or regex:FIELD:PATTERN, the
            pattern's groups joined by _.
        context_min_duration: Minimum duration of a context (seconds).
        context_min_ssim: Minimum cosine similarity of a context.
        save_embeddings: Keep the embeddings: OUT/embeddings/bundle_*.npy and .jsonl.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report of the run; `outputs["manifest"]` is the extended manifest.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.extend_context_audio("manifest.json", "context", speaker_model="resemblyzer")
        >>> report.outputs["manifest"]
        'context/manifest_withContextAudioMinDur3.0MinSSIM0.6.json'
    """

def inspect(
    path: str | PathLike[str],
    *,
    html: str | PathLike[str] | None = None,
    progress: bool = False,
    audio_base_dir: str | PathLike[str] | None = None,
    num_audio_files: int = 100,
    num_workers: int | None = None,
) -> Inspection:
    """Say what a file or directory is, and what is in it: records, hours, rates, codecs, speakers, lengths.

    Reads every line once and the headers of a sample of the audio; decodes nothing and changes nothing.

    Args:
        path: A manifest (or several, in any form of INPUT), a tarred set, a Shar or codes directory, cuts, tars,
            OUT.prepcli, rejects.jsonl, an audio file.
        html: Write a page with plots, to open in a browser.
        progress: Show a progress bar, and notes, on stderr.
        audio_base_dir: Folder that relative audio paths start from. Default: the manifest's folder.
        num_audio_files: Open the headers of so many audio files, evenly spread over the records.
        num_workers: Local worker processes. Default: the processors this process may use.

    Returns:
        What was found; durations in seconds, rates in Hz.

    Raises:
        UsageError: there is nothing, it is not known here, or it is damaged.
        IncompleteError: a worker process was killed.

    Example:
        >>> import prepcli
        >>> found = prepcli.inspect("manifest.json")
        >>> found.kind, found.records, found.speakers
        ('manifest', 48, 8)
    """

def manifest_to_shar(
    manifest: str | PathLike[str],
    out: str | PathLike[str],
    *,
    audio_base_dir: str | PathLike[str] | None = None,
    shard_size: int = 4096,
    audio_format: Literal["flac", "wav", "opus", "original"] = "flac",
    target_sample_rate: int | None = None,
    shuffle: bool = False,
    shuffle_seed: int = 0,
    check_audio: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> Report:
    """Turn NeMo manifests, with or without context audio, into Lhotse Shar shards for Magpie-TTS.

    Writes OUT/cuts/cuts.{000000}.jsonl.gz, OUT/target_audio/recording.{000000}.tar and, where the records name a
    context, OUT/context_audio/recording.{000000}.tar, as CutSet.from_shar(fields=...) and NeMo's
    MagpieTTSLhotseDataset read them. Within a shard a segment is decoded and encoded once, however many records use
    it; a whole mono file that is in the right format and rate already is copied byte for byte.

    Memory, per worker: 256 MB of encoded audio that the shard will need again (what exceeds it waits in a file
    beside OUT), the longest segment decoded, and about 10 MB for each 4096 records of shard_size; shared by all
    workers: 60 bytes a record of the manifests.

    Run the same call again to continue after an interruption.

    Args:
        manifest: NeMo manifest(s): a path, several with commas, or brace forms.
        out: Directory of the Shar data set.
        audio_base_dir: Folder that relative audio paths start from. Default: the manifest's folder.
        shard_size: Maximum number of records per shard.
        audio_format: Encode audio to this format; original: to each file's own.
        target_sample_rate: Resample to this rate (Hz). Default: as the files are; opus: 48000.
        shuffle: Shuffle records over all shards.
        shuffle_seed: Seed of shuffle.
        check_audio: Decode copied files too, to find damage in them.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report of the run; `outputs` has `cuts`, `target_audio` and, where there is any, `context_audio`.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_shar("manifest_with_context.json", "shar", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["cuts"]
        'shar/cuts/cuts._OP_000000..000002_CL_.jsonl.gz'
    """

def manifest_to_tarred(
    manifest: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    num_shards: int | None = None,
    shard_size: int | None = None,
    shard_hours: float | None = None,
    audio_base_dir: str | PathLike[str] | None = None,
    min_duration: float | None = None,
    max_duration: float | None = None,
    shuffle: bool = False,
    shuffle_seed: int = 0,
    sort_in_shards: bool = False,
    keep_files_together: bool = False,
    slice_with_offset: bool = False,
    force_codec: Literal["flac", "wav", "opus", "mp3"] | None = None,
    target_sample_rate: int | None = None,
    remainder: Literal["spread", "drop"] = "spread",
    buckets_num: int = 1,
    dynamic_buckets_num: int = 30,
    shard_manifests: bool = True,
    only_manifests: bool = False,
    check_audio: bool = False,
    concat_to: str | PathLike[str] | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    retry_rejects: bool = False,
    max_rejects: float = 0.05,
    num_workers: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    launch_id: str | None = None,
    progress: bool = False,
) -> Report:
    """Turn NeMo manifests into tar shards with their manifests.

    Writes OUT/audio_{i}.tar, OUT/sharded_manifests/manifest_{i}.json, OUT/tarred_audio_manifest.json and
    OUT/metadata.yaml, as NeMo's data loaders and webdataset read them. Files that need no change are copied byte
    for byte. Run the same call again to continue after an interruption.

    Args:
        manifest: NeMo manifest(s): a path, several with commas, or brace forms.
        out: Directory for the data set (with concat_to: may be left out).
        num_shards: Number of shards.
        shard_size: Maximum number of records per shard.
        shard_hours: Approximate hours of audio per shard.
        audio_base_dir: Folder that relative audio paths start from. Default: the manifest's folder.
        min_duration: Leave out shorter records (seconds).
        max_duration: Leave out records of this length and above (seconds).
        shuffle: Shuffle records over all shards.
        shuffle_seed: Seed of shuffle.
        sort_in_shards: Shortest first within a shard.
        keep_files_together: All segments of an audio file go into one shard.
        slice_with_offset: Cut every segment out and store it alone.
        force_codec: Encode audio to this format. Default: as the files are.
        target_sample_rate: Resample to this rate (Hz). Default: as the files are.
        remainder: Spread what does not divide evenly, or drop it (and list it as rejects).
        buckets_num: Static buckets: as many data sets of equal duration ranges, bucket1/, bucket2/, ...
        dynamic_buckets_num: Duration bins to write into metadata.yaml.
        shard_manifests: Write a manifest for each shard, beside the one over all shards.
        only_manifests: Write the manifests without the tars, to look at them first.
        check_audio: Decode copied files too, to find damage in them.
        concat_to: Add the shards to the tarred set in this directory.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing.
        retry_rejects: Repeat the units whose records were rejected for missing or unreadable audio.
        max_rejects: Rejects to tolerate: a share (below 1) or a count. More: TooManyRejectsError.
        num_workers: Local worker processes. Default: the processors this process may use.
        rank: Rank of this process, from 0. Default: from Slurm or torchrun.
        world_size: Number of ranks. Default: from Slurm or torchrun.
        launch_id: Name of the launch, for ranks that are started together by hand.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        The report of the run; `outputs` has `tarred_audio_filepaths` and `manifest_filepath` for a training config.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "tarred", num_shards=4)
        >>> report.records_out, report.rejects_by_reason
        (48, {})
        >>> report.outputs["manifest_filepath"]
        'tarred/sharded_manifests/manifest__OP_0..3_CL_.json'
    """

def status(
    out: str | PathLike[str] | Sequence[str | PathLike[str]],
) -> list[Status]:
    """Show how far runs are: done, missing, rejects, rate, time to go, slowest rank, and how to continue.

    Several outputs become one table, followed by those that have stopped. Reads only the files in OUT.prepcli/, so
    it works while ranks run, also on other machines. With --watch the exit code is 4 if a run has stopped
    unfinished; where the output is not a terminal, a line appears only when something has changed.

    Args:
        out: Output directories of other commands.

    Returns:
        The state of each run: of an output there are several where runs have added to it. Of several outputs those
        without a run have the state `not_started`.

    Raises:
        UsageError: there is no run of prepcli for the one output.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "watched", num_shards=2)
        >>> [(run.out, run.state, run.records_out) for run in prepcli.status("watched")]
        [('watched', 'finished', 48)]
    """

def verify(
    out: str | PathLike[str],
    *,
    num_workers: int | None = None,
    progress: bool = False,
) -> VerifyReport:
    """Check a data set: every shard readable and decodable, manifests and tars in step, bytes as published.

    Reads everything. Exit code 1 and a list where something is wrong.

    Args:
        out: Directory of a tarred or Shar data set.
        num_workers: Local worker processes. Default: the processors this process may use.
        progress: Show a progress bar, and notes, on stderr.

    Returns:
        What was checked; `problems` is empty, and `status` is `ok`, where nothing is wrong.

    Raises:
        UsageError: there is no data set.
        IncompleteError: a worker process was killed.

    Example:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "verified", num_shards=2)
        >>> prepcli.verify("verified").problems
        []
    """
