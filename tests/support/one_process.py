"""A single worker process replaced by this process: the fork is half of what a small command costs.

What a worker protects from (a decoder that crashes, a process that is killed) is for the tests with `forking`, and so
is a store: a worker has its own client, whose threads would be in all later forks.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any
from unittest.mock import patch

from prepcli.engine.run import unit as units
from prepcli.jobs import prefetch
from prepcli.processes import pools, workers
from prepcli.processes.pools import WorkerPool

_OF_A_PROCESS = ("begin_worker", "keep_freed_memory", "ignore_crashes_of_worker")
"""What prepares a worker process, and must not be done to this one."""
_USERS = (pools, units, prefetch)
"""Modules that import these, or `WorkerPool`, by name."""


class _Forks:
    are_wanted = False


@contextmanager
def forking() -> Iterator[None]:
    """For a while a single worker is a process of its own, as it is outside of tests."""
    with patch.object(_Forks, "are_wanted", True):
        yield


@contextmanager
def one_process() -> Iterator[None]:
    """For a while a pool of one worker has none."""
    with ExitStack() as stack:
        if not _Forks.are_wanted:
            for module in _USERS:
                stack.enter_context(patch.object(module, "WorkerPool", _pool))
        yield


def _pool(num_workers: int, *arguments: Any) -> "WorkerPool | _Here":
    return WorkerPool(num_workers, *arguments) if num_workers > 1 else _Here(*arguments)


class _Here:
    """A `WorkerPool` that does each task when it is submitted, until one fails, as a worker would: with copies.

    All that follow fail like it: who waits for one of them first must not wait for ever.
    """

    def __init__(
        self,
        initializer: Callable[..., object],
        arguments: tuple[Any, ...],
        in_hand: Callable[[Sequence[int]], Sequence[str]] = lambda _: (),
    ) -> None:
        self._failure: BaseException | None = None
        with ExitStack() as stack:
            for module in _USERS:
                for name in _OF_A_PROCESS:
                    if hasattr(module, name):
                        stack.enter_context(patch.object(module, name, lambda: None))
            if initializer is not workers.begin_worker:
                initializer(*arguments)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        if self._failure is not None:
            future.set_exception(self._failure)
            return future
        try:
            called, given = pickle.loads(pickle.dumps((function, arguments)))
            future.set_result(pickle.loads(pickle.dumps(called(*given))))
        except BaseException as error:
            self._failure = error
            future.set_exception(error)
        return future

    def __enter__(self) -> "_Here":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing has to end."""
