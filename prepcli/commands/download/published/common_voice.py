"""Common Voice: sentences read by volunteers in 290 languages, MP3; available from Mozilla after a login."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments, corpus
from prepcli.commands.download.data_set import Archive, CorpusPart, Utterance, choose, speaker_name
from prepcli.commands.download.tables import TableRow, rows_of
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option

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


@corpus("common-voice")
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
) -> CorpusPart:
    """Make NeMo manifests of your copy of a language of Common Voice, which Mozilla hands out after a login.

    Give the archive as you got it (--archive) or the folder with its content (--extracted). Writes
    D/cv-corpus-RELEASE/LANGUAGE/{train,dev,test}.json with audio_filepath, duration, text, speaker, lang, up_votes,
    down_votes and, if the speaker told them, age, gender, accents and variant. The recordings (MP3) stay unchanged.

    train, dev and test are parts of validated: to train on validated, leave out the texts and speakers of dev and test.

    Run the same command again to continue.

    Example: prepcli download common-voice --data-root data/ --language en --archive cv-corpus-25.0-2026-03-09-en.tar.gz

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_common_voice("data", "en")
        >>> report.outputs["train"]
        '/.../data/cv-corpus-25.0-2026-03-09/en/train.json'
    """
    for value, name in ((language, "--language"), (release, "--release")):
        if not re.fullmatch(r"[\w.-]+", value):
            raise UsageError(f"{option(name, value)} is not a part of an archive's name")
    chosen = choose("Common Voice", data_sets, _SETS, {"ALL": _SETS})
    archive = f"cv-corpus-{release}-{language}.tar.gz"
    tree = f"cv-corpus-{release}/{language}"
    return CorpusPart(
        corpus="common-voice",
        name=f"{release}-{language}",
        archive=Archive(archive, (), *_PUBLISHED.get(archive, ())),
        trees=(tree,),
        manifests=tuple(f"{tree}/{name}.json" for name in chosen),
        read=partial(_read, tree=tree, language=language, names=chosen),
        recordings=(f"{tree}/clips/**/*",),
        named=partial(_named, tree=tree, names=chosen),
        settings={"data_sets": chosen},
    )


def _read(root: Path, tree: str, language: str, names: list[str]) -> Iterator[Utterance]:
    """Yield the utterances of the tables `names`, such as `train` for `train.tsv`.

    Columns are found by name, because releases have different columns.
    """
    seconds = _durations(root, f"{tree}/clip_durations.tsv")
    for name in names:
        for row in rows_of(root, f"{tree}/{name}.tsv", "\t", needed=("client_id", "path", "sentence"), is_csv=True):
            clip, code = _clip(row), row["locale"] or language
            speaker = speaker_name(code.partition("-")[0], "CommonVoice", row["client_id"])
            fields: dict[str, Any] = {"text": row["sentence"], "speaker": speaker, "lang": code}
            about = {name: row[name] for name in _ABOUT}
            about["accents"] = about["accents"] or row["accent"]  # as in early releases
            fields |= {field: value for field, value in about.items() if value}
            fields |= {field: int(row[field]) for field in _VOTES if row[field].isdecimal()}
            utterance = row.utterance(f"{tree}/{name}.json", f"{tree}/clips/{clip}", fields)
            utterance.duration = seconds(clip)
            yield utterance


def _named(root: Path, tree: str, names: list[str]) -> Iterator[str]:
    """Yield the clips of all tables with sentences but `names`: those whose manifests are not asked for."""
    for path in sorted(path for path in (root / tree).glob("[!.]*.tsv") if path.stem not in names):
        rows = rows_of(root, f"{tree}/{path.name}", "\t", is_csv=True)
        yield from (f"{tree}/clips/{_clip(row)}" for row in rows if {"path", "sentence"} <= row.values.keys())


def _clip(row: TableRow) -> str:
    clip = row["path"]
    return clip if not clip or Path(clip).suffix else f"{clip}.mp3"  # as in early releases


def _durations(root: Path, table: str) -> Callable[[str], float | None]:
    """A function that returns the published seconds of a clip, or None if they are not known.

    Releases before 16.1 have no table of durations.
    """
    if not (root / table).exists():
        return lambda clip: None
    import numpy as np  # not at the top: this module is imported for every corpus

    rows = (row for row in rows_of(root, table, "\t") if not row.problem)
    pairs = ((hash(row["clip"]), _number(row["duration[ms]"])) for row in rows)
    known = np.fromiter(pairs, np.dtype([("clip", np.int64), ("ms", np.float32)]))  # 12 bytes per clip
    known.sort(order="clip")
    clips = known["clip"].copy()

    def seconds(clip: str) -> float | None:
        at = int(np.searchsorted(clips, hash(clip)))
        return float(known["ms"][at]) / 1000 if at < len(clips) and clips[at] == hash(clip) else None

    return seconds


def _number(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdecimal() else 0.0
