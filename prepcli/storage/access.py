"""Calls of `prepcli.storage.client` from any process.

A worker process calls the client itself. The main process of a command must not, because it forks workers: it starts a
helper process with the first call, and the helper calls the client. The helper ends with the process that it serves. It
handles requests in order; `begin` and `later` do not wait for the answer.
"""

import atexit
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from prepcli.errors import IncompleteError
from prepcli.processes.workers import TICK, begin_worker, is_worker, no_interruption, starting_children, worker_context

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

MAX_AGE = 5.0
"""Seconds after which the answer to a question of `begin` is too old and the question is sent again."""

_Question = tuple[Callable[..., Any], tuple[Any, ...]]
_Answer = tuple[bool, Any]
"""Whether the function has returned, and its result or its exception."""


class _Helper:
    """The helper of the process `pid`."""

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
        self._open: deque[tuple[_Question, float | None]] = deque()
        """Questions without an answer yet, each with the time at which `begin` sent it; None for those of `later`."""
        self._answers: dict[_Question, tuple[float, _Answer]] = {}
        self._failed: Exception | None = None

    def call(self, question: _Question) -> Any:
        with self.lock, self._for_sure():
            while self._open:  # take answers first: a pipe holds only some unread ones
                self._take_answer()
            begun, answer = self._answers.pop(question, (0.0, None)) if self._answers else (0.0, None)
            if answer is None or time.monotonic() - begun > MAX_AGE:
                with no_interruption():
                    self.pipe.send(question)
                answer = self._receive()
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        succeeded, value = answer
        if not succeeded:
            raise value
        return value

    def send(self, question: _Question, keeps_answer: bool) -> None:
        with self.lock, self._for_sure(), no_interruption():
            self.pipe.send(question)
            self._open.append((question, time.monotonic() if keeps_answer else None))

    def _take_answer(self) -> None:
        answer = self._receive()
        question, begun = self._open.popleft()
        if begun is not None:
            self._answers[question] = begun, answer
        elif not answer[0]:
            self._failed = answer[1]

    def _receive(self) -> _Answer:
        while not self.pipe.poll(TICK):  # a silent store is asked for minutes; this loop lets Ctrl-C end it
            pass
        with no_interruption():
            answer: _Answer = self.pipe.recv()
            return answer

    @contextlib.contextmanager
    def _for_sure(self) -> Iterator[None]:
        """On an error, end the helper: an answer may be lost, and the next one would be taken for it."""
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
    """The environment variables that configure access to a store; the helper has their values from its start."""
    return {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "AIS_", "PREPCLI_STORE"))}


class _State:
    helper: _Helper | None = None
    making = threading.Lock()


def call(function: Callable[Parameters, Result], *arguments: Parameters.args, **none: Parameters.kwargs) -> Result:
    """Call a function of `prepcli.storage.client`; its arguments and its result can be sent to another process.

    Raises:
        Exception: any exception of the function.
        IncompleteError: the helper process was killed.
    """
    if is_worker():
        return function(*arguments, **none)
    result: Result = _helper().call((function, arguments))
    return result


def begin(function: Callable[Parameters, object], *arguments: Parameters.args, **none: Parameters.kwargs) -> None:
    """Let the helper send a request now whose answer `call` with the same arguments will use.

    A worker does nothing here: `call` sends its request.
    """
    if not is_worker():
        _helper().send((function, arguments), keeps_answer=True)


def later(function: Callable[Parameters, object], *arguments: Parameters.args, **none: Parameters.kwargs) -> None:
    """As `call`, but without waiting for the result: the next `call` waits for it, and raises its exception."""
    if is_worker():
        function(*arguments, **none)
    else:
        _helper().send((function, arguments), keeps_answer=False)


def _helper() -> _Helper:
    with _State.making:  # threads share one helper
        helper = _State.helper
        if helper is None or helper.pid != os.getpid() or helper.settings != _settings():
            with no_interruption():
                helper = _State.helper = _Helper()
                atexit.register(helper.close)
        return helper
