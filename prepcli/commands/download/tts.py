"""The corpora of `download` that are read for speech synthesis, each a command."""

from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments
from prepcli.engine.run.options import JobArguments
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText

if TYPE_CHECKING:
    from prepcli.commands.download.report import DownloadReport

_LibrittsSets = Annotated[
    str,
    Option(
        "dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500, "
        "separated by commas; or ALL of these."
    ),
]


@command("download ljspeech")
def download_ljspeech(
    data_root: DataRoot,
    *,
    val_size: Annotated[int, Option("Number of utterances in the validation part.", minimum=0)] = 100,
    test_size: Annotated[int, Option("Number of utterances in the test part.", minimum=0)] = 500,
    split_seed: Annotated[int, Option("Seed of the split; a seed gives the same split on every machine.")] = 0,
    **more: Unpack[FetchArguments],
) -> "DownloadReport":
    """Fetch LJSpeech 1.1 and make NeMo manifests of it, and the file lists of Tacotron 2 and WaveGlow.

    Writes D/LJSpeech-1.1/{train,val,test}_manifest.json with text and normalized_text, and
    D/filelists/ljs_audio_text_{train,val,test}_filelist.txt with lines path|normalised text, paths relative
    to D. The recordings stay unchanged.

    Run the same command again to continue.

    Example: prepcli download ljspeech --data-root data/

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
    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import ljspeech

    return make_manifests([ljspeech.data_set(val_size, test_size, split_seed)])


@command("download libritts")
def download_libritts(
    data_root: DataRoot,
    *,
    data_sets: _LibrittsSets = "dev_clean",
    **more: Unpack[FetchArguments],
) -> "DownloadReport":
    """Fetch LibriTTS and make NeMo manifests of it.

    Writes D/LibriTTS/<data_set>.json with audio_filepath, duration, text (as printed), normalized_text, speaker, gender
    and snr. The recordings (24 kHz WAV) stay unchanged. Paths are relative to the manifest, as the group_by preset
    libritts of extend-context-audio needs them; of a copy, give the folder to both --data-root and --extracted.

    Run the same command again to continue; other data sets can be added later.

    Example: prepcli download libritts --data-root data/ --data-sets dev_clean,train_clean_100

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
    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import libritts

    return make_manifests(libritts.data_sets(data_sets, libritts.LIBRITTS))


@command("download libritts-r")
def download_libritts_r(
    data_root: DataRoot,
    *,
    data_sets: _LibrittsSets = "dev_clean",
    **more: Unpack[FetchArguments],
) -> "DownloadReport":
    """Fetch LibriTTS-R, LibriTTS with restored sound, and make NeMo manifests of it.

    Writes D/LibriTTS_R/<data_set>.json, with the fields that download libritts writes. The publisher gives no checksum
    of the archives: their length, their CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue; other data sets can be added later.

    Example: prepcli download libritts-r --data-root data/ --data-sets dev_clean,train_clean_100

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
    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import libritts

    return make_manifests(libritts.data_sets(data_sets, libritts.LIBRITTS_R))


@command("download hifitts")
def download_hifitts(
    data_root: DataRoot,
    **more: Unpack[FetchArguments],
) -> "DownloadReport":
    """Fetch Hi-Fi TTS and make NeMo manifests of it.

    Writes D/hi_fi_tts_v0/audio/{clean,other}_{train,dev,test}.json with audio_filepath, duration, text, speaker (reader
    and quality, such as 9136_other), normalized_text and the other published fields. The recordings (44.1 kHz FLAC)
    stay unchanged. Paths are relative to the manifest, as the group_by preset hifitts of extend-context-audio needs
    them; of a copy, give the folder to both --data-root and --extracted. Each reader is in all three parts.

    The publisher gives no checksum: length, CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue.

    Example: prepcli download hifitts --data-root data/

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
    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import hifitts

    return make_manifests([hifitts.data_set()])


@command("download hifitts2")
def download_hifitts2(
    data_root: DataRoot,
    *,
    sampling_rate: Annotated[
        Literal["22khz", "44khz"], Option("The edition: 22.05 kHz, or the part of it at 44.1 kHz.")
    ] = "22khz",
    metadata: Annotated[
        PathText | None,
        Option(
            "Folder with the published manifests, instead of fetching them.",
            metavar="DIR",
            must_exist="folder",
            shapes_output=False,
        ),
    ] = None,
    chapters: Annotated[
        PathText | None,
        Option(
            "Folder with a copy of the chapters under their published paths, instead of fetching them.",
            metavar="DIR",
            must_exist="folder",
            shapes_output=False,
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        Option(
            "Fetch manifests and chapters below this address.",
            shown_default="the publishers'",
            shapes_output=False,
        ),
    ] = None,
    fetch_only: Annotated[bool, Option("Only fetch the published manifests.", shapes_output=False)] = False,
    **more: Unpack[JobArguments],
) -> "DownloadReport":
    """Cut the audio books of HiFiTTS-2 into utterances, and make NeMo manifests of them.

    Reads the published manifest_22khz.json and chapters_22khz.json, which are fetched or in --metadata. Each chapter is
    fetched from LibriVox, or read below --chapters, compared with its published duration, resampled and cut; its file
    is not kept. Writes D/hifitts2_22khz/{train,dev_seen,dev_unseen,test_seen,test_unseen}.json with the published
    fields, the speaker as Magpie-TTS needs it, and the measured duration; the FLAC files lie beside them.

    A record is a line of the published manifest. A chapter that is gone or has changed makes rejects of its records.
    Memory per worker: a whole chapter, 0.6 GB for an hour at 44.1 kHz. Run the same command again to continue.

    Example: prepcli download hifitts2 --data-root data/ --max-rejects 0.1

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
    from pathlib import Path

    from prepcli.commands.download.chapters import cut_chapters, metadata_of
    from prepcli.commands.download.published.hifitts2 import COMMAND, folder_of
    from prepcli.commands.download.report import DownloadReport
    from prepcli.engine.run.function import Output
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.work_folder import refuse_state

    name = folder_of(sampling_rate)
    output = Output(data_root, inside=f"sets/{name}")
    refuse_state(output.path)
    folder = Path(metadata) if metadata is not None else metadata_of(sampling_rate, base_url, output)
    if fetch_only:
        return DownloadReport({name: Report(COMMAND, "fetched", str(folder))})
    copies = None if chapters is None else Path(chapters)
    return DownloadReport({name: cut_chapters(sampling_rate, base_url, copies, folder, output)})


@command("download vctk")
def download_vctk(
    data_root: DataRoot,
    *,
    mic: Annotated[Literal["mic1", "mic2", "both"], Option("The microphone; each has a manifest.")] = "mic2",
    **more: Unpack[FetchArguments],
) -> "DownloadReport":
    """Fetch VCTK 0.92 and make NeMo manifests of it.

    Writes D/VCTK-Corpus-0.92/mic2.json (or mic1.json, or both), with audio_filepath, duration, text, speaker and, if
    they are published, age, gender, accent and region. The recordings (48 kHz FLAC) stay unchanged. All speakers read
    some of the same sentences: a split must keep both speakers and texts apart.

    Rejects are expected: speaker p315 has no texts, p280 no recordings of mic2, and p362 not all.

    Run the same command again to continue.

    Example: prepcli download vctk --data-root data/

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
    from prepcli.commands.download.job import make_manifests
    from prepcli.commands.download.published import vctk

    return make_manifests([vctk.data_set(mic)])
