"""AISHELL-2: 1,000 hours of read Mandarin, 16 kHz WAV, available to universities on request; read from a local copy."""

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from prepcli.commands.download.data_set import CorpusPart, Utterance, lines_of, speaker_name
from prepcli.commands.download.published.aishell import PARTS, repeated, vocabulary
from prepcli.commands.download.recordings import files_in
from prepcli.commands.download.tables import column_problem
from prepcli.errors import RejectReason, UsageError

# The folders with trans.txt: as published (with or without the archive's folder), or as NeMo's script expects it.
_FOLDERS = {
    "train": ("iOS/data", "AISHELL-2/iOS/data", "transcript/train"),
    "dev": ("iOS/dev", "AISHELL-2/iOS/dev", "AISHELL-DEV-TEST-SET/iOS/dev", "transcript/dev"),
    "test": ("iOS/test", "AISHELL-2/iOS/test", "AISHELL-DEV-TEST-SET/iOS/test", "transcript/test"),
}


def data_set(audio_folder: Path) -> CorpusPart:
    """The parts (train, dev, test) that are in `audio_folder`.

    Recordings are not copied; manifests have absolute paths.

    Raises:
        UsageError: none of the parts exists.
    """
    found = {
        part: folder
        for part in PARTS
        for folder in [next((name for name in _FOLDERS[part] if (audio_folder / name / "trans.txt").exists()), None)]
        if folder is not None
    }
    if not found:
        raise UsageError(
            f"{audio_folder} holds no part of AISHELL-2: looked for iOS/data/trans.txt, iOS/dev/trans.txt, "
            "transcript/train/trans.txt, …"
        )
    return CorpusPart(
        corpus="aishell2",
        name="aishell2",
        archive=None,
        trees=(),
        manifests=tuple(f"{part}.json" for part in found),
        read=partial(_read, folders=found),
        recordings=tuple(_wavs(folder, part) for part, folder in found.items()),
        copy=audio_folder.absolute(),
        derive=_derive,
        derived=("vocab.txt",),
    )


def _read(audio_folder: Path, folders: dict[str, str]) -> Iterator[Utterance]:
    """Yield the utterances of each part (train, dev, test); texts become upper case.

    `folders`: for each part, the folder of its transcript `trans.txt`, which has lines such as `ID0012W0030 text`.
    """
    for part, folder in folders.items():
        sources: dict[str, str] = {}
        yield from repeated(f"{part}.json", _sources(audio_folder, folder, part), sources)
        for number, line in lines_of(audio_folder / folder / "trans.txt"):
            id, text = (*line.split(maxsplit=1), "")[:2]
            source = sources.get(id, f"{id}.wav")
            speaker = Path(source).parent.name or "unknown"
            fields = {"text": " ".join(text.split()).upper(), "speaker": speaker_name("zh", "AISHELL-2", speaker)}
            utterance = Utterance(f"{part}.json", source, fields, f"{folder}/trans.txt:{number}", id=id)
            problem = column_problem(line.count("\t") + 1, 2)
            if problem and "\t" in line:  # white space separates the columns of some copies
                utterance.reason, utterance.detail = RejectReason.BAD_FIELD, problem
            yield utterance


def _wavs(folder: str, part: str) -> str:
    return f"wav/{part}/**/*.wav" if folder.startswith("transcript/") else f"{folder}/wav/**/*.wav"


def _sources(audio_folder: Path, folder: str, part: str) -> Iterator[tuple[str, str, str]]:
    """Yield id, path and place of the recordings of a part: those in `wav.scp` if there is one, else all WAV files."""
    scp = audio_folder / folder / "wav.scp"
    if scp.exists():
        for number, line in lines_of(scp):
            id, *path = line.split(maxsplit=1)
            if path:
                yield id, os.path.relpath(scp.parent / path[0], audio_folder), f"{folder}/wav.scp:{number}"
    else:
        for source in sorted(files_in(audio_folder, _wavs(folder, part))):
            yield Path(source).stem, source, source


def _derive(records: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, Iterable[str]]]:
    yield "vocab.txt", vocabulary(record["text"] for manifest, record in records if manifest == "train.json")
