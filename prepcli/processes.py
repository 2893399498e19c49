"""Worker processes: started in one way, ended with their parent, and reported when one is killed."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from prepcli.errors import IncompleteError

if TYPE_CHECKING:  # importing it takes a fifth of a small run's time
    from concurrent.futures import Future
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

Task = TypeVar("Task")
Result = TypeVar("Result")

LIFELINE = "PREPCLI_LIFELINE"
"""Environment variable with a file descriptor that the parent process holds open while it lives.

Only ranks that a command has started itself have it (`prepcli.engine.launch.spawn_ranks`).
"""
TICK = 0.25
"""Seconds between two checks of signals and progress while waiting."""


def available_processors() -> int:
    """The number of CPU cores that this process may use; a Slurm step or a container often has fewer than the machine.

    Slurm does not always bind a task to its cores, but an environment variable says how many a task has. Ranks that
    the command itself has started, one per GPU, share them.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    of_task = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if "SLURM_STEP_NUM_TASKS" in os.environ and of_task.isdecimal():
        count = min(count, int(of_task))
    return max(1, count // int(os.environ.get("WORLD_SIZE", 1))) if is_own_rank() else count


def is_own_rank() -> bool:
    """Whether the command itself has started this process as one of its ranks (`prepcli.engine.launch.spawn_ranks`)."""
    return LIFELINE in os.environ


class _Stop:
    """How many `no_interruption` blocks the main thread is in, and the error that waits for their end."""

    held = 0
    error: BaseException | None = None


def interrupt(error: BaseException) -> None:
    """Raise `error` now, or as soon as `no_interruption` allows it; called by the handlers of stop signals."""
    _Stop.error = error
    if not _Stop.held:
        stop_here()


def stop_here() -> None:
    """Raise the error that `interrupt` held back; called where raising is safe."""
    error, _Stop.error = _Stop.error, None
    if error is not None:
        raise error


@contextmanager
def no_interruption() -> Iterator[None]:
    """Hold interruptions back until `stop_here` is called, or until the end of the block.

    An exception that is raised inside `concurrent.futures` can be lost or leave a lock behind: Python ignores
    exceptions in a callback around a fork, and `wait` takes the locks of all futures one by one. Only the main thread
    is interrupted; in other threads this does nothing.
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
    """The futures that are done; waits for the first one, `TICK` seconds at most."""
    from concurrent.futures import FIRST_COMPLETED, wait

    with no_interruption():
        return wait(futures, timeout=TICK, return_when=FIRST_COMPLETED).done


def wait_for(future: "Future[Result]", tick: Callable[[], None] = lambda: None) -> Result:
    """The result of a future, or the exception of its call; while waiting, `tick` is called every `TICK` seconds."""
    while not wait_for_any([future]):
        tick()
    return future.result()


def worker_context() -> "BaseContext":
    """`fork` on Linux, where workers start in milliseconds and share loaded modules; `spawn` elsewhere."""
    import multiprocessing

    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def begin_worker() -> None:
    """Prepare a worker process: it leaves signals to its parent, and ends with it. Call this first."""
    import multiprocessing

    # Before numpy is imported: there is a worker for each CPU core, so threads of BLAS would only wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Ctrl-C in a terminal and Slurm's USR1 reach the whole process group; the parent decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        exit_when_ready(parent.sentinel)


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MB of freed memory for the next recording.

    Otherwise each array of samples returns to the kernel, which clears the memory page by page for the next one. This
    saves an eighth of the time from FLAC to WAV. The thresholds are those that glibc itself chooses after blocks of
    32 MB are freed; see mallopt(3).
    """
    import ctypes

    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    with contextlib.suppress(AttributeError, OSError):  # other C libraries have no mallopt
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(trim_threshold, 64 << 20)
        mallopt(mmap_threshold, 32 << 20)


def exit_when_ready(handle: int) -> None:
    """End this process as soon as `handle` becomes readable: its other end closes when the parent process dies.

    Without this, a worker whose parent was killed with SIGKILL would wait forever.
    """
    from multiprocessing.connection import wait

    def watch() -> None:
        wait([handle])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def map_in_order(function: Callable[[Task], Result], tasks: Sequence[Task], num_workers: int) -> Iterator[Result]:
    """`map` over worker processes, in the order of `tasks`; one worker needs no process of its own.

    Only few results are held at a time.

    Args:
        function: a module-level function; its exceptions are raised here.
        tasks: its arguments.
        num_workers: the maximum number of worker processes.

    Raises:
        IncompleteError: a worker was killed or died.
    """
    num_workers = min(num_workers, len(tasks))
    if num_workers <= 1:
        yield from map(function, tasks)
        return
    waiting: deque[Future[Result]] = deque()
    with WorkerPool(num_workers, worker_context(), begin_worker, ()) as pool:
        for task in tasks:
            waiting.append(pool.submit(function, task))
            if len(waiting) > 4 * num_workers:
                yield wait_for(waiting.popleft())
        while waiting:
            yield wait_for(waiting.popleft())


class WorkerDiedError(IncompleteError):
    """A worker process was killed or died; `dead` has the exit codes (-9: SIGKILL) by process number."""

    def __init__(self, message: str, dead: Mapping[int, int] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.dead = dead


class WorkerPool:
    """Worker processes that end with this `with` block; a killed worker is reported, never waited for.

    `in_hand` takes the ids of dead processes and returns what they worked on, for the message.

    Raises:
        WorkerDiedError: on leaving the block, when a worker was killed or died.
    """

    def __init__(
        self,
        num_workers: int,
        context: "BaseContext",
        initializer: Callable[..., object],
        arguments: tuple[Any, ...],
        in_hand: Callable[[Sequence[int]], Sequence[str]] = lambda _: (),
    ) -> None:
        from concurrent.futures import ProcessPoolExecutor

        self._pool = ProcessPoolExecutor(num_workers, context, initializer, arguments)
        self._in_hand = in_hand
        self._processes: list[BaseProcess] = []

    def submit(self, function: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        """Call a module-level function in a worker."""
        with no_interruption():
            future = self._pool.submit(function, *arguments)
            self._processes = self._processes or self._started()
        return future

    def _started(self) -> "list[BaseProcess]":
        # Not public, but nothing else tells which process died, and of what.
        return list((getattr(self._pool, "_processes", None) or {}).values())

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from concurrent.futures.process import BrokenProcessPool

        with no_interruption():
            try:
                if kind is not None and issubclass(kind, BrokenProcessPool):
                    raise self._what_died() from None
            finally:
                self._end()

    def _end(self) -> None:
        """Kill the workers, idle or not; their results have arrived.

        Asking them to end could hang: an idle worker waits while it holds the lock of the queue, and if that worker
        was killed, the others never receive the request.
        """
        processes = self._processes or self._started()
        manager = getattr(self._pool, "_executor_manager_thread", None)
        for process in processes:
            with contextlib.suppress(ValueError, AttributeError):
                process.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            with contextlib.suppress(ValueError, AssertionError):
                process.join(timeout=5)
        if manager is not None:  # at the end of the interpreter, waking it would use a closed pipe
            manager.join(timeout=5)

    def _what_died(self) -> WorkerDiedError:
        time.sleep(0.2)  # the executor ends the healthy workers with SIGTERM; let exit codes settle
        dead = [(process.pid or 0, process.exitcode or 0) for process in self._processes if process.exitcode]
        # The executor terminates the other workers with SIGTERM: the worker that died first has another exit code.
        culprits = [(pid, code) for pid, code in dead if code != -signal.SIGTERM] or dead
        found = self._in_hand([pid for pid, _ in culprits])
        in_hand = f" while it worked on {', '.join(found)}" if found else ""
        codes = {code for _, code in culprits}
        if -signal.SIGKILL in codes:
            cause = (
                "was killed (SIGKILL), most likely for lack of memory; run the same command again to continue, "
                "with a smaller --num-workers or more memory"
            )
        else:
            names = ", ".join(sorted(_exit_name(code) for code in codes)) or "for an unknown reason"
            cause = f"died ({names}); run the same command again to continue"
        return WorkerDiedError(f"a worker process {cause.replace('; run', in_hand + '; run', 1)}", dict(culprits))


def _exit_name(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
