"""Multilingual LibriSpeech (openslr.org/94): audio books in eight languages, FLAC or Opus, 16 kHz."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Annotated, Literal

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments, corpus
from prepcli.commands.download.data_set import Archive, CorpusPart, Utterance, lines_of, speaker_name
from prepcli.commands.download.tables import genders_of, rows_of
from prepcli.errors import RejectReason
from prepcli.interface.options import Option

_CODES = {
    "dutch": "nl",
    "english": "en",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "polish": "pl",
    "portuguese": "pt",
    "spanish": "es",
}
_HANDLES = "train/limited_supervision/{}/handles.txt"
_SMALL = {"train_9hr": ("9hr",), "train_1hr": tuple(f"1hr/{number}" for number in range(6))}


@corpus("mls")
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
) -> CorpusPart:
    """Fetch a language of Multilingual LibriSpeech and make NeMo manifests of it.

    Writes D/mls_LANGUAGE_opus/{train,dev,test}.json, and the published small training parts train_9hr.json and
    train_1hr.json (with the field subset: which ten minutes), with audio_filepath, duration, text, speaker, gender and
    lang. The recordings stay unchanged. The header of an Opus file says 48 kHz; the audio is from 16 kHz.

    The publisher gives no checksums: length, CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue.

    Example: prepcli download mls --data-root data/ --language polish

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_mls("data", "polish")
        >>> report.outputs["train_9hr"]
        '/.../data/mls_polish_opus/train_9hr.json'
    """
    tree = f"mls_{language}{'_opus' if archive_format == 'opus' else ''}"
    archive = f"{tree}.tar.gz"
    return CorpusPart(
        corpus="mls",
        name=f"{language}_{archive_format}",
        archive=Archive(archive, (f"https://dl.fbaipublicfiles.com/mls/{archive}",)),  # the address on openslr.org/94
        trees=(tree,),
        manifests=tuple(f"{tree}/{part}.json" for part in ("train", *_SMALL, "dev", "test")),
        read=partial(_read, tree=tree, code=_CODES[language], suffix=archive_format),
        recordings=tuple(f"{tree}/{part}/audio/**/*.{archive_format}" for part in ("train", "dev", "test")),
        settings={"language": language, "archive_format": archive_format},
    )


def _read(root: Path, tree: str, code: str, suffix: str) -> Iterator[Utterance]:
    """Yield the utterances of `train/transcripts.txt` and the other transcripts, which have lines `id	text`.

    After train come its small parts (`train_9hr`, `train_1hr`), which are published as lists of ids of utterances in
    train.
    """
    genders = genders_of(root, f"{tree}/metainfo.txt")
    listed = [
        (part, subset, where, id)
        for part, subsets in _SMALL.items()
        for subset in subsets
        for where, id in lines_of(root, f"{tree}/{_HANDLES.format(subset)}")
    ]
    wanted = {id for *_, id in listed}
    kept: dict[str, Utterance] = {}
    for part in ("train", "dev", "test"):
        folder = f"{tree}/{part}"
        rows = rows_of(root, f"{folder}/transcripts.txt", "\t", ("id", "text"))
        segments = chain(lines_of(root, f"{folder}/segments.txt"), repeat(("", "")))
        for row, (_, segment) in zip(rows, segments, strict=False):
            id = row["id"]
            speaker, book, *_ = (*id.split("_"), "")
            fields = {"text": row["text"], "speaker": speaker_name(code, "MLS", speaker), "lang": code}
            fields |= {"gender": genders[speaker]} if speaker in genders else {}
            source = f"{folder}/audio/{speaker}/{book}/{id}.{suffix}"
            utterance = row.utterance(f"{folder}.json", source, fields)
            utterance.duration = _seconds(segment, id)
            if part == "train" and id in wanted:
                kept.setdefault(id, replace(utterance))
            yield utterance
        if part == "train":
            yield from _small_parts(tree, listed, kept)


def _small_parts(
    tree: str, listed: list[tuple[str, str, str, str]], known: dict[str, Utterance]
) -> Iterator[Utterance]:
    for part, subset, where, id in listed:
        manifest = f"{tree}/{part}.json"
        if id in known:
            fields = {**known[id].fields, "subset": subset}
            yield replace(known[id], manifest=manifest, where=where, fields=fields)
        else:
            detail = f"{id} is not in train/transcripts.txt"
            reason = RejectReason.MISSING_FIELD
            yield Utterance(manifest, "", {"subset": subset}, where, reason=reason, detail=detail)


def _seconds(segment: str, id: str) -> float | None:
    """The published duration of utterance `id`, from a line `id	url	begin	end` of `segments.txt`.

    None if the line is damaged or belongs to another utterance.
    """
    try:
        other, _, begin, end = segment.split("\t")
        return float(end) - float(begin) if other == id else None
    except ValueError:
        return None
