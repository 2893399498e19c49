"""Errors for an existing file or directory in the place of a new one: they name what is there, and what to do."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prepcli.errors import PrepcliError, UsageError, same_command
from prepcli.storage.one_name import are_one_file, same_when_folded
from prepcli.storage.paths import AnyPath, StorePath


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


def refuse_names_that_are_one(out: AnyPath, names: Iterable[str]) -> None:
    """Raise `PrepcliError` if a published file has replaced another one whose name differs only in case, for example.

    This happens in file systems for which `a.wav` and `A.wav` are the same file.

    `names`: the names of all published files, relative to `out`.
    """
    if isinstance(out, StorePath):
        return
    for one, other in same_when_folded(names):
        if are_one_file(str(out.absolute() / one), str(out.absolute() / other)):
            raise PrepcliError(
                f"{one} and {other} are one file in the file system of {out}, and one of them is lost; choose an "
                "output in another file system, or rename the audio"
            )


def _what_to_do() -> str:
    return f"move it away, and run {same_command()} again"
