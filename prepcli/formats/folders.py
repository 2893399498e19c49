"""Lists the files of a data set in a folder: regular files only, by name or by the number of the shard."""

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from prepcli.errors import UsageError
from prepcli.formats.audio_names import is_audio_name
from prepcli.storage.paths import AnyPath, StorePath

_MAX_SEEN = 10_000
_OF_LHOTSE = re.compile(r"(?:^|_)supervisions(?:_.*)?\.jsonl(?:\.gz)?$")


class Listing(NamedTuple):
    """Sorted names in a folder: regular files and links to regular files, and folders and links to folders.

    Other entries are left out: opening a pipe would wait for its other end, and opening a device can have any effect.
    """

    files: list[str]
    folders: list[str]


def listing(folder: AnyPath) -> Listing:
    """The names in a folder; empty if the folder does not exist."""
    if isinstance(folder, StorePath):
        folders, objects = folder.listed()
        return Listing(sorted(objects), sorted(folders))
    names = Listing([], [])
    if folder.is_dir():
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file():
                    names.files.append(entry.name)
                elif entry.is_dir():
                    names.folders.append(entry.name)
        names.files.sort()
        names.folders.sort()
    return names


def numbered(folder: AnyPath, pattern: "re.Pattern[str]", names: Iterable[str] | None = None) -> dict[int, AnyPath]:
    """The files in a folder whose names match `pattern`, in the order of the numbers in the names.

    Args:
        folder: the folder.
        pattern: its first group is the number.
        names: the names of the folder's files; None lists the folder.

    Raises:
        UsageError: two files have the same number.
    """
    files: dict[int, AnyPath] = {}
    for name in listing(folder).files if names is None else names:
        if match := pattern.match(name):
            path = folder / name
            if (other := files.setdefault(int(match[1]), path)) is not path:
                raise two_of_a_shard(other, path)
    return dict(sorted(files.items()))


def regular_files(folder: AnyPath) -> list[AnyPath]:
    """The regular files in a folder, as in `Listing`; empty if the folder does not exist."""
    return [folder / name for name in listing(folder).files]


def advice_on_audio(folder: AnyPath) -> str:
    """The end of a message that a folder is not a data set: advice if it holds audio or is one of Kaldi or lhotse.

    Else, and for a folder in a store, the text is empty. Only about 10,000 names in the folder and below it are read.
    """
    seen = 0
    for _, folders, names in os.walk(folder) if not isinstance(folder, StorePath) else ():
        if seen == 0 and "wav.scp" in names:
            return f"; it is a Kaldi directory: make a manifest of it first, prepcli make-manifest {folder} OUT.json"
        if seen == 0 and any(_OF_LHOTSE.search(name) for name in names):
            return f"; it has manifests of lhotse: make one of NeMo first, prepcli make-manifest {folder} OUT.json"
        if any(map(is_audio_name, names)):
            return f"; it is a folder of audio: make a manifest of it first, prepcli make-manifest {folder} OUT.json"
        folders.sort()
        seen += len(folders) + len(names)
        if seen > _MAX_SEEN:
            break
    return ""


def irregular_files(folder: AnyPath) -> list[AnyPath]:
    """Entries that are neither regular files nor folders, such as pipes or devices, in a folder and one level below."""
    if isinstance(folder, StorePath):
        return []
    paths = []
    for place in [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]:
        with os.scandir(place) as entries:
            paths += [place / entry.name for entry in entries if not entry.is_file() and not entry.is_dir()]
    return sorted(paths)


def two_of_a_shard(path: AnyPath, other: AnyPath) -> UsageError:
    """The error for two files of one shard: readers would read the shard twice, or the older file."""
    first, second = sorted((path.name, other.name))
    return UsageError(f"{path.parent} holds {first} and {second}, two files of the same shard; remove one of them")
