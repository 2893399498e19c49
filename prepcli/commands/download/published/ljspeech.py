"""LJSpeech 1.1: one reader, 24 hours of audio books for TTS, 22.05 kHz WAV."""

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments, corpus
from prepcli.commands.download.data_set import Archive, CorpusPart, Utterance, speaker_name
from prepcli.commands.download.tables import rows_of
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option

_TREE = "LJSpeech-1.1"
_METADATA = f"{_TREE}/metadata.csv"
_SPEAKER = speaker_name("en", "LJSpeech", "LJ")
# The file names that Tacotron 2 and WaveGlow expect.
_LISTS = {part: f"filelists/ljs_audio_text_{part}_filelist.txt" for part in ("train", "val", "test")}
_SUBSETS = {size: f"filelists/ljs_audio_text_train_subset_{size}_filelist.txt" for size in (300, 625, 1250, 2500)}


@corpus("ljspeech")
def download_ljspeech(
    data_root: DataRoot,
    *,
    val_size: Annotated[int, Option("Number of utterances in the validation part.", minimum=0)] = 100,
    test_size: Annotated[int, Option("Number of utterances in the test part.", minimum=0)] = 500,
    split_seed: Annotated[int, Option("Seed of the split; a seed gives the same split on every machine.")] = 0,
    **more: Unpack[FetchArguments],
) -> CorpusPart:
    """Fetch LJSpeech 1.1 and make NeMo manifests of it, and the file lists of Tacotron 2 and WaveGlow.

    Writes D/LJSpeech-1.1/{train,val,test}_manifest.json with text and normalized_text, and
    D/filelists/ljs_audio_text_{train,val,test}_filelist.txt with lines path|normalised text, paths relative
    to D. The recordings stay unchanged.

    Run the same command again to continue.

    Example: prepcli download ljspeech --data-root data/

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_ljspeech("data", val_size=1, test_size=1)
        >>> report.outputs["val_manifest"]
        '/.../data/LJSpeech-1.1/val_manifest.json'
    """
    return CorpusPart(
        corpus="ljspeech",
        name="ljspeech",
        archive=Archive(
            "LJSpeech-1.1.tar.bz2",
            ("https://data.keithito.com/data/speech/LJSpeech-1.1.tar.bz2",),
            2748572632,  # the size that the server reports
            # torchaudio/datasets/ljspeech.py
            "sha256:be1a30453f28eb8dd26af4101ae40cbf2c50413b1bb21936cbcdc6fae3de8aa5",
        ),
        trees=(_TREE,),
        manifests=tuple(_manifest(part) for part in _LISTS),
        read=partial(_read, sizes={"val": val_size, "test": test_size}, seed=split_seed),
        recordings=(f"{_TREE}/wavs/**/*.wav",),
        derive=partial(_derive, seed=split_seed),
        derived=(*_LISTS.values(), *_SUBSETS.values()),
        settings={"val_size": val_size, "test_size": test_size, "split_seed": split_seed},
    )


def _manifest(part: str) -> str:
    return f"{_TREE}/{part}_manifest.json"


def _read(root: Path, sizes: dict[str, int], seed: int) -> Iterator[Utterance]:
    """Yield the utterances of `metadata.csv`, which has lines `LJ001-0001|text|normalised text`, without quoting.

    `sizes` has the numbers of utterances of val and test; `seed` decides which utterances these are.
    """
    rows = list(rows_of(root, _METADATA, "|", ("id", "text", "normalized_text")))
    shuffled = sorted({row["id"] for row in rows}, key=lambda id: _place(id, seed))
    num_val, num_test = sizes["val"], sizes["test"]
    if num_val + num_test >= len(shuffled):
        raise UsageError(
            f"{option('--val-size')} and {option('--test-size')} leave nothing of the {len(shuffled)} utterances to "
            "train on"
        )
    part_of = dict.fromkeys(shuffled[:num_val], "val") | dict.fromkeys(shuffled[num_val : num_val + num_test], "test")
    for part in _LISTS:
        for row in rows:
            if part_of.get(row["id"], "train") == part:
                fields = {"text": row["text"], "normalized_text": row["normalized_text"], "speaker": _SPEAKER}
                yield row.utterance(_manifest(part), f"{_TREE}/wavs/{row['id']}.wav", fields)


def _place(id: str, seed: int) -> bytes:
    """The sort key that shuffles ids: a hash of the seed and the id, so the order is the same on every machine."""
    import hashlib

    return hashlib.sha256(f"{seed}:{id}".encode()).digest()


def _derive(records: Iterator[tuple[str, dict[str, Any]]], seed: int) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the name and the lines `path|text` of each file list, for Tacotron 2 and WaveGlow.

    There is a list of each part, and shorter lists of train (`_SUBSETS`) if train is larger. The shorter lists are
    taken from the start of one random order, which `seed` determines, so the smallest list is part of the larger ones.

    Paths are relative to the folder that contains `LJSpeech-1.1`, or absolute for a copy elsewhere. Texts are
    normalized.
    """
    lines: dict[str, dict[str, str]] = {part: {} for part in _LISTS}
    for manifest, record in records:
        part = Path(manifest).stem.removesuffix("_manifest")
        path = os.path.join(_TREE, record["audio_filepath"])  # a copy in another folder has absolute paths
        lines[part][Path(path).stem] = f"{path}|{record['normalized_text']}"
    for part, name in _LISTS.items():
        yield name, lines[part].values()
    shuffled = sorted(lines["train"], key=lambda id: _place(id, seed))
    for size, name in _SUBSETS.items():
        if size < len(shuffled):
            yield name, [lines["train"][id] for id in shuffled[:size]]
