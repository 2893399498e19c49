"""Errors for an existing file or directory in the place of a new one: they name what is there, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prepcli.errors import UsageError, same_command


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


def _what_to_do() -> str:
    return f"move it away, and run {same_command()} again"
