"""The executors of Dask and Ray, on a cluster that runs already or on one that is started here for the run."""

import contextlib
import importlib.util
import logging
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from prepcli.engine.run.job import OpenEngine
from prepcli.errors import UsageError, option
from prepcli.interface.shared_options import UnitExecutor
from prepcli.processes.signals import STOP_SIGNALS, InterruptedBySignal
from prepcli.processes.workers import available_processors, no_interruption


def engine_named(text: str, num_workers: int | None) -> OpenEngine:
    """Return the function that opens the engine of `--engine`.

    Args:
        text: `dask` or `ray`, with `=ADDRESS` for a cluster that runs already.
        num_workers: the number of worker processes of a cluster that is started here; None: one for each core.

    Raises:
        UsageError: there is no such engine, its address is empty, or its package is not installed.
    """
    name, equals, address = text.partition("=")
    if name not in _ENGINES or bool(equals) != bool(address):
        raise UsageError(f"{option('--engine', text)}: the engines are dask and ray, with =ADDRESS for a cluster")
    package, open_engine = _ENGINES[name]
    if importlib.util.find_spec(package) is None:
        raise UsageError(
            f"{option('--engine', text)} needs {package}, which is not installed: pip install 'prepcli[{name}]'"
        )
    return partial(_opened, open_engine, text, num_workers or available_processors())


@contextlib.contextmanager
def _opened(open_engine: "_Open", text: str, num_workers: int) -> Iterator[UnitExecutor]:
    """The executor of an engine.

    Raises:
        UsageError: no cluster can be used at the address of `text`; within the context, errors pass through.
    """
    address = text.partition("=")[2]
    _check_answer(text, address)
    with contextlib.ExitStack() as opened:
        try:
            executor = opened.enter_context(open_engine(address, num_workers))
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"{option('--engine', text)} does not start: {' '.join(str(error).split())}") from error
        yield executor


def _check_answer(text: str, address: str) -> None:
    """Connect to an address with a port: the engines themselves try for minutes, and print much.

    Raises:
        UsageError: nothing answers there within 10 seconds.
    """
    found = re.search(r"([^/@]+):(\d+)/?$", address)
    try:
        if found:
            socket.create_connection((found[1].strip("[]"), int(found[2])), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"{option('--engine', text)}: nothing answers there ({error}); check the address") from None


@contextlib.contextmanager
def _dask(address: str, num_workers: int) -> Iterator[UnitExecutor]:
    """Workers that are started here have one thread: a unit at a time in a process."""
    import distributed

    with contextlib.ExitStack() as opened:
        at: Any = address or opened.enter_context(
            distributed.LocalCluster(
                n_workers=num_workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",  # a port that is free
            )
        )
        yield opened.enter_context(distributed.Client(at, set_as_default=False)).get_executor()


@contextlib.contextmanager
def _ray(address: str, num_workers: int) -> Iterator[UnitExecutor]:
    import ray

    was_there = ray.is_initialized()
    try:
        if not was_there:
            own: dict[str, Any] = {"address": "local", "num_cpus": num_workers, "include_dashboard": False}
            with _our_handlers():
                ray.init(**({"address": address} if address else own), log_to_driver=False, logging_level=logging.ERROR)
        yield _RayExecutor(ray.remote(max_retries=3)(_call))
    finally:
        if not was_there:
            with _our_handlers():
                ray.shutdown()


@contextlib.contextmanager
def _our_handlers() -> Iterator[None]:
    """A context in which Ray starts or stops, so that no process of it is forgotten; a signal then ends the run after.

    Ray sets its own handler of SIGTERM, which raises `SystemExit`, and leaves none: at the end, ours is set again.

    Raises:
        InterruptedBySignal: there was a signal.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS} if is_main else {}
    with no_interruption():
        try:
            yield
        except SystemExit:
            raise InterruptedBySignal("stopped by SIGTERM") from None
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class _RayExecutor:
    """Ray has no executor; its references to results can be futures."""

    def __init__(self, remote: Any) -> None:
        self._remote = remote

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        return self._remote.remote(function, *arguments).future()


_Open = Callable[[str, int], contextlib.AbstractContextManager[UnitExecutor]]

_ENGINES: dict[str, tuple[str, _Open]] = {
    "dask": ("distributed", _dask),
    "ray": ("ray", _ray),
}
"""The package of each engine, and the function that opens it."""
