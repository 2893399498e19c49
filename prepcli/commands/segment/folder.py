"""A folder of long recordings as an input: each audio file in it is a record."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from prepcli.audio.probe import probe
from prepcli.commands.make_manifest.formats import Walk
from prepcli.commands.make_manifest.source import PathNames
from prepcli.errors import RecordRejected, UsageError
from prepcli.interface.calls import tell
from prepcli.jobs.inputs.catalogue import line, unusable
from prepcli.jobs.inputs.kinds import FOLDER
from prepcli.storage.containers import Catalogue

_OF_TIMES = frozenset((".ctm", ".json", ".rttm", ".srt", ".TextGrid", ".tsv", ".txt", ".vtt"))
"""Suffixes of files that many people keep next to their recordings: no note is made of them."""


def audio_folder(folder: str) -> Catalogue:
    """The catalogue of the audio in a folder and its subfolders, sorted by path, or of one file.

    Raises:
        UsageError: there is none.
    """
    if not os.path.isdir(folder):
        return Catalogue(folder, _lines, (), FOLDER, FOLDER)
    walk = Walk(folder)
    files = [os.path.join(os.path.abspath(folder), name) for name in walk.files()]
    if not files:
        raise UsageError(f"{folder} holds no data set and no audio ({'; '.join(walk.notes()) or 'it is empty'})")
    for suffix in _OF_TIMES & walk.left_out.keys():
        del walk.left_out[suffix]
    for note in walk.notes():
        tell(f"note: {folder}: {note}")
    return Catalogue(folder, _lines, tuple(files), FOLDER, FOLDER)


def folder_names(manifests: Sequence[str], out: Path) -> PathNames | None:
    """Makes the paths of audio in lines of `out`, relative to its folder, if the input is a folder of audio."""
    is_folder = all(isinstance(path, Catalogue) and path.kind == FOLDER for path in manifests)
    return PathNames(out.parent, absolute=False) if is_folder else None


def _lines(folder: str) -> Iterator[bytes]:
    names = Walk(folder).files() if os.path.isdir(folder) else [""]
    for name in names:
        path = os.path.join(folder, name) if name else folder
        try:
            yield line(path, probe(path).duration, {})
        except RecordRejected as rejected:
            yield unusable(path, rejected)
