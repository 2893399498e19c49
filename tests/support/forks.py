"""Processes that have PyTorch or NeMo at once: forks of this one, which has imported it.

A new interpreter takes two seconds for PyTorch, and eight for NeMo.
"""

from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from contextvars import Context
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any, NoReturn, TextIO

from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")


FORKING = SimpleNamespace(**vars(subprocess))
"""What a module that starts Python can have in the place of `subprocess`."""


def start_python(command: Sequence[str], **settings: Any) -> subprocess.Popen[bytes] | ForkedPython:
    """`subprocess.Popen` for `python -c CODE ARGUMENT…`; where PyTorch sees a GPU, a fork could not use PyTorch."""
    start: Any = subprocess.Popen if torch.cuda.device_count() else ForkedPython
    started: subprocess.Popen[bytes] | ForkedPython = start(command, **settings)
    return started


FORKING.Popen = start_python


class ForkedPython:
    """A fork that runs `CODE` in a session of its own, with some of the methods of `subprocess.Popen`.

    Args:
        command: Python, `-c`, the code, and arguments.
        env: its environment; folders in PYTHONPATH come first in `sys.path`.
        stdout: an open file; None for that of this process.
        stderr: the same.
        stdin: PIPE, or None for nothing to read.
        pass_fds: descriptors that it keeps.
        start_new_session: always true.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        stdout: IO[Any] | None = None,
        stderr: IO[Any] | None = None,
        stdin: int | None = None,
        pass_fds: Sequence[int] = (),
        start_new_session: bool = True,
    ) -> None:
        _, option, code, *arguments = command
        assert (option, start_new_session, stdin in (None, subprocess.PIPE)) == ("-c", True, True)
        read, write = os.pipe()
        streams = [read, *(number if file is None else file.fileno() for number, file in ((1, stdout), (2, stderr)))]
        self.args = command
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _run(code, arguments, streams, env, pass_fds)
        os.close(read)
        self.stdin = os.fdopen(write, "wb")
        if stdin is None:
            self.stdin.close()

    def poll(self) -> int | None:
        """The exit code, -N after signal N; None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while (code := self._wait(0 if timeout is None else os.WNOHANG)) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            time.sleep(0.005)
        return code

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def _run(
    code: str, arguments: Sequence[str], streams: list[int], environ: Mapping[str, str], kept: Sequence[int]
) -> NoReturn:
    """Become `python -c CODE ARGUMENT…`, and end."""
    exit_code = 1
    try:
        os.setsid()
        _take_streams(streams, kept)
        os.environ.clear()
        os.environ.update(environ)
        sys.path[:0] = filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))
        sys.argv = ["-c", *arguments]
        if sys.modules.get("torch"):
            torch.set_num_threads(1)  # the other threads of the pool are not in a fork
        # A new context has none of the variables that a call has set here.
        Context().run(exec, compile(code, "<string>", "exec"), {"__name__": "__main__"})
        exit_code = 0
    except SystemExit as done:
        exit_code = int(done.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _take_streams(files: list[int], kept: Collection[int] = ()) -> None:
    """Make descriptors the standard streams, and close all others but `kept`, which are above these."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    first = 3
    for end in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(first, end)
        first = end + 1
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream = _text_stream(number, mode, getattr(sys, f"__{name}__"))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _text_stream(number: int, mode: str, before: TextIO) -> TextIO:
    """A standard stream with Python's own settings, which depend on what the file is."""
    file = open(number, f"{mode}b", closefd=False)  # noqa: SIM115 - open until the end
    is_unbuffered = mode == "w" and isinstance(before, io.TextIOWrapper) and before.write_through
    by_line = mode == "w" and not is_unbuffered and (number == 2 or file.isatty())
    return io.TextIOWrapper(file, before.encoding, before.errors, line_buffering=by_line, write_through=is_unbuffered)
