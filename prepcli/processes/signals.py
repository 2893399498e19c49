"""Handles stop signals: SIGTERM, SIGINT and SIGUSR1 (Slurm's warning before the time limit) end a run cleanly."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from prepcli.errors import IncompleteError
from prepcli.processes.workers import interrupt, interruptible, is_asked_to_stop

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_IMPORT_SECONDS = 0.02
"""Seconds after which a signal that has arrived within an import is sent again."""


class InterruptedBySignal(IncompleteError):  # noqa: N818 - it is an outcome, not an error
    """The run was asked to stop; published units are kept."""


class Interruption(BaseException):
    """Raised when a stop signal arrives outside of a run.

    It is not an `Exception`, so code that handles, say, a failed import does not catch it.
    """


@contextmanager
def stop_on_signals(kind: type[BaseException] = InterruptedBySignal) -> Iterator[None]:
    """Within the context, the first stop signal raises `kind` in the main thread; further ones are ignored.

    In another thread, the context does nothing. Raising is safe at any point of the engine: every file is renamed into
    place whole, or not at all. It is delayed by blocks of `prepcli.processes.workers.no_interruption`, and by imports:
    PyTorch's runs Python code from C++ functions that may not raise, and an exception there aborts the process.

    An error that follows from the interruption is replaced by it: Python raises another error if a class is interrupted
    while it is made, and code that is unwound may fail.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    imports = _num_imports(sys._getframe())  # those of a module that starts a run while it is imported
    delayed = threading.Event()

    def send_again(number: int) -> None:
        delayed.clear()
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    def stop(number: int, frame: FrameType | None) -> None:
        if delayed.is_set():
            return
        if _num_imports(frame) > imports:
            delayed.set()
            timer = threading.Timer(_IMPORT_SECONDS, send_again, (number,))
            timer.daemon = True
            timer.start()
            return
        for other in STOP_SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        interrupt(kind(f"stopped by {signal.Signals(number).name}"))

    with interruptible():
        previous = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
        try:
            yield
        except Exception as error:
            stopped = is_asked_to_stop()
            if stopped is not None and error is not stopped:
                raise stopped from error
            raise
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _num_imports(frame: FrameType | None) -> int:
    """The number of calls of Python's import system that are under way in this frame and those that have called it."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename == "<frozen importlib._bootstrap>"
        frame = frame.f_back
    return count
