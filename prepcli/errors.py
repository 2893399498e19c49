"""Two kinds of errors: a wrong call stops the run; bad data of one record rejects that record.

Every other exception is a bug or a fault of the machine: it stops the run, and a job writes its traceback to a file.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any

FAULTS_OF_THE_MACHINE = frozenset(
    {
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
        *(errno.EIO, errno.ESTALE, errno.ETIMEDOUT),
    }
)
"""Values of `errno` whose cause is the machine, not a call or a record, such as a full disk or too many open files."""
_WRONG_PATH = frozenset({errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})


_argument: ContextVar[Callable[[str, object], str] | None] = ContextVar("prepcli_argument", default=None)


def option(name: str, value: object = None) -> str:
    """Return an option as text for a message: `--num-shards 8`, or `num_shards=8` in a call from Python.

    Args:
        name: the name of the option on the command line, such as `--num-shards` or `--no-index`.
        value: the value that is given, or should be; with None, the text is the option without a value.
    """
    argument = _argument.get()
    if argument is not None:
        return argument(name, value)
    return name if value is None else f"{name} {value}"


MORE_FILES = "raise the limit of open files, as with `ulimit -n 4096`"
"""The advice where `lacks_open_files`."""


def called_from_python() -> bool:
    """Whether messages name options as arguments of Python functions: `num_shards` instead of `--num-shards`."""
    return _argument.get() is not None


def same_command() -> str:
    """Return what a message asks the user to run again: `the same command`, or `the same call` in Python."""
    return "the same call" if called_from_python() else "the same command"


def naming_of_arguments() -> Callable[[str, object], str] | None:
    """The function of `arguments_named_by` that holds now; None if messages name options of the command line."""
    return _argument.get()


@contextmanager
def arguments_named_by(argument: Callable[[str, object], str] | None) -> Iterator[None]:
    """Within the context, messages name options as arguments of a Python call, such as `num_shards=8`.

    `option(name, value)` then returns `argument(name, value)`; with None, options are those of the command line.
    """
    token = _argument.set(argument)
    try:
        yield
    finally:
        _argument.reset(token)


class PrepcliError(Exception):
    """An error that stops the run. The message is one line that says what to do; the process ends with `exit_code`."""

    exit_code = 1
    is_printed = False
    """Whether a child process has already printed the message."""


class UsageError(PrepcliError):
    """Wrong options, wrong paths, or settings that do not match the output directory."""

    exit_code = 2


def wrong_path(error: OSError) -> UsageError | None:
    """Return a `UsageError` for an error that a wrong path or missing permissions cause; None for all other errors."""
    if error.filename is None or error.errno not in (*_WRONG_PATH, errno.EROFS):
        return None
    path = os.fsdecode(error.filename)
    if error.errno == errno.EROFS:
        return UsageError(f"cannot write to {path}: {error.strerror}; choose another output directory")
    return UsageError(f"{path}: {error.strerror}; check the path and its permissions")


def lacks_open_files(error: BaseException) -> bool:
    """Whether the process may open no more files; an import that cannot open a library says so in words."""
    return isinstance(error, OSError | ImportError) and os.strerror(errno.EMFILE) in str(error)


def cannot_write(error: OSError, message: str) -> PrepcliError:
    """Return the error to raise for a file or folder that cannot be written.

    It is a `PrepcliError` if the machine is the cause, such as a full disk, else a `UsageError`.
    """
    return PrepcliError(message) if error.errno in FAULTS_OF_THE_MACHINE else UsageError(message)


def named(error: OSError, path: object) -> OSError:
    """Return `error`, with `path` as its file name if it has none: errors of reading and writing have none."""
    if error.filename is None and error.errno is not None:
        error.filename = str(path)
    return error


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Within the context, give each `OSError` without a file name the file name `path`, as `named` does."""
    try:
        yield
    except OSError as error:
        raise named(error, path) from None


class IncompleteError(PrepcliError):
    """The run was interrupted or lost a worker; running the same command again continues it."""

    exit_code = 4
    document: dict[str, Any] | None = None
    """The JSON object that `--json` prints, with the command that continues the run; None if that is not known."""

    @property
    def continue_with(self) -> str | None:
        """The command line that continues the run; None if it is not known."""
        return self.document["continue_with"] if self.document else None


class InputChangedError(PrepcliError):
    """An input was changed, replaced or removed while the run was reading it."""


class TooManyRejectsError(PrepcliError):
    """The run finished, but more records were rejected than `--max-rejects` allows; `report` is the run's report."""

    exit_code = 3

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message)
        self.report = report


class RejectReason(str, Enum):
    """Why a record was rejected. The list is closed: scripts match on these values in `rejects.jsonl`."""

    NOT_UTF8 = "not_utf8"
    BROKEN_JSON = "broken_json"
    MISSING_FIELD = "missing_field"
    BAD_FIELD = "bad_field"
    BAD_DURATION = "bad_duration"
    BAD_OFFSET = "bad_offset"
    MISSING_AUDIO = "missing_audio"
    MISSING_TRANSCRIPT = "missing_transcript"
    UNREADABLE_AUDIO = "unreadable_audio"
    CRASHED_DECODER = "crashed_decoder"
    BEYOND_AUDIO = "beyond_audio"
    DURATION_MISMATCH = "duration_mismatch"
    OUT_OF_MEMORY = "out_of_memory"
    BAD_SPEAKER = "bad_speaker"
    CONTEXT_IS_TARGET = "context_is_target"
    SPEAKER_HAS_ONE_UTTERANCE = "speaker_has_one_utterance"
    # Rejects that the user's options ask for: they are listed, but not counted against `--max-rejects`.
    BELOW_MIN_DURATION = "below_min_duration"
    ABOVE_MAX_DURATION = "above_max_duration"
    REMAINDER_DROPPED = "remainder_dropped"
    NO_LONG_CONTEXT = "no_long_context"
    NO_SIMILAR_CONTEXT = "no_similar_context"
    LOW_CONFIDENCE = "low_confidence"
    EMPTY_TEXT = "empty_text"
    FILTERED = "filtered"
    TOO_LONG = "too_long"
    OVERLAP = "overlap"
    NO_SPEECH = "no_speech"

    @property
    def is_asked_for(self) -> bool:
        """Whether the user asked by an option to leave the record out."""
        return self in _ASKED_FOR


_ASKED_FOR = frozenset(
    {
        RejectReason.BELOW_MIN_DURATION,
        RejectReason.ABOVE_MAX_DURATION,
        RejectReason.REMAINDER_DROPPED,
        RejectReason.NO_LONG_CONTEXT,
        RejectReason.NO_SIMILAR_CONTEXT,
        RejectReason.LOW_CONFIDENCE,
        RejectReason.EMPTY_TEXT,
        RejectReason.FILTERED,
        RejectReason.TOO_LONG,
        RejectReason.OVERLAP,
        RejectReason.NO_SPEECH,
    }
)


class RecordRejected(Exception):  # noqa: N818 - it is an outcome, not an error
    """One record cannot be used. Jobs catch this, list the record with its reason, and continue."""

    def __init__(self, reason: RejectReason, detail: str) -> None:
        super().__init__(reason, detail)  # both arguments, so that pickling between processes keeps them
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.detail}"
