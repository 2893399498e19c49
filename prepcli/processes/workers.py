"""Worker processes: how they start, receive signals, wait, and end with their parent."""

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # the import takes a fifth of a small run's time
    from concurrent.futures import Future
    from multiprocessing.context import BaseContext

Result = TypeVar("Result")

LIFELINE = "PREPCLI_LIFELINE"
"""Environment variable with the number of a file descriptor, the end of a pipe that closes when the parent dies.

Only ranks that a command itself has started have it (`spawn_ranks`).
"""
JOB_ID, RESTARTS = "PREPCLI_JOB_ID", "PREPCLI_RESTARTS"
"""Environment variables of ranks that a command has started: the id of the job, and the number of restarts."""
CALLED_FROM_PYTHON = "PREPCLI_CALLED_FROM_PYTHON"
"""Environment variable of ranks that a Python function has started: their messages name arguments, not options."""
_RANKS_OF_MACHINE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
"""Environment variables with the number of ranks that a launcher (torchrun, MPI) has started on this machine."""
TICK = 0.25
"""Seconds between two checks of signals and progress while waiting."""


def available_processors() -> int:
    """The number of CPU cores that this process may use; a Slurm step or a container often has only a part of them.

    Slurm does not always bind a task to its cores, so in a step `SLURM_CPUS_PER_TASK` is an upper limit too. If this
    command (one rank per device), torchrun or MPI has started several ranks on this machine, each gets an equal part.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    of_task = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if "SLURM_STEP_NUM_TASKS" in os.environ and of_task.isdecimal():
        count = min(count, int(of_task))
    names = ("WORLD_SIZE",) if is_own_rank() else _RANKS_OF_MACHINE
    of_machine = next(filter(None, (os.environ.get(name) for name in names)), "")
    return max(1, count // int(of_machine)) if of_machine.isdecimal() and int(of_machine) else count


def is_own_rank() -> bool:
    """Whether the command itself has started this process as one of its ranks (`spawn_ranks`)."""
    return LIFELINE in os.environ


class _Stop:
    """The nesting depth of `no_interruption` blocks in the main thread, and the error that is held back.

    `asked`: the error of the stop signal that has arrived within `stop_on_signals`.
    """

    held = 0
    error: BaseException | None = None
    asked: BaseException | None = None


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the context, `interrupt` may be called; a stop of an earlier run is forgotten."""
    before, _Stop.asked = _Stop.asked, None
    try:
        yield
    finally:
        _Stop.asked = before


def interrupt(error: BaseException) -> None:
    """Raise `error`: now, or at the end of a `no_interruption` block. Called by the handlers of stop signals."""
    _Stop.error = _Stop.asked = error
    if not _Stop.held:
        stop_here()


def is_asked_to_stop() -> BaseException | None:
    """The error of `interrupt`; also if it was raised already, and lost or replaced by another error."""
    return _Stop.asked


def stop_again() -> None:
    """Raise the error of `interrupt` again, if it was lost; called while a run works on, at points that are safe.

    Python prints and ignores an exception that is raised while an object is being deleted.
    """
    if _Stop.asked is not None and not _Stop.held and threading.current_thread() is threading.main_thread():
        raise _Stop.asked


def stop_here() -> None:
    """Raise the error that `interrupt` has held back, if there is one; called at points at which raising is safe."""
    error, _Stop.error = _Stop.error, None
    if error is not None:
        raise error


@contextmanager
def no_interruption() -> Iterator[None]:
    """Hold interruptions back until `stop_here` is called, or until the end of the block.

    An exception that is raised inside `concurrent.futures` can be lost, or leave a lock held: Python ignores exceptions
    in a callback around a fork, and `wait` takes the locks of all futures one by one. Only the main thread is
    interrupted; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Stop.held += 1
    try:
        yield
    finally:
        _Stop.held -= 1
    if not _Stop.held:
        stop_here()


def wait_for_any(futures: "Collection[Future[Result]]") -> "set[Future[Result]]":
    """Wait until one of the futures has finished, at most `TICK` seconds; returns all finished ones, perhaps none."""
    from concurrent.futures import FIRST_COMPLETED, wait

    stop_again()
    with no_interruption():
        return wait(futures, timeout=TICK, return_when=FIRST_COMPLETED).done


def wait_for(future: "Future[Result]", tick: Callable[[], None] = lambda: None) -> Result:
    """The result of a future; raises the exception of its call. `tick` is called every `TICK` seconds of the wait."""
    while not wait_for_any([future]):
        tick()
    return future.result()


def worker_context() -> "BaseContext":
    """The `fork` context of multiprocessing: workers start in milliseconds, and inherit loaded modules and objects."""
    import multiprocessing

    return multiprocessing.get_context("fork")


@contextmanager
def starting_children() -> Iterator[None]:
    """Within the context, this process may start processes even if it is daemonic.

    Workers of `multiprocessing.Pool` and of a `DataLoader` are daemonic. Python forbids them to start processes, which
    could outlive a terminated parent. Our worker processes end with their parent (`begin_worker`).
    """
    import multiprocessing

    process = multiprocessing.current_process()
    is_daemonic = process.daemon
    if is_daemonic:
        process.daemon = False
    try:
        yield
    finally:
        if is_daemonic:
            process.daemon = True


class _Worker:
    """Holds one value per process: `is_one` is True in a worker process."""

    is_one = False


def is_worker() -> bool:
    """Whether this process is a worker; workers do not start workers themselves."""
    return _Worker.is_one


def begin_worker() -> None:
    """Prepare this worker process, before it does anything else.

    The worker ignores Ctrl-C and SIGUSR1, which its parent handles, and ends if its parent dies.
    """
    import multiprocessing

    _Worker.is_one = True
    # Existing objects stay: searching them for cycles would take 5 % of the time if PyTorch was imported.
    gc.freeze()
    # Before NumPy is imported: there is a worker per CPU core, so BLAS threads would only compete.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Ctrl-C in a terminal and Slurm's USR1 reach the whole process group; the parent handles them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        exit_when_ready(parent.sentinel)


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MB of freed memory for the next recording.

    Otherwise the memory of each array of samples returns to the kernel, which clears it page by page for the next
    array. This saves an eighth of the time to convert FLAC to WAV. The thresholds are those that glibc itself chooses
    after blocks of 32 MB are freed; see mallopt(3).
    """
    import ctypes

    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    with contextlib.suppress(AttributeError, OSError):  # other C libraries have no mallopt
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(trim_threshold, 64 << 20)
        mallopt(mmap_threshold, 32 << 20)


def exit_when_ready(handle: int) -> None:
    """End this process when the parent process dies: as soon as the file descriptor `handle` becomes readable.

    `handle` is the read end of a pipe, and the parent holds the other end.

    Without this, a worker whose parent was killed with SIGKILL would wait forever.
    """
    from multiprocessing.connection import wait

    def watch() -> None:
        wait([handle])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
