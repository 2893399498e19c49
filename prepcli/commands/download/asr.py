"""The corpora of `download` that are read for speech recognition, each a command."""

from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments
from prepcli.engine.run.options import JobArguments
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText

if TYPE_CHECKING:
    from prepcli.commands.download.report import DownloadReport


@command("download librispeech")
def download_librispeech(
    data_root: DataRoot,
    *,
    data_sets: Annotated[
        str,
        Option(
            "dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500, "
            "separated by commas; ALL of these; or mini (dev_clean_2 and train_clean_5)."
        ),
    ] = "dev_clean",
    audio_format: Annotated[
        Literal["wav", "flac"], Option("wav: convert the published FLAC; flac: use it unchanged.")
    ] = "wav",
    **more: Unpack[FetchArguments],
) -> "DownloadReport":
    """Fetch LibriSpeech or Mini LibriSpeech and make NeMo manifests of it.

    Writes D/LibriSpeech/<set>-processed/*.wav and D/<data_set>.json with audio_filepath, duration, lower-case text,
    speaker and chapter. Paths are relative to the manifest. The archives are checked with the published checksums.

    Run the same command again to continue, also in the middle of an archive; other data sets can be added later.

    Example: prepcli download librispeech --data-root data/ --data-sets dev_clean,train_clean_100

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
    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import librispeech

    return make_manifests(librispeech.data_sets(data_sets, audio_format))


@command("download an4")
def download_an4(
    data_root: DataRoot,
    **more: Unpack[FetchArguments],
) -> "DownloadReport":
    """Fetch AN4 (CMU's census database) and make NeMo manifests of it.

    Writes D/an4/train_manifest.json, D/an4/test_manifest.json and a .wav next to each .sph. There is no published
    checksum of the archive: its length, its CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue.

    Example: prepcli download an4 --data-root data/

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
    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import an4

    return make_manifests([an4.data_set()])


@command("download aishell")
def download_aishell(
    data_root: DataRoot,
    **more: Unpack[FetchArguments],
) -> "DownloadReport":
    """Fetch AISHELL-1 and make NeMo manifests of it.

    Writes D/data_aishell/train.json, dev.json and test.json, and vocab.txt with the characters of all texts, the most
    frequent first. The recordings stay unchanged. Texts contain no spaces.

    Run the same command again to continue.

    Example: prepcli download aishell --data-root data/

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
    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import aishell

    return make_manifests([aishell.data_set()])


@command("download aishell2")
def download_aishell2(
    audio_folder: Annotated[
        PathText,
        Option(
            "Folder of the corpus; it contains iOS/data, or transcript/ and wav/.",
            must_exist="folder",
            shapes_output=False,
        ),
    ],
    data_root: DataRoot,
    **more: Unpack[JobArguments],
) -> "DownloadReport":
    """Make NeMo manifests of a copy of AISHELL-2.

    Writes D/train.json, dev.json and test.json (those that the copy has), and D/vocab.txt with the characters of the
    training texts, the most frequent first. The recordings stay where they are; the manifests have absolute paths.

    Example: prepcli download aishell2 --audio-folder AISHELL-2/ --data-root data/

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
    from pathlib import Path

    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import aishell2

    return make_manifests([aishell2.data_set(Path(audio_folder))])


@command("download mls")
def download_mls(
    data_root: DataRoot,
    language: Annotated[
        Literal["dutch", "english", "french", "german", "italian", "polish", "portuguese", "spanish"],
        Option("The language."),
    ],
    *,
    archive_format: Annotated[
        Literal["opus", "flac"], Option("The archive with Opus, or that with FLAC, about four times as large.")
    ] = "opus",
    **more: Unpack[FetchArguments],
) -> "DownloadReport":
    """Fetch a language of Multilingual LibriSpeech and make NeMo manifests of it.

    Writes D/mls_LANGUAGE_opus/{train,dev,test}.json, and the published small training parts train_9hr.json and
    train_1hr.json (with the field subset: which ten minutes), with audio_filepath, duration, text, speaker, gender and
    lang. The recordings stay unchanged. The header of an Opus file says 48 kHz; the audio is from 16 kHz.

    The publisher gives no checksums: length, CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue.

    Example: prepcli download mls --data-root data/ --language polish

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
    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import mls

    return make_manifests([mls.data_set(language, archive_format)])


@command("download common-voice")
def download_common_voice(
    data_root: DataRoot,
    language: Annotated[str, Option("Code of the language as in the name of the archive, such as en or zh-CN.")],
    *,
    release: Annotated[
        str, Option("The release: the part of the archive's name between cv-corpus- and the language.")
    ] = "25.0-2026-03-09",
    data_sets: Annotated[
        str, Option("train, dev, test, validated, invalidated, other, separated by commas; or ALL of these.")
    ] = "train,dev,test",
    **more: Unpack[FetchArguments],
) -> "DownloadReport":
    """Make NeMo manifests of your copy of a language of Common Voice, which Mozilla hands out after a login.

    Give the archive as you got it (--archive) or the folder with its content (--extracted). Writes
    D/cv-corpus-RELEASE/LANGUAGE/{train,dev,test}.json with audio_filepath, duration, text, speaker, lang, up_votes,
    down_votes and, if the speaker told them, age, gender, accents and variant. The recordings (MP3) stay unchanged.

    train, dev and test are parts of validated: to train on validated, leave out the texts and speakers of dev and test.

    Run the same command again to continue.

    Example: prepcli download common-voice --data-root data/ --language en --archive cv-corpus-25.0-2026-03-09-en.tar.gz

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
    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import common_voice

    return make_manifests([common_voice.data_set(language, release, data_sets)])
