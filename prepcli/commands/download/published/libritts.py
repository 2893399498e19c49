"""LibriTTS (openslr.org/60) and LibriTTS-R (openslr.org/141): read English audio books by sentence, WAV at 24 kHz."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments, corpus
from prepcli.commands.download.data_set import CorpusPart, Utterance, choose, lines_of, of_openslr, speaker_name
from prepcli.commands.download.tables import genders_of, rows_of
from prepcli.interface.options import Option

_RESOURCES = {"LibriTTS": 60, "LibriTTS-R": 141}
"""The number of each edition on OpenSLR, by its name, which is also in the values of the field `speaker`."""
# Bytes and SHA-256: tensorflow/datasets, tensorflow_datasets/datasets/libritts/checksums.tsv, and pytorch/audio,
# torchaudio/datasets/libritts.py. They are not published for LibriTTS-R.
_PUBLISHED = {
    "dev_clean": (1291469655, "da0864e1bd26debed35da8a869dd5c04dfc27682921936de7cff9c8a254dbe1a"),
    "dev_other": (924804676, "d413eda26f3a152ac7c9cf3658ef85504dfb1b625296e5fa83727f5186cca79c"),
    "test_clean": (1230670113, "234ea5b25859102a87024a4b9b86641f5b5aaaf1197335c95090cde04fe9a4f5"),
    "test_other": (964502297, "33a5342094f3bba7ccc2e0500b9e72d558f72eb99328ac8debe1d9080402f10d"),
    "train_clean_100": (7723686890, "c5608bf1ef74bb621935382b8399c5cdd51cd3ee47cec51f00f885a64c6c7f6b"),
    "train_clean_360": (27504073644, "ce7cff44dcac46009d18379f37ef36551123a1dc4e5c8e4eb73ae57260de4886"),
    "train_other_500": (44565031479, "e35f7e34deeb2e2bdfe4403d88c8fdd5fbf64865cae41f027a185a6965f0a5df"),
}
_LibrittsSets = Annotated[
    str,
    Option(
        "dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500, "
        "separated by commas; or ALL of these."
    ),
]


@corpus("libritts")
def download_libritts(
    data_root: DataRoot,
    *,
    data_sets: _LibrittsSets = "dev_clean",
    **more: Unpack[FetchArguments],
) -> list[CorpusPart]:
    """Fetch LibriTTS and make NeMo manifests of it.

    Writes D/LibriTTS/<data_set>.json with audio_filepath, duration, text (as printed), normalized_text, speaker, gender
    and snr. The recordings (24 kHz WAV) stay unchanged. Paths are relative to the manifest, as the group_by preset
    libritts of extend-context-audio needs them; of a copy, give the folder to both --data-root and --extracted.

    Run the same command again to continue; other data sets can be added later.

    Example: prepcli download libritts --data-root data/ --data-sets dev_clean,train_clean_100

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_libritts("data", data_sets="dev_clean")
        >>> report.outputs["dev_clean"]
        '/.../data/LibriTTS/dev_clean.json'
    """
    return _data_sets(data_sets, "LibriTTS")


@corpus("libritts-r")
def download_libritts_r(
    data_root: DataRoot,
    *,
    data_sets: _LibrittsSets = "dev_clean",
    **more: Unpack[FetchArguments],
) -> list[CorpusPart]:
    """Fetch LibriTTS-R, LibriTTS with restored sound, and make NeMo manifests of it.

    Writes D/LibriTTS_R/<data_set>.json, with the fields that download libritts writes. The publisher gives no checksum
    of the archives: their length, their CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue; other data sets can be added later.

    Example: prepcli download libritts-r --data-root data/ --data-sets dev_clean,train_clean_100

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_libritts_r("data", data_sets="dev_clean")
        >>> report.outputs["dev_clean"]
        '/.../data/LibriTTS_R/dev_clean.json'
    """
    return _data_sets(data_sets, "LibriTTS-R")


def _data_sets(names: str, edition: str) -> list[CorpusPart]:
    known = [*_PUBLISHED]
    return [_data_set(name, edition) for name in choose(edition, names, known, {"ALL": known})]


def _data_set(name: str, edition: str) -> CorpusPart:
    folder, top = name.replace("_", "-"), edition.replace("-", "_")
    tree = f"{top}/{folder}"
    if edition == "LibriTTS-R":
        archive = of_openslr(_RESOURCES[edition], f"{name}.tar.gz")
    else:
        num_bytes, sha256 = _PUBLISHED[name]
        archive = of_openslr(_RESOURCES[edition], f"{folder}.tar.gz", num_bytes, f"sha256:{sha256}")
    manifest = f"{top}/{name}.json"  # paths from this folder fit the presets of --group-by
    return CorpusPart(
        corpus=edition.lower(),
        name=name,
        archive=replace(archive, folder=top),  # LibriSpeech's archives have the same names
        trees=(tree,),
        manifests=(manifest,),
        read=partial(_read, edition=edition, tree=tree, manifest=manifest),
        recordings=(f"{tree}/**/*.wav",),
        settings={"data_set": name},
    )


def _read(root: Path, edition: str, tree: str, manifest: str) -> Iterator[Utterance]:
    """Yield the utterances chapter by chapter.

    A transcript such as `84/121123/84_121123.trans.tsv` has lines `84_121123_000007_000001	text	normalized`. The
    files `._*` in LibriTTS-R, which a Macintosh made, are skipped.
    """
    speakers = f"{tree.partition('/')[0]}/SPEAKERS.txt"
    genders = genders_of(root, speakers) if (root / speakers).exists() else {}
    for transcript in sorted((root / tree).glob("*/*/[!.]*.trans.tsv")):
        speaker, chapter = transcript.parts[-3:-1]
        folder = f"{tree}/{speaker}/{chapter}"
        snr = dict(_snr(root, f"{folder}/{speaker}_{chapter}.book.tsv"))
        for row in rows_of(root, f"{folder}/{transcript.name}", "\t", ("id", "text", "normalized_text")):
            id = row["id"]
            fields: dict[str, Any] = {"text": row["text"], "normalized_text": row["normalized_text"]}
            fields["speaker"] = speaker_name("en", edition, speaker)
            fields |= {"gender": genders[speaker]} if speaker in genders else {}
            fields |= {"snr": snr[id]} if id in snr else {}
            yield row.utterance(manifest, f"{folder}/{id}.wav", fields)


def _snr(root: Path, book: str) -> Iterator[tuple[str, float]]:
    """Yield (id, signal-to-noise ratio) of sentences, from the last column of `book.tsv`; some sentences lack it."""
    if (root / book).exists():
        for _, line in lines_of(root, book):
            with suppress(ValueError):
                id, *_, snr = line.split("\t")
                yield id, float(snr)
