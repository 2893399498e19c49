"""A folder of long recordings as an input: each audio file in it is a record."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from prepcli.audio.probe import probe
from prepcli.commands.make_manifest.formats import Walk
from prepcli.commands.make_manifest.source import PathNames
from prepcli.errors import RecordRejected, UsageError, option
from prepcli.formats.audio_names import is_audio_name
from prepcli.interface.calls import tell
from prepcli.jobs.inputs.catalogue import line, unusable
from prepcli.jobs.inputs.kinds import FOLDER
from prepcli.storage.addresses import is_address
from prepcli.storage.containers import Catalogue

_OF_TIMES = frozenset((".ctm", ".json", ".rttm", ".srt", ".TextGrid", ".tsv", ".txt", ".vtt"))
"""Suffixes of files that many people keep next to their recordings: no note is made of them."""


def audio_in(path: str, is_unknown: bool) -> list[Catalogue] | None:
    """The catalogue of an audio file, or of the audio in a folder and its subfolders, sorted by path.

    None for other files, and for folders unless `is_unknown`: then they are not a data set.

    Raises:
        UsageError: there is no audio in the folder.
    """
    if is_address(path) or not (is_unknown or (is_audio_name(path) and os.path.isfile(path))):
        return None
    if not is_unknown:
        return [Catalogue(path, _lines, (), FOLDER, FOLDER)]
    walk = Walk(path)
    files = [os.path.join(os.path.abspath(path), name) for name in walk.files()]
    if not files:
        raise UsageError(f"{path} holds no data set and no audio ({'; '.join(walk.notes()) or 'it is empty'})")
    for suffix in _OF_TIMES & walk.left_out.keys():
        del walk.left_out[suffix]
    for note in walk.notes():
        tell(f"note: {path}: {note}")
    return [Catalogue(path, _lines, tuple(files), FOLDER, FOLDER)]


def folder_names(manifests: Sequence[str], out: Path) -> PathNames | None:
    """Makes the paths of audio in lines of `out`, relative to its folder, if the input is a folder of audio."""
    is_folder = all(isinstance(path, Catalogue) and path.kind == FOLDER for path in manifests)
    return PathNames(out.parent, absolute=False) if is_folder else None


def check_cut(manifests: Sequence[str], cut: Path) -> None:
    """Check where the files of segments will be.

    Raises:
        UsageError: they would be in a folder of audio that is an input, and recordings of the next run.
    """
    for path in manifests:
        if os.path.isdir(path) and cut.resolve().is_relative_to(Path(path).resolve()):
            flag = option("--cut", cut)
            raise UsageError(f"{flag} lies in {path}, whose audio files are the recordings: choose another folder")


def _lines(folder: str) -> Iterator[bytes]:
    names = Walk(folder).files() if os.path.isdir(folder) else [""]
    for name in names:
        path = os.path.join(folder, name) if name else folder
        try:
            yield line(path, probe(path).duration, {})
        except RecordRejected as rejected:
            yield unusable(path, rejected)
