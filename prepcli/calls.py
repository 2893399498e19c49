"""How prepcli was called: what the user would type to continue, and whether to show progress.

The command line and the API say it once, around the call, and whoever writes a plan or a progress bar asks here.
"""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

CONTINUE_WITH = "PREPCLI_CONTINUE_WITH"
"""Environment variable in which whoever starts prepcli for the user says what the user would type to continue."""

_FROM_THE_BEGINNING = ("--overwrite", "--retry-rejects")


@dataclass(frozen=True)
class Call:
    """One call; `words` are those of the command line, without `prepcli`, that do the same."""

    words: Sequence[str]
    progress: bool


_current: ContextVar[Call | None] = ContextVar("prepcli_call", default=None)


@contextmanager
def called(words: Sequence[str], *, progress: bool) -> Iterator[None]:
    """Within the context the call is this one."""
    token = _current.set(Call(words, progress))
    try:
        yield
    finally:
        _current.reset(token)


def words_called() -> list[str]:
    """The words of the command line, without `prepcli`, that do what is being done."""
    call = _current.get()
    return list(sys.argv[1:] if call is None else call.words)


def command_line() -> str:
    """The command as it can be pasted into a shell, without what would start again (`--overwrite`, ...)."""
    words = ["prepcli", *(word for word in words_called() if word not in _FROM_THE_BEGINNING)]
    return os.environ.get(CONTINUE_WITH) or shlex.join(words)


def shows_progress() -> bool:
    """Whether bars and notes go to stderr: on the command line, and from Python with `progress=True`."""
    call = _current.get()
    return call is None or call.progress


def tell(message: str) -> None:
    """A line for people on stderr; from Python without `progress` one for the logger `prepcli`."""
    if shows_progress():
        print(message, file=sys.stderr, flush=True)
        return
    import logging

    logging.getLogger("prepcli").info("%s", message)
