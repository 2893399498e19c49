"""The process that makes training steps: started when it is needed, replaced if it has died, killed if it hangs.

It is a new Python process, because this process may have threads, and CUDA does not survive a fork. It is not made by
`multiprocessing`, which would run the caller's script again, set the start method for the whole program, and leave a
process of its own running.
"""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from prepcli.commands.estimate_batch_sizes.search import BucketResults, DeviceFacts, Outcome, Step
from prepcli.commands.estimate_batch_sizes.settings import SearchSettings
from prepcli.errors import PrepcliError, option
from prepcli.processes.signals import STOP_SIGNALS
from prepcli.processes.workers import TICK, exit_when_ready, no_interruption

_CODE = f"import sys; sys.path.append({str(Path(__file__).parents[3])!r}); from {__name__} import serve; serve({{}})"
LOAD_SECONDS = 3600.0
"""Maximum time in seconds to download and load a model."""


class _NoAnswerError(Exception):
    """The process has died, or hangs."""

    def __init__(self, outcome: Outcome, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


class Child:
    """Runs training steps in another process, whose output goes to `log`.

    `kind` makes an object with the interface of `ModelTrainer` from `settings` and `device` ("cpu" or "cuda:N").
    `accept` is called with the `DeviceFacts` of each new process, and raises an error to refuse the process.
    """

    def __init__(
        self,
        kind: Callable[[SearchSettings, str], Any],
        settings: SearchSettings,
        device: str,
        log: Path,
        accept: Callable[[DeviceFacts], None],
    ) -> None:
        self._arguments = (kind, settings, device, log)
        self._log = log
        self._timeout = settings.probe_timeout
        self._accept = accept
        self._process: Any = None
        self._pipe: Any = None
        self._device_facts: DeviceFacts | None = None
        self.tick: Callable[[], object] = lambda: None
        """Called a few times a second while waiting for an answer."""

    def device_facts(self) -> DeviceFacts:
        """Start the process unless it runs, and return its description.

        Raises:
            UsageError: the model cannot be loaded.
            IncompleteError: the device has failed.
            PrepcliError: loading fails for another reason.
        """
        if self._process is None:
            try:
                self._device_facts = self._ask(self._start, self._arguments, LOAD_SECONDS)
            except _NoAnswerError as error:
                raise PrepcliError(f"the model cannot be loaded: {error}; see {self._log}") from None
            self._accept(self._device_facts)
        assert self._device_facts is not None
        return self._device_facts

    def step(self, duration: float, tokens: int | None, size: int) -> Step:
        """Run a training step. If the process crashes or hangs, the outcome of the returned step is "killed" or "hung".

        Raises:
            UsageError: other processes use the memory of the GPU.
            IncompleteError: the device has failed.
            PrepcliError: the model cannot make any step.
        """
        try:
            made: Step = self._ask(self.device_facts, ("step", (duration, tokens, size)), self._timeout)
        except _NoAnswerError as error:
            return Step(size, error.outcome, detail=str(error))
        if made.outcome == "cuda_error":
            self.close()  # CUDA cannot be used after an error
        return made

    def count(self, duration: float, tokens: int | None) -> BucketResults:
        """Let the process count the bytes of steps with two and three examples, as `ModelTrainer.count` does.

        Raises:
            PrepcliError: the model cannot make a step, or the process died or hung. There are no smaller steps that
                could be counted instead, so the search ends.
        """
        try:
            results: BucketResults = self._ask(self.device_facts, ("count", (duration, tokens)), self._timeout)
        except _NoAnswerError as error:
            advice = "use a machine with more memory, or leave long examples out"
            if error.outcome == "hung":
                advice = f"give it more time with {option('--probe-timeout')}, or leave long examples out"
            raise PrepcliError(
                f"steps with examples of {duration:g} s cannot be made on this machine: {error}; {advice}"
            ) from None
        return results

    def _start(self) -> None:
        self._pipe, theirs = Pipe()
        with no_interruption(), theirs, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE.format(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # Threads that wait in busy loops slow each other down if they are more than the cores.
                env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def _ask(self, begin: Callable[[], object], message: object, seconds: float) -> Any:
        """Send a message to the process, and return its answer, which must come within `seconds`.

        `begin` starts the process if it does not run. If the process died before it read the message, a new process
        gets the message.

        Raises:
            _NoAnswerError: the process has died or hangs.
            PrepcliError: the answer is an error, which is raised.
        """
        for is_last in (False, True):
            begin()
            try:
                self._pipe.send(message)
                self._wait(seconds)
                made = self._pipe.recv()
                break
            except (EOFError, ConnectionError) as error:  # ConnectionError: the process has not read the message
                code = self._process.wait()
                self.close()
                if is_last or isinstance(error, EOFError):
                    how = (
                        f"the process was ended by {signal.Signals(-code).name}"
                        if code < 0
                        else f"it ended with code {code}"
                    )
                    raise _NoAnswerError("killed", how) from None
        if isinstance(made, PrepcliError):
            self.close()
            raise made
        return made

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        is_ready = False
        while not is_ready:
            if time.monotonic() > deadline:
                self.close()
                raise _NoAnswerError("hung", f"no end after {seconds:g} s")
            is_ready = self._pipe.poll(TICK)
            self.tick()

    def close(self) -> None:
        """Kill the process, if there is one."""
        with no_interruption():
            process, self._process = self._process, None
            if process is not None:
                process.kill()
                process.wait()
                process.stdin.close()
                self._pipe.close()


def serve(descriptor: int) -> None:
    """Answer requests of the parent process through the pipe with this file descriptor.

    Returns after a request that fails, whose answer is the error. This process ends when the parent process ends.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # the parent decides what to do
    exit_when_ready(sys.stdin.fileno())
    with Connection(descriptor) as pipe:
        kind, settings, device, log = pipe.recv()
        try:
            trainer = kind(settings, device)
            pipe.send(trainer.device_facts())
            while True:
                name, arguments = pipe.recv()
                pipe.send(getattr(trainer, name)(*arguments))
        except PrepcliError as error:
            pipe.send(error)
        except Exception as error:
            traceback.print_exc()
            pipe.send(PrepcliError(f"{type(error).__name__}: {' '.join(str(error).split())} (traceback in {log})"))
