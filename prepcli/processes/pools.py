"""Pools of worker processes: results in the order of tasks, and a report of workers that are killed or crash."""

import contextlib
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from prepcli.errors import IncompleteError, naming, option, same_command
from prepcli.processes.workers import begin_worker, no_interruption, starting_children, wait_for, worker_context

if TYPE_CHECKING:  # the import takes a fifth of a small run's time
    from concurrent.futures import Future
    from multiprocessing.process import BaseProcess

Task = TypeVar("Task")
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Task], Result], tasks: Sequence[Task], num_workers: int, always_fork: bool = False
) -> Iterator[Result]:
    """Call `function` with each of `tasks` in worker processes, and yield the results in the order of `tasks`.

    If one worker is enough, the calls are made in this process. Only a few results are held at the same time.

    Args:
        function: a module-level function; its exceptions are raised here.
        tasks: the argument of each call.
        num_workers: the maximum number of worker processes.
        always_fork: whether even a single worker is a process of its own, because `function` may crash.

    Raises:
        IncompleteError: a worker was killed or died.
    """
    num_workers = min(num_workers, len(tasks))
    if num_workers <= 1 and not (always_fork and tasks):
        yield from map(function, tasks)
        return
    waiting: deque[Future[Result]] = deque()
    with WorkerPool(num_workers, begin_worker, ()) as pool:
        for task in tasks:
            waiting.append(pool.submit(function, task))
            if len(waiting) > 4 * num_workers:
                yield wait_for(waiting.popleft())
        while waiting:
            yield wait_for(waiting.popleft())


CRASHES = frozenset(-number for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE))
"""Exit codes (negative numbers of signals) of processes that have crashed, rather than been killed."""


class WorkerDiedError(IncompleteError):
    """A worker process was killed or died; `dead` has the exit codes (-9: SIGKILL) by process number."""

    def __init__(self, message: str, dead: Mapping[int, int] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.dead = dead

    @property
    def is_crash(self) -> bool:
        """Whether all processes in `dead` have crashed. SIGKILL is not a crash: it shows no fault in the work."""
        return set(self.dead.values()) <= CRASHES


class WorkerPool:
    """Worker processes that end with this `with` block; a killed worker is reported, and never waited for.

    Each worker calls `initializer(*arguments)` first. `in_hand` takes the ids of dead processes and returns the names
    of their work, for the error message.

    Raises:
        OSError: /dev/shm cannot be written.
        WorkerDiedError: on leaving the block, if a future of `submit` has failed in it because a worker was killed or
            died.
    """

    def __init__(
        self,
        num_workers: int,
        initializer: Callable[..., object],
        arguments: tuple[Any, ...],
        in_hand: Callable[[Sequence[int]], Sequence[str]] = lambda _: (),
    ) -> None:
        from concurrent.futures import ProcessPoolExecutor

        with naming("/dev/shm"):  # the locks of the pool lie there
            self._pool = ProcessPoolExecutor(num_workers, worker_context(), initializer, arguments)
        self._in_hand = in_hand
        self._processes: list[BaseProcess] = []

    def submit(self, function: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        """Call a module-level function in a worker; returns the future of its result."""
        with no_interruption(), starting_children():
            future = self._pool.submit(function, *arguments)
            self._processes = self._processes or self._started()
        return future

    def _started(self) -> "list[BaseProcess]":
        # Not public, but the only way to find out which process died, and its exit code.
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
        """Kill all workers, idle or not: no further result is needed.

        Asking the workers to end could hang: an idle worker waits while it holds the lock of the queue, and if it was
        killed, the others never receive the request.
        """
        processes = self._processes or self._started()
        manager = getattr(self._pool, "_executor_manager_thread", None)
        results = getattr(getattr(self._pool, "_result_queue", None), "_writer", None)
        for process in processes:
            with contextlib.suppress(ValueError, AttributeError):
                process.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            with contextlib.suppress(ValueError, AssertionError):
                process.join(timeout=5)
        if manager is not None:  # waking the manager when the interpreter ends would use a closed pipe
            manager.join(timeout=1)
            if manager.is_alive() and results is not None:
                # It waits for the rest of a result, in which a worker was killed: without writers, that ends.
                with contextlib.suppress(OSError):
                    results.close()
                manager.join(timeout=5)

    def _what_died(self) -> WorkerDiedError:
        time.sleep(0.2)  # the executor ends the healthy workers with SIGTERM; let exit codes settle
        dead = [(process.pid or 0, process.exitcode or 0) for process in self._processes if process.exitcode]
        # The executor terminates the other workers with SIGTERM: the worker that died first has another exit code.
        culprits = [(pid, code) for pid, code in dead if code != -signal.SIGTERM] or dead
        audio = self._in_hand([pid for pid, _ in culprits])
        in_hand = f" while it worked on {', '.join(audio)}" if audio else ""
        codes = {code for _, code in culprits}
        if -signal.SIGKILL in codes:
            cause = (
                f"was killed (SIGKILL), most likely for lack of memory; run {same_command()} again to continue, "
                f"with a smaller {option('--num-workers')} or more memory"
            )
        else:
            names = ", ".join(sorted(_exit_name(code) for code in codes)) or "for an unknown reason"
            cause = f"died ({names}); run {same_command()} again to continue"
        return WorkerDiedError(f"a worker process {cause.replace('; run', in_hand + '; run', 1)}", dict(culprits))


def _exit_name(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
