"""Advice on files that no command reads as they are: shell commands that convert them, to be copied and run."""

import glob
import os
import re
import shlex
from collections.abc import Sequence

from prepcli.errors import option
from prepcli.formats.audio_names import AUDIO_SUFFIXES
from prepcli.formats.tables import Layout
from prepcli.storage.addresses import is_address

_WINDOWS = re.compile(r"([A-Za-z]:)?[^/]*\\")
_SHOWN = 60
_AUDIO_FOLDERS = ("wavs", "wav", "audio", "clips", "")


def make_manifest_of(path: str) -> str:
    """The command that makes a manifest of the source `path`."""
    return f"prepcli make-manifest {shlex.quote(path)} OUT.json"


def conversion(path: str, words: str, new: str) -> str:
    """The shell command that converts the file `path` to `new` by the command `words`, which reads a file.

    For an object, it is a command for a copy on a disk.
    """
    old, new = shlex.quote(os.path.basename(path) if is_address(path) else path), shlex.quote(new)
    command = f"gzip -cd {old} | {words} > {new}" if path.endswith(".gz") else f"{words} {old} > {new}"
    return f"copy it to a disk, and there, {command}" if is_address(path) else command


def new_name(path: str, before: str = "", suffix: str | None = None) -> str:
    """A path for the converted copy of the file `path`, next to it; no file has this path yet.

    For an object, it is a path in the current folder.

    Args:
        path: the file; a suffix `.gz` is left out, because the copy is not compressed.
        before: text in front of the suffix.
        suffix: the suffix of the copy, if it is another.
    """
    name = os.path.basename(path) if is_address(path) else path
    stem, old = os.path.splitext(name.removesuffix(".gz"))
    ending, number = before + (old if suffix is None else suffix), 1
    new = stem + ending
    while new == name or os.path.exists(new):
        number += 1
        new = f"{stem}_{number}{ending}"
    return new


def advice_on_windows(names: Sequence[str], path: str) -> str | None:
    """Advice if the audio in the file `path` is named by paths of Windows; None if not all `names` are such.

    Elsewhere a backslash is part of a name, and `C:` is a folder.
    """
    if not names or not all(map(_WINDOWS.match, names)):
        return None
    is_json = path.removesuffix(".gz").endswith((".json", ".jsonl"))
    slashes, before = (r"\\\\+", r'"') if is_json else (r"\\+", r"^|[^A-Za-z]")
    words = f"sed -E 's#{slashes}#/#g; s#({before})[A-Za-z]:/+#\\1#g'"
    return (
        f"write them with / and without the drive: {conversion(path, words, new_name(path, '.unix'))}, and give the "
        f"folder in which they start with {option('--audio-base-dir')}"
    )


def named_ids(lines: Sequence[str]) -> str:
    """The name of a file with `lines` for messages, if they begin with ids and name no audio."""
    return f"a list of ids and texts, as in LJSpeech, such as {shown(lines[0])}"


def shown(line: str) -> str:
    """The beginning of a line for a message."""
    return repr(line if len(line) <= _SHOWN else f"{line[:_SHOWN]}...")


def advice_on_ids(path: str, layout: Layout, lines: Sequence[str]) -> str:
    """Advice on a list whose lines begin with an id: the command with the folder of the recordings, if it is near."""
    id = lines[0].partition("|")[0].strip()
    near = (os.path.join(os.path.dirname(path) or ".", name) for name in _AUDIO_FOLDERS)
    folder = next((folder for folder in near if _has_recording(folder, id)), None)
    columns = "" if layout.names else f" {option('--columns', layout.suggestions[0])}"
    source = "FOLDER" if folder is None else shlex.quote(os.path.normpath(folder))
    transcripts = option("--transcripts", shlex.quote(path))
    return f"give the folder of the recordings: prepcli make-manifest {source} OUT.json {transcripts}{columns}"


def _has_recording(folder: str, id: str) -> bool:
    if not id or "\0" in id:
        return False
    names = glob.glob(f"{glob.escape(os.path.join(folder, id))}.*")
    return any(os.path.splitext(name)[1].lower() in AUDIO_SUFFIXES for name in names)
