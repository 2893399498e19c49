"""The current call of prepcli: the command line that repeats it, and whether it shows progress.

The command line and the API set it once, around the call. Code that writes a plan or shows progress reads it here.
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

CONTINUE_WITH = "PREPCLI_CONTINUE_WITH"
"""Environment variable with the command that continues a run; set by scripts that start prepcli for the user."""

_FROM_THE_BEGINNING = ("--overwrite", "--retry-rejects")

_OF_A_RANK = ("--rank", "--world-size", "--launch-id")


Undo = Callable[[], object]


@dataclass(frozen=True)
class Call:
    """One call of prepcli, from the command line or from Python.

    Attributes:
        words: the arguments of the equivalent command line, without `prepcli`.
        progress: whether the call shows progress.
        kept: for each state of the caller that the call changes, the function that restores the state.
        revisions: the commit that is read from each data set on the hub, by the address that the user has given.
        command: the name of the command.
        options: an object with the values of all its options, by name.
    """

    words: Sequence[str]
    progress: bool
    kept: dict[object, Undo] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    command: str = ""
    options: Any = None

    def end(self) -> None:
        """Restore the states that `keep_for_caller` has kept."""
        while self.kept:
            self.kept.popitem()[1]()


_current: ContextVar[Call | None] = ContextVar("prepcli_call", default=None)


@contextmanager
def called(words: Sequence[str], *, progress: bool, command: str = "", options: Any = None) -> Iterator[None]:
    """Set the current call within the context; at the end, the states that `keep_for_caller` has kept are restored."""
    call = Call(words, progress, command=command, options=options)
    try:
        with resumed(call):
            yield
    finally:
        call.end()


@contextmanager
def resumed(call: Call) -> Iterator[None]:
    """Set the current call within the context; it may be set again, until it has ended (`Call.end`)."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)


def keep_for_caller(read: Callable[..., Undo], *arguments: Any) -> None:
    """Keep a state of the program that calls prepcli, such as a setting of PyTorch, before the call changes the state.

    The end of the call restores it. If the call has kept this state already, or there is no call, nothing is read.

    Args:
        read: reads the state, and returns a function that restores it.
        arguments: the arguments of `read`.
    """
    call = _current.get()
    if call is not None and (read, arguments) not in call.kept:
        call.kept[read, arguments] = read(*arguments)


def note_revision(address: str, commit: str) -> None:
    """Note the commit that this call reads from the data set at `address` on the hub; the plan records the commit."""
    call = _current.get()
    if call is not None:
        call.revisions[address] = commit


def revisions() -> dict[str, str]:
    """The commits that the current call of a command has noted with `note_revision`, by the address of the data set."""
    call = _current.get()
    return {} if call is None else call.revisions


def set_environ_default(name: str, value: str) -> None:
    """Set an environment variable until the end of the call, unless it is set already."""
    if name not in os.environ:
        keep_for_caller(_unset, name)
        os.environ[name] = value


def _unset(name: str) -> Undo:
    return lambda: os.environ.pop(name, None)


def log_less(name: str, level: int) -> None:
    """Set the level of a logger, until the current call of a command or of a function of the Python API ends."""
    import logging

    keep_for_caller(_level_of, name)
    logging.getLogger(name).setLevel(level)


def _level_of(name: str) -> Undo:
    import logging

    logger = logging.getLogger(name)
    level = logger.level
    return lambda: logger.setLevel(level)


def current_call() -> Call:
    """The current call of a command."""
    call = _current.get()
    assert call is not None, "only the function of a command may ask"
    return call


def words_called() -> list[str]:
    """The arguments of the command line that repeats the current call, without `prepcli`."""
    call = _current.get()
    return list(sys.argv[1:] if call is None else call.words)


def command_line(of_rank: bool = True) -> str:
    """Return the command that continues this call, to paste into a shell.

    Options that repeat finished work (`--overwrite`, `--retry-rejects`) are left out. With `of_rank`, the command runs
    as the same rank; without, it does all missing work of all ranks. If the environment variable
    `PREPCLI_CONTINUE_WITH` is set, its value is returned.
    """
    words = ["prepcli", *(word for word in words_called() if word not in _FROM_THE_BEGINNING)]
    return os.environ.get(CONTINUE_WITH) or shlex.join(words if of_rank else _without_ranks(words))


def _without_ranks(words: Sequence[str]) -> list[str]:
    """Return the words without the options that name a rank, such as `--rank 0` and `--rank=0`."""
    is_value = False
    kept = []
    for word in words:
        name, equals, _ = word.partition("=")
        if is_value:
            is_value = False
        elif name in _OF_A_RANK:
            is_value = not equals
        else:
            kept.append(word)
    return kept


def shows_progress() -> bool:
    """Whether progress bars and notes are shown on stderr: always from the command line, in Python if `progress`."""
    call = _current.get()
    return call is None or call.progress


def tell(message: str) -> None:
    """Print a message on stderr; in Python without `progress`, send it to the logger `prepcli`."""
    if shows_progress():
        print(message, file=sys.stderr, flush=True)
        return
    import logging  # 2 ms that `--help` need not wait for

    logging.getLogger("prepcli").info("%s", message)
