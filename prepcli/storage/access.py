"""Calls functions of `prepcli.storage.client` and `hub` from any process.

A worker process calls the client itself. The main process of a command must not, because it forks workers: it starts a
helper process with the first call, and the helper calls the client. The helper ends with the process that it serves.
"""

import atexit
import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from prepcli.errors import IncompleteError
from prepcli.processes.workers import TICK, begin_worker, is_worker, no_interruption, starting_children, worker_context

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _Helper:
    """A helper process, which sends the requests to object stores for the process `pid`."""

    def __init__(self) -> None:
        context = worker_context()
        self.pid = os.getpid()
        self.settings = _settings()
        self.lock = threading.Lock()
        self.pipe, other = context.Pipe()
        with starting_children():
            self._process: BaseProcess = context.Process(  # type: ignore[attr-defined]
                target=_serve, args=(other, self.pipe), daemon=True, name="prepcli-store"
            )
            self._process.start()
        other.close()

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        with self.lock, self._for_sure():
            with no_interruption():
                self.pipe.send((function, arguments))
            while not self.pipe.poll(TICK):  # waiting for a silent store takes minutes; this loop lets Ctrl-C end it
                pass
            with no_interruption():
                succeeded, value = self.pipe.recv()
        if not succeeded:
            raise value
        return value

    @contextlib.contextmanager
    def _for_sure(self) -> Iterator[None]:
        """A context for a call: if an error such as Ctrl-C ends it before the answer has come, the helper is killed.

        Otherwise the next call would receive the answer to this one.
        """
        try:
            yield
        except BaseException as error:
            self._process.kill()
            _State.helper = None
            if isinstance(error, (EOFError, OSError)):
                raise IncompleteError("the process that talks to the object store was killed") from None
            raise

    def close(self) -> None:
        if self.pid == os.getpid():
            self.pipe.close()
            self._process.join(timeout=5)


def _serve(pipe: "Connection", other_end: "Connection") -> None:
    begin_worker()
    other_end.close()
    with contextlib.suppress(ImportError):  # the first request reports a missing package
        importlib.import_module("obstore.store")
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            function, arguments = pipe.recv()
            try:
                answer = (True, function(*arguments))
            except Exception as error:
                answer = (False, error)
            pipe.send(answer)
    os._exit(0)


def _settings() -> dict[str, str]:
    """The environment variables that configure access to stores, with their values now.

    If they change, a new helper must be started: a helper only knows the values from its start.
    """
    return {
        name: value for name, value in os.environ.items() if name.startswith(("AWS_", "AIS_", "HF_", "PREPCLI_STORE"))
    }


class _State:
    helper: _Helper | None = None
    making = threading.Lock()


def call(function: Callable[Parameters, Result], *arguments: Parameters.args, **none: Parameters.kwargs) -> Result:
    """Call a function of `prepcli.storage.client` or `hub` in the helper process; a worker calls it directly.

    The arguments and the result can be pickled.

    Raises:
        Exception: any exception of the function.
        IncompleteError: the helper process was killed.
    """
    if is_worker():
        return function(*arguments, **none)
    result: Result = start_helper().call(function, arguments)
    return result


def start_helper() -> _Helper:
    """Return the helper of this process; start one if there is none, or if `_settings` have changed after its start.

    A helper imports the modules for requests while the command imports its own modules.
    """
    with _State.making:  # threads share one helper
        helper = _State.helper
        if helper is None or helper.pid != os.getpid() or helper.settings != _settings():
            with no_interruption():
                helper = _State.helper = _Helper()
                atexit.register(helper.close)
        return helper
