"""Worker processes for reading: results in order, a dead worker is an error and never a hang."""

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from prepcli.errors import IncompleteError

Task = TypeVar("Task")
Result = TypeVar("Result")


def map_in_order(function: Callable[[Task], Result], tasks: Sequence[Task], num_workers: int) -> Iterator[Result]:
    """`map` over worker processes, in the order of `tasks`; in this process where one worker is enough.

    `function` is a module-level one. Few results are held at a time. Raises `IncompleteError` when a worker
    dies, and whatever `function` raises.
    """
    num_workers = min(num_workers, len(tasks))
    if num_workers <= 1:
        yield from map(function, tasks)
        return
    # Imported here: a fifth of a small run's time.
    import multiprocessing
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # Forked workers start in milliseconds and share the parent's modules; elsewhere forking is not safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    executor = ProcessPoolExecutor(num_workers, context, _begin_worker, (os.getpid(),))
    waiting: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            waiting.append(executor.submit(function, task))
            if len(waiting) > 4 * num_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise IncompleteError(
            "a worker process died while reading the manifests, most likely for want of memory; "
            "run it again, perhaps with a smaller --num-workers"
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)


def _begin_worker(parent: int) -> None:
    """Leave signals to the parent, and never outlive it (a killed parent would leave its workers waiting)."""
    for name in (signal.SIGINT, signal.SIGUSR1):  # a terminal or Slurm sends these to the whole group
        signal.signal(name, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
