"""The files of a data set in a folder: regular files only, by name or by the number of the shard."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from prepcli.errors import UsageError
from prepcli.formats.audio_names import is_audio_name
from prepcli.storage.paths import StorePath, entry_is_dir, entry_is_file

_MAX_SEEN = 10_000


class Listing(NamedTuple):
    """The names in a folder, sorted: regular files with links to such files, and folders with links to these.

    Opening a pipe would wait for its other end, and opening a device can have any effect.
    """

    files: list[str]
    folders: list[str]


def listing(folder: Path) -> Listing:
    """What lies in a folder; nothing if there is no folder."""
    if isinstance(folder, StorePath):
        folders, objects = folder.listed()
        return Listing(sorted(objects), sorted(folders))
    found = Listing([], [])
    if folder.is_dir():
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry_is_file(entry):
                    found.files.append(entry.name)
                elif entry_is_dir(entry):
                    found.folders.append(entry.name)
        found.files.sort()
        found.folders.sort()
    return found


def numbered(folder: Path, pattern: "re.Pattern[str]", names: Iterable[str] | None = None) -> dict[int, Path]:
    """The files in a folder whose names match `pattern`, in the order of the numbers in the names.

    Args:
        folder: the folder.
        pattern: its first group is the number.
        names: the files of the folder, if they are known.

    Raises:
        UsageError: two files have the same number.
    """
    found: dict[int, Path] = {}
    for name in listing(folder).files if names is None else names:
        if match := pattern.match(name):
            path = folder / name
            if (other := found.setdefault(int(match[1]), path)) is not path:
                raise two_of_a_shard(other, path)
    return dict(sorted(found.items()))


def regular_files(folder: Path) -> list[Path]:
    """The regular files in a folder, as in `Listing`; none if there is no folder."""
    return [folder / name for name in listing(folder).files]


def advice_on_audio(folder: Path) -> str:
    """Return what to do with a folder of audio, to follow a message that it is not a data set; empty for other folders.

    The first names in it and below are looked at.
    """
    seen = 0
    for _, folders, names in os.walk(folder) if not isinstance(folder, StorePath) else ():
        if any(map(is_audio_name, names)):
            return f"; it is a folder of audio: make a manifest of it first, prepcli make-manifest {folder} OUT.json"
        folders.sort()
        seen += len(folders) + len(names)
        if seen > _MAX_SEEN:
            break
    return ""


def irregular_files(folder: Path) -> list[Path]:
    """What is neither a regular file nor a folder, in a folder and the folders in it: pipes, devices, broken links."""
    if isinstance(folder, StorePath):
        return []
    found = []
    for place in [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]:
        with os.scandir(place) as entries:
            found += [place / entry.name for entry in entries if not entry_is_file(entry) and not entry_is_dir(entry)]
    return sorted(found)


def two_of_a_shard(one: Path, other: Path) -> UsageError:
    """The error for a shard that would be read twice, or from the older of two files instead of the newer."""
    first, second = sorted((one.name, other.name))
    return UsageError(f"{one.parent} holds {first} and {second}, two files of the same shard; remove one of them")
