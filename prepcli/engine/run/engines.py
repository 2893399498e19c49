"""The executors of Dask and Ray, on a cluster that runs already or on one that is started here for the run."""

import contextlib
import importlib.util
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from prepcli.engine.run.job import OpenEngine
from prepcli.errors import UsageError, option
from prepcli.interface.shared_options import UnitExecutor
from prepcli.processes.workers import available_processors


def engine_named(text: str, num_workers: int | None) -> OpenEngine:
    """Return the function that opens the engine of `--engine`.

    Args:
        text: `dask` or `ray`, with `=ADDRESS` for a cluster that runs already.
        num_workers: the number of worker processes of a cluster that is started here; None: one for each core.

    Raises:
        UsageError: there is no such engine, or its package is not installed.
    """
    name, _, address = text.partition("=")
    if name not in _ENGINES:
        raise UsageError(f"{option('--engine', text)}: the engines are dask and ray, with =ADDRESS for a cluster")
    package, open_engine = _ENGINES[name]
    if importlib.util.find_spec(package) is None:
        raise UsageError(
            f"{option('--engine', text)} needs {package}, which is not installed: pip install 'prepcli[{name}]'"
        )
    return partial(open_engine, address, num_workers or available_processors())


@contextlib.contextmanager
def _dask(address: str, num_workers: int) -> Iterator[UnitExecutor]:
    """Workers that are started here have one thread: a unit at a time in a process."""
    import distributed

    own: dict[str, Any] = {"n_workers": num_workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.Client(**({"address": address} if address else own), set_as_default=False) as client:
        yield client.get_executor()


@contextlib.contextmanager
def _ray(address: str, num_workers: int) -> Iterator[UnitExecutor]:
    import ray

    was_there = ray.is_initialized()
    if not was_there:
        own: dict[str, Any] = {"num_cpus": num_workers, "include_dashboard": False}
        ray.init(**({"address": address} if address else own), log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield _RayExecutor(ray.remote(max_retries=3)(_call))
    finally:
        if not was_there:
            ray.shutdown()


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class _RayExecutor:
    """Ray has no executor; its references to results can be futures."""

    def __init__(self, remote: Any) -> None:
        self._remote = remote

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        return self._remote.remote(function, *arguments).future()


_ENGINES: dict[str, tuple[str, Callable[[str, int], contextlib.AbstractContextManager[UnitExecutor]]]] = {
    "dask": ("distributed", _dask),
    "ray": ("ray", _ray),
}
"""The package of each engine, and the function that opens it."""
