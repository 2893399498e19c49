"""Handles stop signals: SIGTERM, SIGINT and SIGUSR1 (Slurm's warning before the time limit) end a run cleanly."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from prepcli.errors import IncompleteError
from prepcli.processes.workers import interrupt, interruptible, is_asked_to_stop

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


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
    place whole, or not at all. Only blocks of `prepcli.processes.workers.no_interruption` delay it.

    An error that follows from the interruption is replaced by it: Python raises another error if a class is interrupted
    while it is made, and code that is unwound may fail.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: object) -> None:
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
