"""The Python API: a function per command. Made by scripts/update_generated.py; do not edit."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

from prepcli.interface.from_python import call, in_full

if TYPE_CHECKING:
    from prepcli.commands.blend.command import blend as blend
    from prepcli.commands.blend.report import BlendReport as BlendReport
    from prepcli.commands.download.report import DownloadReport as DownloadReport
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


def download_aishell(
    data_root: str | PathLike[str],
    *,
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    extracted: str | PathLike[str] | None = None,
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Fetch AISHELL-1 and make NeMo manifests of it.

    Writes D/data_aishell/train.json, dev.json and test.json, and vocab.txt with the characters of all texts, the
    most frequent first. The recordings stay unchanged. Texts contain no spaces.

    Run the same call again to continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        base_url: Fetch from this address; the name of the archive is appended. Default: the publisher's.
        archive: An existing archive with its published name; it is checked like a fetched one. Repeatable.
        extracted: Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no
            conversion stay there.
        checksums: Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other
            archives.
        keep_archives: Keep the archives, in D/archives.
        fetch_only: Only fetch and unpack; a later call does the rest, with any number of ranks.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_aishell("data")
        >>> report.outputs["train"]
        '/.../data/data_aishell/train.json'
    """
    return call("download_aishell", locals())


def download_aishell2(
    audio_folder: str | PathLike[str],
    data_root: str | PathLike[str],
    *,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Make NeMo manifests of a copy of AISHELL-2.

    Writes D/train.json, dev.json and test.json (those that the copy has), and D/vocab.txt with the characters of
    the training texts, the most frequent first. The recordings stay where they are; the manifests have absolute
    paths.

    Args:
        audio_folder: Folder of the corpus; it contains iOS/data, or transcript/ and wav/.
        data_root: Folder for the corpus, its audio and its manifests.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_aishell2("AISHELL-2", "data")
        >>> report.outputs["train"]
        '/.../data/train.json'
    """
    return call("download_aishell2", locals())


def download_an4(
    data_root: str | PathLike[str],
    *,
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    extracted: str | PathLike[str] | None = None,
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Fetch AN4 (CMU's census database) and make NeMo manifests of it.

    Writes D/an4/train_manifest.json, D/an4/test_manifest.json and a .wav next to each .sph. There is no published
    checksum of the archive: its length, its CRC and the end of the tar are checked; checksums adds your own.

    Run the same call again to continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        base_url: Fetch from this address; the name of the archive is appended. Default: the publisher's.
        archive: An existing archive with its published name; it is checked like a fetched one. Repeatable.
        extracted: Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no
            conversion stay there.
        checksums: Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other
            archives.
        keep_archives: Keep the archives, in D/archives.
        fetch_only: Only fetch and unpack; a later call does the rest, with any number of ranks.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_an4("data")
        >>> report.outputs["train_manifest"]
        '/.../data/an4/train_manifest.json'
    """
    return call("download_an4", locals())


def download_common_voice(
    data_root: str | PathLike[str],
    language: str,
    *,
    release: str = "25.0-2026-03-09",
    data_sets: str = "train,dev,test",
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    extracted: str | PathLike[str] | None = None,
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Make NeMo manifests of your copy of a language of Common Voice, which Mozilla hands out after a login.

    Give the archive as you got it (archive) or the folder with its content (extracted). Writes D/cv-corpus-
    RELEASE/LANGUAGE/{train,dev,test}.json with audio_filepath, duration, text, speaker, lang, up_votes, down_votes
    and, if the speaker told them, age, gender, accents and variant. The recordings (MP3) stay unchanged.

    train, dev and test are parts of validated: to train on validated, leave out the texts and speakers of dev and
    test.

    Run the same call again to continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        language: Code of the language as in the name of the archive, such as en or zh-CN.
        release: The release: the part of the archive's name between cv-corpus- and the language.
        data_sets: train, dev, test, validated, invalidated, other, separated by commas; or ALL of these.
        base_url: Fetch from this address; the name of the archive is appended. Default: the publisher's.
        archive: An existing archive with its published name; it is checked like a fetched one. Repeatable.
        extracted: Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no
            conversion stay there.
        checksums: Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other
            archives.
        keep_archives: Keep the archives, in D/archives.
        fetch_only: Only fetch and unpack; a later call does the rest, with any number of ranks.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_common_voice("data", "en")
        >>> report.outputs["train"]
        '/.../data/cv-corpus-25.0-2026-03-09/en/train.json'
    """
    return call("download_common_voice", locals())


def download_fisher(
    ldc_root: str | PathLike[str] | Sequence[str | PathLike[str]],
    dest_root: str | PathLike[str],
    *,
    min_slice_duration: float = 10.0,
    keep_low_conf: bool = False,
    remove_noises: bool = False,
    noises_to_emoji: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "Report":
    """Slice a licensed copy of Fisher English (1,960 hours, from the LDC) into utterances of one speaker.

    Reads LDC2004S13-Part1 and LDC2005S13-Part2 as the LDC ships them, or one of the two. Writes
    DEST/{train,val,test}/fe_03_NNNNN_A_001.wav (8 kHz, 16 bits) and DEST/manifest_{train,val,test}.json: 80, 10 and
    10 % of the conversations by their sorted numbers.

    A slice joins utterances of one speaker, without the silence between them, until min_slice_duration is reached;
    the remainder at the end of a conversation is listed as a reject. A record is a line of a transcript. Recordings
    that are compressed with shorten need sph2pipe (`lhotse install-sph2pipe`); the others are read directly.

    Memory per worker: one slice, or one whole conversation (80 MB) if it is compressed. Run the same call again to
    continue after an interruption.

    Args:
        ldc_root: Folder with LDC2004S13, LDC2005S13 or both, and their transcripts. Repeatable.
        dest_root: Directory of the slices and manifests.
        min_slice_duration: Minimum seconds of speech per slice.
        keep_low_conf: Keep lines with (( )), where the transcriber was not sure.
        remove_noises: Remove [laughter], [noise] and similar marks from the text.
        noises_to_emoji: Write laughter and other noises as emoji.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_fisher("LDC", "fisher", remove_noises=True)
        >>> report.outputs["manifest_train"]
        '/.../fisher/manifest_train.json'
    """
    return call("download_fisher", locals())


def download_hifitts(
    data_root: str | PathLike[str],
    *,
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    extracted: str | PathLike[str] | None = None,
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Fetch Hi-Fi TTS and make NeMo manifests of it.

    Writes D/hi_fi_tts_v0/audio/{clean,other}_{train,dev,test}.json with audio_filepath, duration, text, speaker
    (reader and quality, such as 9136_other), normalized_text and the other published fields. The recordings (44.1
    kHz FLAC) stay unchanged. Paths are relative to the manifest, as the group_by preset hifitts of extend-context-
    audio needs them; of a copy, give the folder to both data_root and extracted. Each reader is in all three parts.

    The publisher gives no checksum: length, CRC and the end of the tar are checked; checksums adds your own.

    Run the same call again to continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        base_url: Fetch from this address; the name of the archive is appended. Default: the publisher's.
        archive: An existing archive with its published name; it is checked like a fetched one. Repeatable.
        extracted: Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no
            conversion stay there.
        checksums: Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other
            archives.
        keep_archives: Keep the archives, in D/archives.
        fetch_only: Only fetch and unpack; a later call does the rest, with any number of ranks.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_hifitts("data")
        >>> report.outputs["clean_train"]
        '/.../data/hi_fi_tts_v0/audio/clean_train.json'
    """
    return call("download_hifitts", locals())


def download_hifitts2(
    data_root: str | PathLike[str],
    *,
    sampling_rate: Literal["22khz", "44khz"] = "22khz",
    metadata: str | PathLike[str] | None = None,
    chapters: str | PathLike[str] | None = None,
    base_url: str | None = None,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Cut the audio books of HiFiTTS-2 into utterances, and make NeMo manifests of them.

    Reads the published manifest_22khz.json and chapters_22khz.json, which are fetched or in metadata. Each chapter
    is fetched from LibriVox, or read below chapters, compared with its published duration, resampled and cut; its
    file is not kept. Writes D/hifitts2_22khz/{train,dev_seen,dev_unseen,test_seen,test_unseen}.json with the
    published fields, the speaker as Magpie-TTS needs it, and the measured duration; the FLAC files lie beside them.

    A record is a line of the published manifest. A chapter that is gone or has changed makes rejects of its
    records. Memory per worker: a whole chapter, 0.6 GB for an hour at 44.1 kHz. Run the same call again to
    continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        sampling_rate: The edition: 22.05 kHz, or the part of it at 44.1 kHz.
        metadata: Folder with the published manifests, instead of fetching them.
        chapters: Folder with a copy of the chapters under their published paths, instead of fetching them.
        base_url: Fetch manifests and chapters below this address. Default: the publishers'.
        fetch_only: Only fetch the published manifests.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_hifitts2("data", metadata="hifitts2", chapters="chapters")
        >>> report.outputs["train"]
        '/.../data/hifitts2_22khz/train.json'
    """
    return call("download_hifitts2", locals())


def download_hub5(
    data_root: str | PathLike[str] | Sequence[str | PathLike[str]],
    dest_root: str | PathLike[str],
    *,
    min_slice_duration: float = 10.0,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "Report":
    """Slice a licensed copy of the 2000 HUB5 English evaluation (11 hours, from the LDC) into a test set.

    Reads hub5e_00/english/*.sph and the reference hub5e00.english.000405.stm, without the segments that it excludes
    from scoring. Writes DEST/audio/en_4156_a_001.wav (8 kHz, 16 bits), DEST/manifest_hub5.json and DEST/vocab.txt,
    the characters of the texts.

    Slices are made as in `download fisher`. Recordings that are compressed with shorten need sph2pipe (`lhotse
    install-sph2pipe`). Run the same call again to continue after an interruption.

    Args:
        data_root: Folder with LDC2002S09 and LDC2002T43. Repeatable.
        dest_root: Directory of the slices and manifests.
        min_slice_duration: Minimum seconds of speech per slice; 0: one slice per utterance.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_hub5("LDC", "hub5")
        >>> report.outputs["manifest_hub5"]
        '/.../hub5/manifest_hub5.json'
    """
    return call("download_hub5", locals())


def download_lhotse(
    recipe: str | PathLike[str],
    data_root: str | PathLike[str],
    corpus: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    *,
    recipe_options: str = "",
    run_commands: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Make NeMo manifests of a corpus that lhotse prepares, from your copy.

    Runs `lhotse prepare RECIPE` in a process of its own: it reads (and sometimes unpacks or fetches) as lhotse
    does, without the checks of prepcli's own corpora. Then joins recordings and supervisions as make-manifest does,
    and writes D/<part>.json for each part: durations are measured, a text that is longer than its audio is a
    reject, languages become codes. lhotse's own manifests stay in D.prepcli/. Audio in D is named relative to the
    manifest, other audio by its absolute path.

    Run the same call again to continue: a recipe that has ended is not run again, one that was stopped starts
    again.

    Args:
        recipe: Name of the recipe; prepcli download --list has all.
        corpus: Folder of the corpus; for some recipes several arguments, or none, as lhotse prepare takes them
            before its output folder.
        data_root: Folder for the corpus, its audio and its manifests.
        recipe_options: Options of the recipe, in quotes, such as '--mic sdm --num-jobs 4'. Default: lhotse's.
        run_commands: Run the commands of recordings whose audio is the output of a command. Only for a corpus that
            you trust.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each part by its name. `outputs` are the manifests.

    Raises:
        UsageError: the recipe is unknown, no manifest can be made of its output, the arguments do not fit the recipe,
            lhotse is not installed, or several ranks run before the recipe has run once.
        PrepcliError: the recipe has failed; the message has the command to run by hand.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_lhotse("ljspeech", corpus="LJSpeech-1.1", data_root="data")
        >>> report.outputs["ljspeech_all"]
        '/.../data/ljspeech_all.json'
    """
    return call("download_lhotse", locals())


def download_librispeech(
    data_root: str | PathLike[str],
    *,
    data_sets: str = "dev_clean",
    audio_format: Literal["wav", "flac"] = "wav",
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    extracted: str | PathLike[str] | None = None,
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Fetch LibriSpeech or Mini LibriSpeech and make NeMo manifests of it.

    Writes D/LibriSpeech/<set>-processed/*.wav and D/<data_set>.json with audio_filepath, duration, lower-case text,
    speaker and chapter. Paths are relative to the manifest. The archives are checked with the published checksums.

    Run the same call again to continue, also in the middle of an archive; other data sets can be added later.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        data_sets: dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500,
            separated by commas; ALL of these; or mini (dev_clean_2 and train_clean_5).
        audio_format: wav: convert the published FLAC; flac: use it unchanged.
        base_url: Fetch from this address; the name of the archive is appended. Default: the publisher's.
        archive: An existing archive with its published name; it is checked like a fetched one. Repeatable.
        extracted: Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no
            conversion stay there.
        checksums: Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other
            archives.
        keep_archives: Keep the archives, in D/archives.
        fetch_only: Only fetch and unpack; a later call does the rest, with any number of ranks.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_librispeech("data", data_sets="mini")
        >>> report.outputs["dev_clean_2"]
        '/.../data/dev_clean_2.json'
    """
    return call("download_librispeech", locals())


def download_libritts(
    data_root: str | PathLike[str],
    *,
    data_sets: str = "dev_clean",
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    extracted: str | PathLike[str] | None = None,
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Fetch LibriTTS and make NeMo manifests of it.

    Writes D/LibriTTS/<data_set>.json with audio_filepath, duration, text (as printed), normalized_text, speaker,
    gender and snr. The recordings (24 kHz WAV) stay unchanged. Paths are relative to the manifest, as the group_by
    preset libritts of extend-context-audio needs them; of a copy, give the folder to both data_root and extracted.

    Run the same call again to continue; other data sets can be added later.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        data_sets: dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500,
            separated by commas; or ALL of these.
        base_url: Fetch from this address; the name of the archive is appended. Default: the publisher's.
        archive: An existing archive with its published name; it is checked like a fetched one. Repeatable.
        extracted: Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no
            conversion stay there.
        checksums: Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other
            archives.
        keep_archives: Keep the archives, in D/archives.
        fetch_only: Only fetch and unpack; a later call does the rest, with any number of ranks.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_libritts("data", data_sets="dev_clean")
        >>> report.outputs["dev_clean"]
        '/.../data/LibriTTS/dev_clean.json'
    """
    return call("download_libritts", locals())


def download_libritts_r(
    data_root: str | PathLike[str],
    *,
    data_sets: str = "dev_clean",
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    extracted: str | PathLike[str] | None = None,
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Fetch LibriTTS-R, LibriTTS with restored sound, and make NeMo manifests of it.

    Writes D/LibriTTS_R/<data_set>.json, with the fields that download libritts writes. The publisher gives no
    checksum of the archives: their length, their CRC and the end of the tar are checked; checksums adds your own.

    Run the same call again to continue; other data sets can be added later.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        data_sets: dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500,
            separated by commas; or ALL of these.
        base_url: Fetch from this address; the name of the archive is appended. Default: the publisher's.
        archive: An existing archive with its published name; it is checked like a fetched one. Repeatable.
        extracted: Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no
            conversion stay there.
        checksums: Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other
            archives.
        keep_archives: Keep the archives, in D/archives.
        fetch_only: Only fetch and unpack; a later call does the rest, with any number of ranks.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_libritts_r("data", data_sets="dev_clean")
        >>> report.outputs["dev_clean"]
        '/.../data/LibriTTS_R/dev_clean.json'
    """
    return call("download_libritts_r", locals())


def download_ljspeech(
    data_root: str | PathLike[str],
    *,
    val_size: int = 100,
    test_size: int = 500,
    split_seed: int = 0,
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    extracted: str | PathLike[str] | None = None,
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Fetch LJSpeech 1.1 and make NeMo manifests of it, and the file lists of Tacotron 2 and WaveGlow.

    Writes D/LJSpeech-1.1/{train,val,test}_manifest.json with text and normalized_text, and
    D/filelists/ljs_audio_text_{train,val,test}_filelist.txt with lines path|normalised text, paths relative to D.
    The recordings stay unchanged.

    Run the same call again to continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        val_size: Number of utterances in the validation part.
        test_size: Number of utterances in the test part.
        split_seed: Seed of the split; a seed gives the same split on every machine.
        base_url: Fetch from this address; the name of the archive is appended. Default: the publisher's.
        archive: An existing archive with its published name; it is checked like a fetched one. Repeatable.
        extracted: Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no
            conversion stay there.
        checksums: Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other
            archives.
        keep_archives: Keep the archives, in D/archives.
        fetch_only: Only fetch and unpack; a later call does the rest, with any number of ranks.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_ljspeech("data", val_size=1, test_size=1)
        >>> report.outputs["val_manifest"]
        '/.../data/LJSpeech-1.1/val_manifest.json'
    """
    return call("download_ljspeech", locals())


def download_mls(
    data_root: str | PathLike[str],
    language: Literal["dutch", "english", "french", "german", "italian", "polish", "portuguese", "spanish"],
    *,
    archive_format: Literal["opus", "flac"] = "opus",
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    extracted: str | PathLike[str] | None = None,
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Fetch a language of Multilingual LibriSpeech and make NeMo manifests of it.

    Writes D/mls_LANGUAGE_opus/{train,dev,test}.json, and the published small training parts train_9hr.json and
    train_1hr.json (with the field subset: which ten minutes), with audio_filepath, duration, text, speaker, gender
    and lang. The recordings stay unchanged. The header of an Opus file says 48 kHz; the audio is from 16 kHz.

    The publisher gives no checksums: length, CRC and the end of the tar are checked; checksums adds your own.

    Run the same call again to continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        language: The language.
        archive_format: The archive with Opus, or that with FLAC, about four times as large.
        base_url: Fetch from this address; the name of the archive is appended. Default: the publisher's.
        archive: An existing archive with its published name; it is checked like a fetched one. Repeatable.
        extracted: Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no
            conversion stay there.
        checksums: Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other
            archives.
        keep_archives: Keep the archives, in D/archives.
        fetch_only: Only fetch and unpack; a later call does the rest, with any number of ranks.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_mls("data", "polish")
        >>> report.outputs["train_9hr"]
        '/.../data/mls_polish_opus/train_9hr.json'
    """
    return call("download_mls", locals())


def download_vctk(
    data_root: str | PathLike[str],
    *,
    mic: Literal["mic1", "mic2", "both"] = "mic2",
    base_url: str | None = None,
    archive: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    extracted: str | PathLike[str] | None = None,
    checksums: str | PathLike[str] | None = None,
    keep_archives: bool = False,
    fetch_only: bool = False,
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "DownloadReport":
    """Fetch VCTK 0.92 and make NeMo manifests of it.

    Writes D/VCTK-Corpus-0.92/mic2.json (or mic1.json, or both), with audio_filepath, duration, text, speaker and,
    if they are published, age, gender, accent and region. The recordings (48 kHz FLAC) stay unchanged. All speakers
    read some of the same sentences: a split must keep both speakers and texts apart.

    Rejects are expected: speaker p315 has no texts, p280 no recordings of mic2, and p362 not all.

    Run the same call again to continue.

    Args:
        data_root: Folder for the corpus, its audio and its manifests.
        mic: The microphone; each has a manifest.
        base_url: Fetch from this address; the name of the archive is appended. Default: the publisher's.
        archive: An existing archive with its published name; it is checked like a fetched one. Repeatable.
        extracted: Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no
            conversion stay there.
        checksums: Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other
            archives.
        keep_archives: Keep the archives, in D/archives.
        fetch_only: Only fetch and unpack; a later call does the rest, with any number of ranks.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

    Returns:
        The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.

    Raises:
        UsageError: the data set is unknown, other files are in its place, or the given archive is damaged.

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_vctk("data")
        >>> report.outputs["mic2"]
        '/.../data/VCTK-Corpus-0.92/mic2.json'
    """
    return call("download_vctk", locals())


def estimate_batch_sizes(
    *,
    model: str | PathLike[str] | None = None,
    model_class: str | None = None,
    config: str | PathLike[str] | None = None,
    buckets: str | None = None,
    buckets_from: str | PathLike[str] | None = None,
    memory_fraction: float = 0.9,
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16",
    start_batch_size: int = 32,
    threshold: float = 0.05,
    ratio: float = 12.0,
    optimizer: str = "adamw",
    ddp: bool = True,
    device: str = "cuda",
    gpu_memory: str | None = None,
    work: str | PathLike[str] | None = None,
    verify: bool = False,
    write_config: str | PathLike[str] | None = None,
    plot: str | PathLike[str] | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    probe_timeout: float = 600.0,
    launch_id: str | None = None,
) -> "BatchSizesReport":
    """Find the largest batch size of each bucket that fits into a GPU's memory, by real training steps.

    The answers are those of NeMo's OOMptimizer. A step runs in a process of its own: one that runs out of memory,
    crashes or hangs is a result. With device cpu and gpu_memory, the bytes of small steps on the CPU are counted
    and extrapolated instead, and every number is marked as an estimate.

    Args:
        model: A .nemo file, or the name of a pretrained model.
        model_class: The class of the model, such as nemo.collections.asr.models.EncDecMultiTaskModel. With config:
            a model without weights.
        config: The training config of model_class.
        buckets: The upper bound of each bucket in seconds, [5.0,10.0,20.0], or pairs of seconds and tokens,
            [[5.0,30],[5.0,45],[10.0,60]]. Default: [5.0,10.0,15.0,20.0,25.0,30.0].
        buckets_from: Take bucket_duration_bins from a training config. max_duration is added as the last bucket
            where the bins end before it, as those of estimate-bins do.
        memory_fraction: The share of the GPU's memory that training may use.
        dtype: The precision of autocast.
        start_batch_size: The first batch size of the search.
        threshold: Stop when the smallest size that fails is larger than the largest that fits by at most this
            share.
        ratio: Output tokens per second of audio; ignored for buckets that are pairs.
        optimizer: The optimizer, by NeMo's name.
        ddp: Reserve memory for one more copy of the model, as distributed training does.
        device: The GPU, such as cuda:0, or cpu for an estimate (with gpu_memory). Default: the GPU of this rank.
        gpu_memory: The memory of the GPU to estimate for, such as 80GiB. With a GPU: at most its own memory.
        work: Folder for the result; WORK.prepcli/ beside it has what a stopped search continues with. Default:
            batch_sizes.
        verify: Run steps of the largest bucket, the smallest, and all in mixed order, in one process.
        write_config: Write both lists into a training config, as estimate-bins write_config does.
        plot: Plot memory over batch size for each bucket.
        dry_run: Write nothing; the report has the status 'dry_run' and the plan in its details.
        overwrite: Start again instead of continuing; only files that the earlier run has written are removed.
        rank: Rank of this process, from 0. Default: from the launcher.
        world_size: Number of ranks. Default: from the launcher.
        progress: Show a progress bar and notes on stderr.
        probe_timeout: Seconds after which a step counts as one that does not fit.
        launch_id: A common name for ranks that are started together by hand.

    Returns:
        The report of the run. `details` has `bucket_duration_bins` and `bucket_batch_size` for a training config, and
        in `buckets` the steps of each bucket; `is_estimate` says whether the batch sizes are estimates.

    Raises:
        UsageError: options that do not go together, or a model that cannot be loaded.
        PrepcliError: not one example fits, the model cannot make a step, or `verify` has found a batch that fails.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.

    Examples:
        >>> import prepcli
        >>> report = prepcli.estimate_batch_sizes(
        ...     model="tiny.nemo", buckets="[1.0,2.0]", device="cpu", gpu_memory="64MiB", work="sizes"
        ... )
        >>> report.details["is_estimate"], len(report.details["bucket_batch_size"])
        (True, 2)
    """
    return call("estimate_batch_sizes", locals())


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


def extend_context_audio(
    manifest: str | PathLike[str] | Sequence[str | PathLike[str]],
    out: str | PathLike[str],
    *,
    audio_base_dir: str | PathLike[str] | None = None,
    speaker_model: str | PathLike[str] = "titanet_large",
    group_by: str = "speaker",
    context_min_duration: float = 3.0,
    context_min_ssim: float = 0.6,
    batch_duration: float | None = None,
    plot: str | PathLike[str] | None = None,
    reuse_embeddings: str | PathLike[str] | None = None,
    devices: str = "auto",
    save_embeddings: bool = False,
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
    dry_run: bool = False,
    num_workers: int | None = None,
    max_rejects: float = 0.05,
    overwrite: bool = False,
    retry_rejects: bool = False,
    rank: int | None = None,
    world_size: int | None = None,
    progress: bool = False,
    launch_id: str | None = None,
    no_steal: bool = False,
    verify_inputs: bool = False,
) -> "Report":
    """Add context audio to each record: the most similar other utterance of its voice that is long enough.

    Writes OUT/<stem>_withContextAudioMinDur3.0MinSSIM0.6.json: the records in the order of the input, each with
    context_speaker_similarity, context_audio_filepath, context_audio_offset, context_audio_duration,
    context_audio_text and, where the other record has one, context_audio_normalized_text. Records without a context
    are listed as rejects.

    The output is identical for any number of ranks, and on a CPU for any number of threads and any batch_duration.
    Between devices, and on GPUs with another batch_duration, embeddings differ by float rounding: sometimes in the
    last digits of a similarity, very rarely in the chosen context.

    Run the same call again to continue after an interruption. Embeddings are kept in OUT.prepcli/embeddings/: with
    another minimum and overwrite, or another OUT and reuse_embeddings, only the selection is done again.

    Args:
        manifest: NeMo manifest(s), or a data set (tarred, Shar, WeNet, webdataset, Parquet, zip): a path, several
            separated by commas, or a brace pattern. Or a list of paths.
        out: Directory for the extended manifest.
        audio_base_dir: Base folder of relative audio paths. Default: the manifest's folder.
        speaker_model: titanet_large or another pretrained model of NeMo, a .nemo file, or resemblyzer.
        group_by: What identifies a voice: the field speaker; a preset for a corpus (libritts, librittsDevClean,
            hifitts, hifitts2, nvyt2505, rivaLindyRodney, rivaEmmaMeganSeanTom, jhsdGtc20Amp20Keynote); or
            regex:FIELD:PATTERN, where the groups of the pattern are joined by _.
        context_min_duration: Minimum duration of a context (seconds).
        context_min_ssim: Minimum cosine similarity to the context, from -1 to 1.
        batch_duration: Maximum seconds of audio in a batch. Less takes less memory. Default: 120 on the CPU, 600 on
            a GPU.
        plot: Plot similarities and durations of contexts, also of the records that the minimum leaves out.
        reuse_embeddings: OUT of an earlier run over the same audio: its embeddings are used, and only the selection
            is done again.
        devices: auto (all GPUs, else CPU), cpu, or a number of GPUs.
        save_embeddings: Keep the embeddings: OUT/embeddings/bundle_*.npy and .jsonl.
        input_format: Kind of the input. Default: by its content.
        split: Split of a data set with several, such as train. Default: its only one.
        audio_column: Column, or extension in a tar, with the audio. Default: by type and name.
        text_column: Column or field with the text. Default: by its name: text, sentence, ....
        speaker_column: Column or field with the speaker. Default: by its name: speaker, ....
        lang_column: Column or field with the language. Default: by its name: lang, ....
        id_column: Column or field with the id. Default: by its name: id, ....
        name_encoding: Encoding of names in a zip or tar, if not UTF-8. Default: cp437 in a zip.

    For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md.

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
    return call("extend_context_audio", locals())


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
