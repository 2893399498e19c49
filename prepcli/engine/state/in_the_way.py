"""Errors for an existing file or directory in the place of a new one: they name what is there, and what to do."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prepcli.errors import PrepcliError, UsageError, same_command
from prepcli.storage.one_name import are_one_file, same_when_folded
from prepcli.storage.paths import AnyPath


@contextmanager
def naming_what_is_in_the_way(path: Path) -> Iterator[None]:
    """Within the context, an error of reading, replacing or removing the file at `path` shows `path` and what to do.

    Without this, the error of a rename would show the source, which the user does not know.

    Raises:
        UsageError: `path` is a directory, or a folder above it is a file.
    """
    try:
        yield
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory, but a file belongs there; {_what_to_do()}") from None
    except (NotADirectoryError, FileExistsError):
        above = next((one for one in path.parents if one.exists() and not one.is_dir()), None)
        if above is None:
            raise
        raise UsageError(f"{above} is a file, but a directory belongs there; {_what_to_do()}") from None


def refuse_directories(*files: Path) -> None:
    """Raise `UsageError` if one of these files is a directory."""
    for path in files:
        with naming_what_is_in_the_way(path):
            if path.is_dir():
                raise IsADirectoryError


def refuse_names_that_are_one(folder: Path, names: Iterable[str], out: AnyPath) -> None:
    """Raise `PrepcliError` if two of the files `names` in `folder` are one: their names may differ only in case.

    This happens in file systems for which `a.wav` and `A.wav` are the same file. If a file is not there yet, two such
    names count as one. `out`: the output, for the message.
    """
    for first, second in same_when_folded(names):
        paths = str(folder.absolute() / first), str(folder.absolute() / second)
        if not os.path.lexists(paths[0]) or are_one_file(*paths):
            raise PrepcliError(
                f"{first} and {second} are one file in the file system of {out}, and one of them is lost; choose an "
                "output in another file system, or rename the audio"
            )


def _what_to_do() -> str:
    return f"move it away, and run {same_command()} again"
