"""The child process of a rank: started when it is needed, replaced when it has died, killed when it hangs."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from prepcli.commands.estimate_batch_sizes.messages import Answer, Counted, Failed, Hello, Request, Setup, Step
from prepcli.errors import IncompleteError, PrepcliError, UsageError
from prepcli.processes.workers import TICK, no_interruption

_ROOT = str(Path(__file__).parents[3])
_RUN = (
    "import sys; sys.path[:] = [*filter(None, sys.path), {root!r}]; from {module} import main; main({life}, {answers})"
)
MODULE = "prepcli.commands.estimate_batch_sizes.child"
"""The module whose `main` the child runs."""
LOAD_SECONDS = 3600.0
"""Time in which a model must be fetched and loaded."""


def _nothing() -> None: ...


class ChildDiedError(Exception):
    """The child has ended in the middle of a request, by a signal or with an exit code."""


class _HungError(Exception):
    """No answer in time."""


class Child:
    """Makes steps in another process.

    Args:
        setup: the model.
        log: file for what the child prints.
        timeout: seconds after which a step counts as hung.
        accept: called with what a new child is; it may refuse that by an error.
    """

    def __init__(
        self,
        setup: Setup,
        log: Path,
        timeout: float,
        accept: Callable[[Hello], None] = lambda hello: None,
    ) -> None:
        self._setup = setup
        self._log = log
        self._timeout = timeout
        self._tick: Callable[[], None] = _nothing
        self._accept = accept
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = self._held = -1
        self._hello: Hello | None = None
        self._buffer = b""

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    @contextlib.contextmanager
    def ticking(self, tick: Callable[[], None]) -> Iterator[None]:
        """Within it, `tick` is called a few times a second while waiting for an answer."""
        self._tick = tick
        try:
            yield
        finally:
            self._tick = _nothing

    def hello(self) -> Hello:
        """Start the child unless it runs, and return what it is.

        Raises:
            UsageError: the model cannot be loaded.
            IncompleteError: the device has failed.
            PrepcliError: loading it fails otherwise.
        """
        if self._process is None:
            self._start()
        assert self._hello is not None
        return self._hello

    def step(self, duration: float, tokens: int | None, size: int) -> Step:
        """A training step; a crash and a hang are results too.

        Raises:
            UsageError: other processes use the memory of the GPU.
            IncompleteError: the device has failed.
            PrepcliError: the model cannot make a step at all.
        """
        self.hello()
        try:
            made = self._ask(Request("step", duration, tokens, size), self._timeout)
        except ChildDiedError as died:
            self.end()
            return Step("killed", detail=str(died))
        except _HungError:
            self.end()
            return Step("hung", detail=f"no end after {self._timeout:g} s")
        assert isinstance(made, Step)
        if made.outcome == "cuda_error":
            self.end()
        return made

    def count(self, duration: float, tokens: int | None) -> Counted:
        """The memory of small steps.

        Raises:
            PrepcliError: the model cannot make a step, or the child died or hung: there is no smaller step to try.
        """
        self.hello()
        try:
            made = self._ask(Request("lines", duration, tokens), self._timeout)
        except (ChildDiedError, _HungError) as error:
            why = str(error) or f"no end after {self._timeout:g} s (--probe-timeout)"
            self.end()
            raise PrepcliError(
                f"a step with one example of {duration:g} s cannot be made on this machine: {why}; use a machine with "
                "more memory, or leave long examples out"
            ) from None
        assert isinstance(made, Counted)
        return made

    def _start(self) -> None:
        life, self._held = os.pipe()
        self._answers, answers = os.pipe()
        code = _RUN.format(root=_ROOT, module=MODULE, life=life, answers=answers)
        try:
            with no_interruption(), self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    # Threads that wait in busy loops slow each other down where there are more of them than cores.
                    env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ},
                    pass_fds=[life, answers],
                    start_new_session=True,
                )
        finally:
            os.close(life)
            os.close(answers)
        try:
            self._send(msgspec.json.encode(self._setup))
            made = self._receive(LOAD_SECONDS)
        except ChildDiedError as died:
            self.end()
            raise PrepcliError(f"the model cannot be loaded: {died}; see {self._log}") from None
        except _HungError:
            self.end()
            raise PrepcliError(f"loading the model has taken {LOAD_SECONDS:g} s; see {self._log}") from None
        assert isinstance(made, Hello)
        self._accept(made)
        self._hello = made

    def _ask(self, request: Request, seconds: float) -> Answer:
        self._send(msgspec.json.encode(request))
        return self._receive(seconds)

    def _send(self, line: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildDiedError(self._why()) from None

    def _receive(self, seconds: float) -> Answer:
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            if time.monotonic() > deadline:
                raise _HungError
            if select.select([self._answers], [], [], min(TICK, seconds))[0]:
                more = os.read(self._answers, 1 << 16)
                if not more:
                    raise ChildDiedError(self._why())
                self._buffer += more
            self._tick()
        line, _, self._buffer = self._buffer.partition(b"\n")
        made: Answer = msgspec.json.decode(line, type=Answer)
        if isinstance(made, Failed):
            self.end()
            kind = {one.exit_code: one for one in (UsageError, IncompleteError)}.get(made.exit_code)
            raise kind(made.message) if kind else PrepcliError(f"{made.message} (traceback in {self._log})")
        return made

    def _why(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        return f"the process was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"

    def end(self) -> None:
        """Kill the child, if there is one."""
        with no_interruption():
            process, self._process = self._process, None
            if process is None:
                return
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
            os.close(self._answers)
            os.close(self._held)
            self._buffer = b""
