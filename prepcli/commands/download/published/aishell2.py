"""AISHELL-2: 1,000 hours of read Mandarin, 16 kHz WAV, available to universities on request; read from a local copy."""

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from prepcli.commands.download.data_set import CorpusPart, Utterance, lines_of, speaker_name, unmatched
from prepcli.commands.download.published.aishell import PARTS, vocabulary
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
        copy=audio_folder.absolute(),
        derive=_derive,
        derived=("vocab.txt",),
    )


def _read(audio_folder: Path, folders: dict[str, str]) -> Iterator[Utterance]:
    """Yield the utterances of each part (train, dev, test); texts become upper case.

    `folders`: for each part, the folder of its transcript `trans.txt`, which has lines such as `ID0012W0030 text`.
    """
    for part, folder in folders.items():
        transcript = audio_folder / folder / "trans.txt"
        recordings = _recordings(audio_folder, folder, part)
        for number, line in lines_of(transcript):
            id, *words = line.split()
            path = recordings.pop(id, None)
            text = " ".join(words).upper()
            utterance = Utterance(
                f"{part}.json",
                os.path.relpath(path, audio_folder) if path else f"{id}.wav",
                {"text": text, "speaker": speaker_name("zh", "AISHELL-2", path.parent.name if path else "unknown")},
                f"{transcript}:{number}",
            )
            if path is None:
                utterance.reason, utterance.detail = RejectReason.MISSING_AUDIO, f"there is no recording {id}.wav"
            elif not text:
                utterance.reason, utterance.detail = RejectReason.MISSING_FIELD, "the line has no words"
            yield utterance
        unnamed = (os.path.relpath(path, audio_folder) for path in sorted(recordings.values()))
        yield from unmatched(f"{part}.json", unnamed)


def _recordings(audio_folder: Path, folder: str, part: str) -> dict[str, Path]:
    """The recordings of a part by their ids: those in `wav.scp` if there is one, else all WAV files of the part."""
    scp = audio_folder / folder / "wav.scp"
    if scp.exists():
        rows = (line.split(maxsplit=1) for _, line in lines_of(scp))
        return {row[0]: scp.parent / row[1] for row in rows if len(row) == 2}
    wavs = audio_folder / "wav" / part if folder.startswith("transcript/") else audio_folder / folder / "wav"
    return {path.stem: path for path in sorted(wavs.glob("**/*.wav"))}


def _derive(records: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, Iterable[str]]]:
    yield "vocab.txt", vocabulary(record["text"] for manifest, record in records if manifest == "train.json")
