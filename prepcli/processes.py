"""Worker processes: started in one way, never outliving their parent, and never a hang when one is killed."""

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from prepcli.errors import IncompleteError

if TYPE_CHECKING:  # importing it takes a fifth of a small run's time
    from multiprocessing.context import BaseContext

Task = TypeVar("Task")
Result = TypeVar("Result")


class _Stop:
    """How many places want no interruption now, and what would have interrupted them."""

    held = 0
    error: Exception | None = None


def interrupt(error: Exception) -> None:
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
    callback around a fork, and `wait` takes the locks of all futures one by one.
    """
    _Stop.held += 1
    try:
        yield
    finally:
        _Stop.held -= 1
    if not _Stop.held:
        stop_here()


def worker_context() -> "BaseContext":
    """`fork` where it is safe: workers start in milliseconds and share what is loaded; `spawn` elsewhere."""
    import multiprocessing

    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def begin_worker() -> None:
    """To be called first in a worker: leave signals to the parent, and end with it."""
    import multiprocessing

    # A terminal's Ctrl-C and Slurm's USR1 reach the whole group; the parent decides what becomes of them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        exit_when_ready(parent.sentinel)


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
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    executor = ProcessPoolExecutor(num_workers, worker_context(), begin_worker)
    waiting: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            with no_interruption():
                waiting.append(executor.submit(function, task))
            if len(waiting) > 4 * num_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise IncompleteError(
            "a worker process died while reading, most likely for want of memory; "
            "run it again, perhaps with a smaller --num-workers"
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)
