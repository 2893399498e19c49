"""AISHELL-2: 1,000 hours of read Mandarin, 16 kHz WAV, available to universities on request; read from a local copy."""

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, corpus
from prepcli.commands.download.data_set import CorpusPart, Utterance, lines_of, speaker_name
from prepcli.commands.download.published.aishell import PARTS, repeated, vocabulary
from prepcli.commands.download.recordings import files_in
from prepcli.commands.download.tables import column_problem
from prepcli.engine.run.options import JobArguments
from prepcli.errors import RejectReason, UsageError
from prepcli.interface.options import Option, PathText

# The folders with trans.txt: as published (with or without the archive's folder), or as NeMo's script expects it.
_FOLDERS = {
    "train": ("iOS/data", "AISHELL-2/iOS/data", "transcript/train"),
    "dev": ("iOS/dev", "AISHELL-2/iOS/dev", "AISHELL-DEV-TEST-SET/iOS/dev", "transcript/dev"),
    "test": ("iOS/test", "AISHELL-2/iOS/test", "AISHELL-DEV-TEST-SET/iOS/test", "transcript/test"),
}


@corpus("aishell2")
def download_aishell2(
    audio_folder: Annotated[
        PathText,
        Option(
            "Folder of the corpus; it contains iOS/data, or transcript/ and wav/.",
            must_exist="folder",
            shapes_output=False,
        ),
    ],
    data_root: DataRoot,
    **more: Unpack[JobArguments],
) -> CorpusPart:
    """Make NeMo manifests of a copy of AISHELL-2.

    Writes D/train.json, dev.json and test.json (those that the copy has), and D/vocab.txt with the characters of the
    training texts, the most frequent first. The recordings stay where they are; the manifests have absolute paths.

    Example: prepcli download aishell2 --audio-folder AISHELL-2/ --data-root data/

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_aishell2("AISHELL-2", "data")
        >>> report.outputs["train"]
        '/.../data/train.json'
    """
    copy = Path(audio_folder)
    found = {
        part: folder
        for part in PARTS
        for folder in [next((name for name in _FOLDERS[part] if (copy / name / "trans.txt").exists()), None)]
        if folder is not None
    }
    if not found:
        raise UsageError(
            f"{copy} holds no part of AISHELL-2: looked for iOS/data/trans.txt, iOS/dev/trans.txt, "
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
        copy=copy.absolute(),
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
        for where, line in lines_of(audio_folder, f"{folder}/trans.txt"):
            id, text = (*line.split(maxsplit=1), "")[:2]
            source = sources.get(id, f"{id}.wav")
            speaker = Path(source).parent.name or "unknown"
            fields = {"text": " ".join(text.split()).upper(), "speaker": speaker_name("zh", "AISHELL-2", speaker)}
            utterance = Utterance(f"{part}.json", source, fields, where, id=id)
            problem = column_problem(line.count("\t") + 1, 2)
            if problem and "\t" in line:  # white space separates the columns of some copies
                utterance.reason, utterance.detail = RejectReason.BAD_FIELD, problem
            yield utterance


def _wavs(folder: str, part: str) -> str:
    return f"wav/{part}/**/*.wav" if folder.startswith("transcript/") else f"{folder}/wav/**/*.wav"


def _sources(audio_folder: Path, folder: str, part: str) -> Iterator[tuple[str, str, str]]:
    """Yield id, path and place of the recordings of a part: those in `wav.scp` if there is one, else all WAV files."""
    scp = f"{folder}/wav.scp"
    if (audio_folder / scp).exists():
        for where, line in lines_of(audio_folder, scp):
            id, *path = line.split(maxsplit=1)
            if path:
                yield id, os.path.relpath(audio_folder / folder / path[0], audio_folder), where
    else:
        for source in sorted(files_in(audio_folder, _wavs(folder, part))):
            yield Path(source).stem, source, source


def _derive(records: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, Iterable[str]]]:
    yield "vocab.txt", vocabulary(record["text"] for manifest, record in records if manifest == "train.json")
