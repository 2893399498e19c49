"""The options of `download`: options that several corpora share, and a dataclass for each corpus."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from prepcli.engine.run.options import JobOptions
from prepcli.interface.options import Option

LIBRITTS_SETS = "dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500"
DataRoot = Annotated[Path, Option("Folder for the corpus, its audio and its manifests.", shapes_output=False)]
DestRoot = Annotated[Path, Option("Directory of the slices and manifests.", shapes_output=False)]


@dataclass(frozen=True, kw_only=True)
class FetchOptions(JobOptions):
    """The options of all corpora that are fetched as archives, such as the data root and the source of the archives."""

    data_root: DataRoot
    base_url: Annotated[
        str | None,
        Option(
            "Fetch from this address; the name of the archive is appended.",
            shown_default="the publisher's",
            shapes_output=False,
        ),
    ] = None
    archive: Annotated[
        tuple[Path, ...],
        Option(
            "An existing archive with its published name; it is checked like a fetched one. Repeatable.",
            metavar="FILE",
            must_exist="file",
            shown_default="",
            shapes_output=False,
        ),
    ] = ()
    extracted: Annotated[
        Path | None,
        Option(
            "Folder with the corpus as you have unpacked it, instead of an archive. Recordings that need no conversion "
            "stay there.",
            metavar="DIR",
            must_exist="folder",
            shapes_output=False,
            disables=("base_url", "archive", "checksums", "keep_archives", "fetch_only"),
        ),
    ] = None
    checksums: Annotated[
        Path | None,
        Option(
            "Output of md5sum or sha256sum, used instead of the published checksums; for mirrors with other archives.",
            metavar="FILE",
            shapes_output=False,
        ),
    ] = None
    keep_archives: Annotated[bool, Option("Keep the archives, in D/archives.", shapes_output=False)] = False
    fetch_only: Annotated[
        bool,
        Option("Only fetch and unpack; a later call does the rest, with any number of ranks.", shapes_output=False),
    ] = False


@dataclass(frozen=True, kw_only=True)
class DownloadLibrispeech(FetchOptions):
    """Fetch LibriSpeech or Mini LibriSpeech and make NeMo manifests of it.

    Writes D/LibriSpeech/<set>-processed/*.wav and D/<data_set>.json with audio_filepath, duration, lower-case text,
    speaker and chapter. Paths are relative to the manifest. The archives are checked with the published checksums.

    Run the same command again to continue, also in the middle of an archive; other data sets can be added later.

    Example: prepcli download librispeech --data-root data/ --data-sets dev_clean,train_clean_100
    """

    data_sets: Annotated[
        str,
        Option(
            "dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500, "
            "separated by commas; ALL of these; or mini (dev_clean_2 and train_clean_5)."
        ),
    ] = "dev_clean"
    audio_format: Annotated[
        Literal["wav", "flac"], Option("wav: convert the published FLAC; flac: use it unchanged.")
    ] = "wav"


@dataclass(frozen=True, kw_only=True)
class DownloadAn4(FetchOptions):
    """Fetch AN4 (CMU's census database) and make NeMo manifests of it.

    Writes D/an4/train_manifest.json, D/an4/test_manifest.json and a .wav next to each .sph. There is no published
    checksum of the archive: its length, its CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue.

    Example: prepcli download an4 --data-root data/
    """


@dataclass(frozen=True, kw_only=True)
class DownloadAishell(FetchOptions):
    """Fetch AISHELL-1 and make NeMo manifests of it.

    Writes D/data_aishell/train.json, dev.json and test.json, and vocab.txt with the characters of all texts, the most
    frequent first. The recordings stay unchanged. Texts contain no spaces.

    Run the same command again to continue.

    Example: prepcli download aishell --data-root data/
    """


@dataclass(frozen=True, kw_only=True)
class DownloadAishell2(JobOptions):
    """Make NeMo manifests of a copy of AISHELL-2.

    Writes D/train.json, dev.json and test.json (those that the copy has), and D/vocab.txt with the characters of the
    training texts, the most frequent first. The recordings stay where they are; the manifests have absolute paths.

    Example: prepcli download aishell2 --audio-folder AISHELL-2/ --data-root data/
    """

    audio_folder: Annotated[
        Path,
        Option(
            "Folder of the corpus; it contains iOS/data, or transcript/ and wav/.",
            must_exist="folder",
            shapes_output=False,
        ),
    ]
    data_root: DataRoot


@dataclass(frozen=True, kw_only=True)
class DownloadLjspeech(FetchOptions):
    """Fetch LJSpeech 1.1 and make NeMo manifests of it, and the file lists of Tacotron 2 and WaveGlow.

    Writes D/LJSpeech-1.1/{train,val,test}_manifest.json with text and normalized_text, and
    D/filelists/ljs_audio_text_{train,val,test}_filelist.txt with lines path|normalised text, paths relative
    to D. The recordings stay unchanged.

    Run the same command again to continue.

    Example: prepcli download ljspeech --data-root data/
    """

    val_size: Annotated[int, Option("Number of utterances in the validation part.", minimum=0)] = 100
    test_size: Annotated[int, Option("Number of utterances in the test part.", minimum=0)] = 500
    split_seed: Annotated[int, Option("Seed of the split; a seed gives the same split on every machine.")] = 0


@dataclass(frozen=True, kw_only=True)
class DownloadLibritts(FetchOptions):
    """Fetch LibriTTS and make NeMo manifests of it.

    Writes D/LibriTTS/<data_set>.json with audio_filepath, duration, text (as printed), normalized_text, speaker, gender
    and snr. The recordings (24 kHz WAV) stay unchanged. Paths are relative to the manifest, as the group_by preset
    libritts of extend-context-audio needs them; of a copy, give the folder to both --data-root and --extracted.

    Run the same command again to continue; other data sets can be added later.

    Example: prepcli download libritts --data-root data/ --data-sets dev_clean,train_clean_100
    """

    data_sets: Annotated[str, Option(f"{LIBRITTS_SETS}, separated by commas; or ALL of these.")] = "dev_clean"


@dataclass(frozen=True, kw_only=True)
class DownloadLibrittsR(DownloadLibritts):
    """Fetch LibriTTS-R, LibriTTS with restored sound, and make NeMo manifests of it.

    Writes D/LibriTTS_R/<data_set>.json, with the fields that download libritts writes. The publisher gives no checksum
    of the archives: their length, their CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue; other data sets can be added later.

    Example: prepcli download libritts-r --data-root data/ --data-sets dev_clean,train_clean_100
    """


@dataclass(frozen=True, kw_only=True)
class DownloadHifitts(FetchOptions):
    """Fetch Hi-Fi TTS and make NeMo manifests of it.

    Writes D/hi_fi_tts_v0/audio/{clean,other}_{train,dev,test}.json with audio_filepath, duration, text, speaker (reader
    and quality, such as 9136_other), normalized_text and the other published fields. The recordings (44.1 kHz FLAC)
    stay unchanged. Paths are relative to the manifest, as the group_by preset hifitts of extend-context-audio needs
    them; of a copy, give the folder to both --data-root and --extracted. Each reader is in all three parts.

    The publisher gives no checksum: length, CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue.

    Example: prepcli download hifitts --data-root data/
    """


@dataclass(frozen=True, kw_only=True)
class DownloadHifitts2(JobOptions):
    """Cut the audio books of HiFiTTS-2 into utterances, and make NeMo manifests of them.

    Reads the published manifest_22khz.json and chapters_22khz.json, which are fetched or in --metadata. Each chapter is
    fetched from LibriVox, or read below --chapters, compared with its published duration, resampled and cut; its file
    is not kept. Writes D/hifitts2_22khz/{train,dev_seen,dev_unseen,test_seen,test_unseen}.json with the published
    fields, the speaker as Magpie-TTS needs it, and the measured duration; the FLAC files lie beside them.

    A record is a line of the published manifest. A chapter that is gone or has changed makes rejects of its records.
    Memory per worker: a whole chapter, 0.6 GB for an hour at 44.1 kHz. Run the same command again to continue.

    Example: prepcli download hifitts2 --data-root data/ --max-rejects 0.1
    """

    data_root: DataRoot
    sampling_rate: Annotated[
        Literal["22khz", "44khz"], Option("The edition: 22.05 kHz, or the part of it at 44.1 kHz.")
    ] = "22khz"
    metadata: Annotated[
        Path | None,
        Option(
            "Folder with the published manifests, instead of fetching them.",
            metavar="DIR",
            must_exist="folder",
            shapes_output=False,
        ),
    ] = None
    chapters: Annotated[
        Path | None,
        Option(
            "Folder with a copy of the chapters under their published paths, instead of fetching them.",
            metavar="DIR",
            must_exist="folder",
            shapes_output=False,
        ),
    ] = None
    base_url: Annotated[
        str | None,
        Option(
            "Fetch manifests and chapters below this address.",
            shown_default="the publishers'",
            shapes_output=False,
        ),
    ] = None
    fetch_only: Annotated[bool, Option("Only fetch the published manifests.", shapes_output=False)] = False


@dataclass(frozen=True, kw_only=True)
class DownloadVctk(FetchOptions):
    """Fetch VCTK 0.92 and make NeMo manifests of it.

    Writes D/VCTK-Corpus-0.92/mic2.json (or mic1.json, or both), with audio_filepath, duration, text, speaker and, if
    they are published, age, gender, accent and region. The recordings (48 kHz FLAC) stay unchanged. All speakers read
    some of the same sentences: a split must keep both speakers and texts apart.

    Rejects are expected: speaker p315 has no texts, p280 no recordings of mic2, and p362 not all.

    Run the same command again to continue.

    Example: prepcli download vctk --data-root data/
    """

    mic: Annotated[Literal["mic1", "mic2", "both"], Option("The microphone; each has a manifest.")] = "mic2"


@dataclass(frozen=True, kw_only=True)
class DownloadMls(FetchOptions):
    """Fetch a language of Multilingual LibriSpeech and make NeMo manifests of it.

    Writes D/mls_LANGUAGE_opus/{train,dev,test}.json, and the published small training parts train_9hr.json and
    train_1hr.json (with the field subset: which ten minutes), with audio_filepath, duration, text, speaker, gender and
    lang. The recordings stay unchanged. The header of an Opus file says 48 kHz; the audio is from 16 kHz.

    The publisher gives no checksums: length, CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue.

    Example: prepcli download mls --data-root data/ --language polish
    """

    data_root: DataRoot
    language: Annotated[
        Literal["dutch", "english", "french", "german", "italian", "polish", "portuguese", "spanish"],
        Option("The language."),
    ]
    archive_format: Annotated[
        Literal["opus", "flac"], Option("The archive with Opus, or that with FLAC, about four times as large.")
    ] = "opus"


@dataclass(frozen=True, kw_only=True)
class DownloadCommonVoice(FetchOptions):
    """Make NeMo manifests of your copy of a language of Common Voice, which Mozilla hands out after a login.

    Give the archive as you got it (--archive) or the folder with its content (--extracted). Writes
    D/cv-corpus-RELEASE/LANGUAGE/{train,dev,test}.json with audio_filepath, duration, text, speaker, lang, up_votes,
    down_votes and, if the speaker told them, age, gender, accents and variant. The recordings (MP3) stay unchanged.

    train, dev and test are parts of validated: to train on validated, leave out the texts and speakers of dev and test.

    Run the same command again to continue.

    Example: prepcli download common-voice --data-root data/ --language en --archive cv-corpus-25.0-2026-03-09-en.tar.gz
    """

    data_root: DataRoot
    language: Annotated[str, Option("Code of the language as in the name of the archive, such as en or zh-CN.")]
    release: Annotated[
        str, Option("The release: the part of the archive's name between cv-corpus- and the language.")
    ] = "25.0-2026-03-09"
    data_sets: Annotated[
        str, Option("train, dev, test, validated, invalidated, other, separated by commas; or ALL of these.")
    ] = "train,dev,test"


@dataclass(frozen=True, kw_only=True)
class DownloadFisher(JobOptions):
    """Slice a licensed copy of Fisher English (1,960 hours, from the LDC) into utterances of one speaker.

    Reads LDC2004S13-Part1 and LDC2005S13-Part2 as the LDC ships them, or one of the two. Writes
    DEST/{train,val,test}/fe_03_NNNNN_A_001.wav (8 kHz, 16 bits) and DEST/manifest_{train,val,test}.json: 80, 10 and
    10 % of the conversations by their sorted numbers.

    A slice joins utterances of one speaker, without the silence between them, until --min-slice-duration is reached;
    the remainder at the end of a conversation is listed as a reject. A record is a line of a transcript. Recordings
    that are compressed with shorten need sph2pipe (`lhotse install-sph2pipe`); the others are read directly.

    Memory per worker: one slice, or one whole conversation (80 MB) if it is compressed. Run the same command again to
    continue after an interruption.

    Example: prepcli download fisher --ldc-root /corpora/LDC --dest-root fisher/ --remove-noises
    """

    ldc_root: Annotated[
        tuple[Path, ...],
        Option(
            "Folder with LDC2004S13, LDC2005S13 or both, and their transcripts. Repeatable.",
            must_exist="folder",
            shapes_output=False,
        ),
    ]
    dest_root: DestRoot
    min_slice_duration: Annotated[float, Option("Minimum seconds of speech per slice.", minimum=0)] = 10.0
    keep_low_conf: Annotated[bool, Option("Keep lines with (( )), where the transcriber was not sure.")] = False
    remove_noises: Annotated[bool, Option("Remove [laughter], [noise] and similar marks from the text.")] = False
    noises_to_emoji: Annotated[bool, Option("Write laughter and other noises as emoji.")] = False


@dataclass(frozen=True, kw_only=True)
class DownloadHub5(JobOptions):
    """Slice a licensed copy of the 2000 HUB5 English evaluation (11 hours, from the LDC) into a test set.

    Reads hub5e_00/english/*.sph and the reference hub5e00.english.000405.stm, without the segments that it
    excludes from scoring. Writes DEST/audio/en_4156_a_001.wav (8 kHz, 16 bits), DEST/manifest_hub5.json and
    DEST/vocab.txt, the characters of the texts.

    Slices are made as in `download fisher`. Recordings that are compressed with shorten need sph2pipe
    (`lhotse install-sph2pipe`). Run the same command again to continue after an interruption.

    Example: prepcli download hub5 --data-root /corpora/LDC --dest-root hub5/
    """

    data_root: Annotated[
        tuple[Path, ...],
        Option(
            "Folder with LDC2002S09 and LDC2002T43. Repeatable.",
            must_exist="folder",
            shapes_output=False,
        ),
    ]
    dest_root: DestRoot
    min_slice_duration: Annotated[
        float, Option("Minimum seconds of speech per slice; 0: one slice per utterance.", minimum=0)
    ] = 10.0


@dataclass(frozen=True, kw_only=True)
class DownloadLhotse(JobOptions):
    """Make NeMo manifests of a corpus that lhotse prepares, from your copy.

    Runs `lhotse prepare RECIPE` in a process of its own: it reads (and sometimes unpacks or fetches) as lhotse does,
    without the checks of prepcli's own corpora. Then joins recordings and supervisions as make-manifest does, and
    writes D/<part>.json for each part: durations are measured, a text that is longer than its audio is a reject,
    languages become codes. lhotse's own manifests stay in D.prepcli/. Audio in D is named relative to the manifest,
    other audio by its absolute path.

    Run the same command again to continue: a recipe that has ended is not run again, one that was stopped starts again.

    Example: prepcli download lhotse ljspeech LJSpeech-1.1/ --data-root data/
    """

    recipe: Annotated[
        str,
        Option(
            "Name of the recipe; prepcli download --list has all.",
            metavar="RECIPE",
            is_argument=True,
            shapes_output=False,
        ),
    ]
    corpus: Annotated[
        tuple[str, ...],
        Option(
            "Folder of the corpus; for some recipes several arguments, or none, as lhotse prepare takes them before "
            "its output folder.",
            metavar="[CORPUS_DIR]...",
            is_argument=True,
            shapes_output=False,
        ),
    ] = ()
    data_root: DataRoot
    recipe_options: Annotated[
        str,
        Option(
            "Options of the recipe, in quotes, such as '--mic sdm --num-jobs 4'.",
            metavar="TEXT",
            shown_default="lhotse's",
            shapes_output=False,
        ),
    ] = ""
    run_commands: Annotated[
        bool,
        Option(
            "Run the commands of recordings whose audio is the output of a command. Only for a corpus that you trust.",
            shapes_output=False,
        ),
    ] = False
