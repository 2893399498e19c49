"""The files of a data set in a folder: regular files only, by name or by the number of the shard."""

import os
import re
from pathlib import Path

from prepcli.errors import UsageError
from prepcli.formats.audio_names import is_audio_name
from prepcli.storage.paths import StorePath, entry_is_dir, entry_is_file

_MAX_SEEN = 10_000


def numbered(folder: Path, pattern: "re.Pattern[str]") -> dict[int, Path]:
    """The files in a folder whose names match `pattern`, by the number in the name; pipes and devices are not files.

    Raises:
        UsageError: two files have the same number.
    """
    found: dict[int, Path] = {}
    for path in regular_files(folder):
        if match := pattern.match(path.name):
            other = found.setdefault(int(match[1]), path)
            if other is not path:
                raise two_of_a_shard(other, path)
    return found


def regular_files(folder: Path) -> list[Path]:
    """The regular files in a folder and links to such files, sorted by name; none if there is no folder.

    Opening a pipe would wait for its other end, and opening a device can have any effect.
    """
    if isinstance(folder, StorePath):
        return sorted(folder.objects())
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return [folder / name for name in sorted(entry.name for entry in entries if entry_is_file(entry))]


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
