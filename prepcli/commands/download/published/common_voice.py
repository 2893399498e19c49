"""Common Voice: sentences read by volunteers in 290 languages, MP3; available from Mozilla after a login."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from prepcli.commands.download.data_set import CorpusPart, Utterance, choose, speaker_name
from prepcli.commands.download.fetch import Archive
from prepcli.errors import RejectReason, UsageError, option

_SETS = ("train", "dev", "test", "validated", "invalidated", "other")
# Bytes and SHA-256 of a language's archive: common-voice/cv-dataset, datasets/scripted-speech/cv-corpus-<release>.json.
_PUBLISHED = {
    "cv-corpus-25.0-2026-03-09-en.tar.gz": (
        94318514032,
        "sha256:5fc6abeb1832af175a72bd13b79bf90866d3eb0096463daea612fdae6d7cc692",
    )
}
_ABOUT = ("age", "gender", "accents", "variant")
_VOTES = ("up_votes", "down_votes")


def data_set(language: str, release: str, names: str) -> CorpusPart:
    """A language of a release, with a manifest for each of the data sets in `names`.

    Raises:
        UsageError: a data set does not exist, or the language or the release cannot be a part of a file name.
    """
    for value, name in ((language, "--language"), (release, "--release")):
        if not re.fullmatch(r"[\w.-]+", value):
            raise UsageError(f"{option(name, value)} is not a part of an archive's name")
    chosen = choose("Common Voice", names, _SETS, {"ALL": _SETS})
    archive = f"cv-corpus-{release}-{language}.tar.gz"
    tree = f"cv-corpus-{release}/{language}"
    return CorpusPart(
        corpus="common-voice",
        name=f"{release}-{language}",
        archive=Archive(archive, (), *_PUBLISHED.get(archive, ())),
        trees=(tree,),
        manifests=tuple(f"{tree}/{name}.json" for name in chosen),
        read=partial(_read, tree=tree, language=language, names=chosen),
        settings={"data_sets": chosen},
    )


def _read(root: Path, tree: str, language: str, names: list[str]) -> Iterator[Utterance]:
    """Yield the utterances of the tables `names`, such as `train` for `train.tsv`.

    Columns are found by name, because releases have different columns.
    """
    seconds = _durations(root / tree / "clip_durations.tsv")
    for name in names:
        for number, row in _rows(root / tree / f"{name}.tsv"):
            clip = row["path"] if Path(row["path"]).suffix else f"{row['path']}.mp3"  # as in early releases
            code = row.get("locale") or language
            speaker = speaker_name(code.partition("-")[0], "CommonVoice", row["client_id"])
            fields: dict[str, Any] = {"text": row["sentence"].strip(), "speaker": speaker, "lang": code}
            about = {name: row.get(name, "").strip() for name in _ABOUT}
            about["accents"] = about["accents"] or row.get("accent", "").strip()  # as in early releases
            fields |= {field: value for field, value in about.items() if value}
            fields |= {field: int(row[field]) for field in _VOTES if row.get(field, "").isdecimal()}
            where = f"{tree}/{name}.tsv:{number}"
            utterance = Utterance(f"{tree}/{name}.json", f"{tree}/clips/{clip}", fields, where, duration=seconds(clip))
            if not fields["text"]:
                utterance.reason, utterance.detail = RejectReason.MISSING_FIELD, "the sentence is empty"
            yield utterance


def _rows(table: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a table, each with its line number, as a dictionary by the column names in the first line.

    A missing value is empty. Quotation marks are part of the text.
    """
    with table.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        columns = file.readline().rstrip("\r\n").split("\t")
        for needed in ("client_id", "path", "sentence") if table.stem in _SETS else ():
            if needed not in columns:
                raise UsageError(f"{table}:1: there is no column {needed}; this is not a table of Common Voice")
        for number, line in enumerate(file, start=2):
            if line.strip():
                values = line.rstrip("\r\n").split("\t")
                yield number, dict.fromkeys(columns, "") | dict(zip(columns, values, strict=False))


def _durations(table: Path) -> Callable[[str], float | None]:
    """A function that returns the published seconds of a clip, or None if they are not known.

    Releases before 16.1 have no table of durations.
    """
    if not table.exists():
        return lambda clip: None
    import numpy as np  # not at the top: this module is imported for every corpus

    rows = ((hash(row.get("clip")), _number(row.get("duration[ms]", ""))) for _, row in _rows(table))
    known = np.fromiter(rows, np.dtype([("clip", np.int64), ("ms", np.float32)]))  # 12 bytes per clip
    known.sort(order="clip")
    clips = known["clip"].copy()

    def seconds(clip: str) -> float | None:
        at = int(np.searchsorted(clips, hash(clip)))
        return float(known["ms"][at]) / 1000 if at < len(clips) and clips[at] == hash(clip) else None

    return seconds


def _number(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdecimal() else 0.0
