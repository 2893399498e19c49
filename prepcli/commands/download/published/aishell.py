"""AISHELL-1 (openslr.org/33): Mandarin read speech, 16 kHz WAV, 400 speakers.

The published archive holds one archive per speaker.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments, corpus
from prepcli.commands.download.data_set import CorpusPart, Utterance, lines_of, of_openslr, speaker_name
from prepcli.commands.download.recordings import files_in
from prepcli.errors import RejectReason

PARTS = ("train", "dev", "test")
_TREE = "data_aishell"
_TRANSCRIPT = f"{_TREE}/transcript/aishell_transcript_v0.8.txt"
_VOCABULARY = f"{_TREE}/vocab.txt"


@corpus("aishell")
def download_aishell(data_root: DataRoot, **more: Unpack[FetchArguments]) -> CorpusPart:
    """Fetch AISHELL-1 and make NeMo manifests of it.

    Writes D/data_aishell/train.json, dev.json and test.json, and vocab.txt with the characters of all texts, the most
    frequent first. The recordings stay unchanged. Texts contain no spaces.

    Run the same command again to continue.

    Example: prepcli download aishell --data-root data/

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_aishell("data")
        >>> report.outputs["train"]
        '/.../data/data_aishell/train.json'
    """
    return CorpusPart(
        corpus="aishell",
        name="aishell",
        archive=of_openslr(
            33,
            "data_aishell.tgz",
            15582913665,  # Kaldi, egs/aishell/s5/local/download_and_untar.sh
            "md5:2f494334227864a8a8fec932999db9d8",  # PaddleSpeech, dataset/aishell/aishell.py
        ),
        trees=(_TREE,),
        nested=f"{_TREE}/wav/*.tar.gz",
        manifests=tuple(f"{_TREE}/{part}.json" for part in PARTS),
        read=_read,
        recordings=(f"{_TREE}/wav/**/*.wav",),
        derive=_derive,
        derived=(_VOCABULARY,),
    )


def _read(root: Path) -> Iterator[Utterance]:
    """Yield the utterances: recordings such as `wav/train/S0002/BAC009S0002W0122.wav`, and their texts.

    All texts are in one transcript; spaces between words are removed.
    """
    sources: dict[str, str] = {}
    wavs = [source for part in PARTS for source in sorted(files_in(root, f"{_TREE}/wav/{part}/**/*.wav"))]
    further = list(repeated("", ((Path(source).stem, source, source) for source in wavs), sources))
    lines = [(where, line.split()) for where, line in lines_of(root, _TRANSCRIPT)]
    for part in PARTS:
        for where, (id, *words) in lines:
            source = sources.get(id, f"{_TREE}/wav/{PARTS[-1]}/unknown/{id}.wav")
            if source.startswith(f"{_TREE}/wav/{part}/"):
                speaker = speaker_name("zh", "AISHELL", Path(source).parent.name)
                fields = {"text": "".join(words), "speaker": speaker}
                yield Utterance(f"{_TREE}/{part}.json", source, fields, where)
    yield from further


def repeated(manifest: str, recordings: Iterable[tuple[str, str, str]], sources: dict[str, str]) -> Iterator[Utterance]:
    """Yield a reject for each recording whose id an earlier one has; put the path of each id's first in `sources`.

    `recordings`: id, path and place of each recording.
    """
    places: dict[str, str] = {}
    for id, source, where in recordings:
        if places.setdefault(id, where) == where:
            sources[id] = source
        elif source != sources[id]:
            detail = f"the id {id} is there twice, in {places[id]} and in {where}; the first is used"
            yield Utterance(manifest, source, {}, where, reason=RejectReason.BAD_FIELD, detail=detail)


def _derive(records: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, Iterable[str]]]:
    yield _VOCABULARY, vocabulary(record["text"] for _, record in records)


def vocabulary(texts: Iterable[str]) -> list[str]:
    """The characters of `texts`, the most frequent first; equally frequent ones by code point."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return sorted(counts, key=lambda character: (-counts[character], character))
