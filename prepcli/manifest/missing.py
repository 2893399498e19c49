"""Checks before a run whether a sample of the audio files exists, because the folder of the audio may be wrong."""

import os
from collections.abc import Sequence
from pathlib import Path

from prepcli.errors import option
from prepcli.formats.names import path_in
from prepcli.manifest.remedies import advice_on_windows
from prepcli.storage.addresses import AddressError, is_absolute, is_address, other_scheme
from prepcli.storage.containers import place_of
from prepcli.storage.paths import path_of
from prepcli.storage.unicode_forms import OTHER_FORM, other_forms

SAMPLE_SIZE = 20
"""Maximum number of audio files in a sample."""
_MAX_ABOVE = 4


def spread_over(count: int) -> list[int]:
    """Up to `SAMPLE_SIZE` of the numbers below `count`, evenly spread from the first to the last."""
    # NumPy is not used, because its import takes a fifth of the start of `make-manifest`.
    steps = min(SAMPLE_SIZE, count) - 1
    return [number * (count - 1) // steps for number in range(steps + 1)] if steps > 0 else [0] * count


def explain_missing(
    sample: Sequence[tuple[str, str]], source: str = "the manifest", near: str = "", file: str = ""
) -> str | None:
    """Return an error message if all audio files of a sample are missing; None if one exists or the sample is empty.

    The message names one missing file. If its relative path exists in another folder nearby, it names this folder too.

    Args:
        sample: for each audio file, the absolute base folder of relative paths, and the path as `source` names it.
        source: name of the source for the message.
        near: the path of the source, from which the search for another base folder starts; empty: the base folder.
        file: the path of the file that names the audio, for advice on its conversion.
    """
    tried = {path_in(base, path): (base, path) for base, path in sample if path}
    if not tried or any(map(_is_there, tried)):
        return None
    closed = next(filter(None, map(_closed_folder, tried)), None)
    if closed is not None:
        return (
            f"none of the {len(tried)} audio files looked for can be read: the permissions of {closed} do not "
            "allow it; change them, or run as another user"
        )
    addresses = [other_scheme(path) for _, path in tried.values()]
    if all(addresses):
        return (
            f"{source} names its audio by addresses that cannot be read, such as {addresses[0]}, only local paths and "
            f"addresses with s3://, ais:// or hf://datasets/: download the audio, and correct the paths in {source}"
        )
    from prepcli.formats.tarred import refusal_of_tarred  # few messages need it

    example, (base, path) = next(iter(tried.items()))
    if not is_absolute(path) and (refusal := refusal_of_tarred(path_of(base))) is not None:
        return refusal
    windows = advice_on_windows([path for _, path in tried.values()], file) if file else None
    if windows is not None:
        return f"{source} names its audio by paths of Windows, such as {path}: {windows}"
    folder = None if is_absolute(path) else _folder_with(path, near or base)
    if is_absolute(path):
        where = f"The path is absolute: is the folder mounted? If it was moved, correct the paths in {source}"
    elif folder is not None:
        right = option("--audio-base-dir", folder)
        where = f"Relative paths start from {base}, but {path} is in {folder}: give {right}"
    else:
        right = option("--audio-base-dir")
        where = f"Relative paths start from {base}: give the right folder with {right}, or mount it"
    if any(map(os.path.exists, other_forms(example))):
        where = f"But {OTHER_FORM}: correct the paths in {source}, or rename the files"
    if len(tried) == 1:
        return f"the audio file {example} does not exist, and {source} names no other. {where}"
    return f"none of the {len(tried)} audio files looked for exists, such as {example}. {where}"


def _folder_with(path: str, near: str) -> Path | None:
    """A folder in which the relative `path` exists: the current folder, `near`, or a folder above it; else None."""
    here = Path(near).absolute()
    folders = (Path.cwd(), here, *list(here.parents)[:_MAX_ABOVE])
    return next((folder for folder in folders if os.path.exists(folder / path)), None)


def _closed_folder(path: str) -> Path | None:
    """The folder that keeps this user from reaching the local file `path`; None if permissions are not the cause."""
    try:
        os.stat(_file_of(path))
    except PermissionError:
        return next(parent for parent in Path(os.path.realpath(_file_of(path))).parents if os.path.exists(parent))
    except (OSError, ValueError):
        pass
    return None


def _file_of(path: str) -> str:
    """The file that holds the audio `path`: `path` itself, or the container of which it is a member."""
    place = place_of(path)
    return path if place is None else place.path


def _is_there(path: str) -> bool:
    """Whether a file exists. Also True if its address is wrong: a run then rejects its record, with the reason."""
    path = _file_of(path)
    try:
        if is_address(path):
            return path_of(path).exists()
        os.stat(path)
    except AddressError:
        return True
    except (OSError, ValueError):
        return False
    return True
