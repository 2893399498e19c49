"""AISHELL-1 (openslr.org/33): Mandarin read speech, 16 kHz WAV, 400 speakers.

The published archive holds one archive per speaker.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from prepcli.commands.download.data_set import CorpusPart, Utterance, lines_of, speaker_name, unmatched
from prepcli.commands.download.fetch import Archive
from prepcli.commands.download.published.librispeech import MIRRORS
from prepcli.errors import RejectReason

PARTS = ("train", "dev", "test")
_TREE = "data_aishell"
_TRANSCRIPT = f"{_TREE}/transcript/aishell_transcript_v0.8.txt"
_VOCABULARY = f"{_TREE}/vocab.txt"


def data_set() -> CorpusPart:
    """The whole corpus: train, dev and test. The recordings are used unchanged."""
    return CorpusPart(
        corpus="aishell",
        name="aishell",
        archive=Archive(
            "data_aishell.tgz",
            tuple(f"{mirror}/resources/33/data_aishell.tgz" for mirror in MIRRORS),
            15582913665,  # Kaldi, egs/aishell/s5/local/download_and_untar.sh
            "md5:2f494334227864a8a8fec932999db9d8",  # PaddleSpeech, dataset/aishell/aishell.py
        ),
        trees=(_TREE,),
        nested=f"{_TREE}/wav/*.tar.gz",
        manifests=tuple(f"{_TREE}/{part}.json" for part in PARTS),
        read=_read,
        derive=_derive,
        derived=(_VOCABULARY,),
    )


def _read(root: Path) -> Iterator[Utterance]:
    """Yield the utterances: recordings such as `wav/train/S0002/BAC009S0002W0122.wav`, and their texts.

    All texts are in one transcript; spaces between words are removed.
    """
    transcript = {}
    for number, line in lines_of(root / _TRANSCRIPT):
        id, *words = line.split()
        transcript[id] = (number, "".join(words))
    for part in PARTS:
        manifest = f"{_TREE}/{part}.json"
        silent = []
        for path in sorted((root / _TREE / "wav" / part).glob("*/*.wav")):
            source = path.relative_to(root).as_posix()
            number, text = transcript.pop(path.stem, (0, ""))
            if not text:
                silent.append(source)
                continue
            fields = {"text": text, "speaker": speaker_name("zh", "AISHELL", path.parent.name)}
            yield Utterance(manifest, source, fields, f"{_TRANSCRIPT}:{number}")
        yield from unmatched(manifest, silent)
    for id, (number, text) in transcript.items():
        where = f"{_TRANSCRIPT}:{number}"
        reason, detail = RejectReason.MISSING_AUDIO, f"there is no recording {id}.wav"
        yield Utterance(manifest, f"{id}.wav", {"text": text}, where, reason=reason, detail=detail)


def _derive(records: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, Iterable[str]]]:
    yield _VOCABULARY, vocabulary(record["text"] for _, record in records)


def vocabulary(texts: Iterable[str]) -> list[str]:
    """The characters of `texts`, the most frequent first; equally frequent ones by code point."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return sorted(counts, key=lambda character: (-counts[character], character))
