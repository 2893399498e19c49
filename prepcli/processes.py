"""Worker processes: started in one way, never outliving their parent, and never a hang when one is killed."""

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
"""Environment variable with the file descriptor that a parent process holds open while it lives; the ranks that a
command has started itself have it (`prepcli.engine.launch.spawn_ranks`)."""
TICK = 0.25
"""Seconds between two looks at signals and progress while something is waited for."""


def available_processors() -> int:
    """The processors that this process may use (a Slurm step or a container often has fewer than the machine).

    Slurm does not always bind a task to its processors, but it says how many a task has. Ranks that the command itself
    has started, one a GPU, share them.
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
    """How many places of the main thread want no interruption now, and what would have interrupted them."""

    held = 0
    error: BaseException | None = None


def interrupt(error: BaseException) -> None:
    """What a handler of stop signals calls: raises `error`, at once or where `no_interruption` allows it."""
    _Stop.error = error
    if not _Stop.held:
        stop_here()


def stop_here() -> None:
    """Raise what `interrupt` had to hold back: a place where that is safe."""
    error, _Stop.error = _Stop.error, None
    if error is not None:
        raise error


@contextmanager
def no_interruption() -> Iterator[None]:
    """A signal within waits for `stop_here`, or for the end.

    Raised anywhere in `concurrent.futures`, it can be lost or leave a lock behind: Python ignores what is raised in a
    callback around a fork, and `wait` takes the locks of all futures one by one. Only the main thread is ever
    interrupted: in other threads this does nothing, least of all hold the main one's signals back.
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
    """The futures that are done, when one is or after `TICK` seconds."""
    from concurrent.futures import FIRST_COMPLETED, wait

    with no_interruption():
        return wait(futures, timeout=TICK, return_when=FIRST_COMPLETED).done


def wait_for(future: "Future[Result]", tick: Callable[[], None] = lambda: None) -> Result:
    """The result of a future, or what its call raised; until it is there `tick` is called every `TICK` seconds."""
    while not wait_for_any([future]):
        tick()
    return future.result()


def worker_context() -> "BaseContext":
    """`fork` where it is safe: workers start in milliseconds and share what is loaded; `spawn` elsewhere."""
    import multiprocessing

    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def begin_worker() -> None:
    """To be called first in a worker: leave signals to the parent, and end with it."""
    import multiprocessing

    # Before numpy is first imported: workers are as many as the processors, and their own threads would only wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A terminal's Ctrl-C and Slurm's USR1 reach the whole group; the parent decides what becomes of them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        exit_when_ready(parent.sentinel)


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MB of what is freed, for the next recording (measured: an eighth of FLAC to WAV).

    Otherwise each array of samples goes back to the kernel, which clears the memory again page by page for the next
    one. The thresholds are those that glibc comes to by itself where blocks of 32 MB are freed; mallopt(3).
    """
    import ctypes

    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    with contextlib.suppress(AttributeError, OSError):  # other C libraries have no mallopt
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(trim_threshold, 64 << 20)
        mallopt(mmap_threshold, 32 << 20)


def exit_when_ready(handle: int) -> None:
    """End this process as soon as `handle` becomes readable: its other end closes when the parent process dies.

    Without this a worker whose parent was killed with SIGKILL would wait for work for ever.
    """
    from multiprocessing.connection import wait

    def watch() -> None:
        wait([handle])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def map_in_order(function: Callable[[Task], Result], tasks: Sequence[Task], num_workers: int) -> Iterator[Result]:
    """`map` over worker processes, in the order of `tasks`; in this process where one worker is enough.

    `function` is a module-level one. Few results are held at a time. Raises `IncompleteError` when a worker
    dies, and whatever `function` raises.
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
    """A worker process was killed or died; `dead` tells the exit codes (-9: SIGKILL) by process number."""

    def __init__(self, message: str, dead: Mapping[int, int] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.dead = dead


class WorkerPool:
    """Worker processes that end with this `with` block, whatever ends it; a killed one is named, never waited for.

    `in_hand` tells, given ids of dead processes, what they were at (for the message).

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
        """Have a worker call a module-level function."""
        with no_interruption():
            future = self._pool.submit(function, *arguments)
            self._processes = self._processes or self._started()
        return future

    def _started(self) -> "list[BaseProcess]":
        # Not public, but there is no other way to tell which process died of what.
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
        """Kill the workers, idle or not; what they had to say has been said.

        To ask them to end could take for ever: an idle worker waits with the lock of their queue in hand, and if that
        one has been killed, the others never hear of it.
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
        if manager is not None:  # at the interpreter's end it would be woken while it closes what wakes it
            manager.join(timeout=5)

    def _what_died(self) -> WorkerDiedError:
        time.sleep(0.2)  # the executor ends the healthy workers with SIGTERM; let exit codes settle
        dead = [(process.pid or 0, process.exitcode or 0) for process in self._processes if process.exitcode]
        # The executor terminates the others once it has noticed: the culprit did not get SIGTERM from it.
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
