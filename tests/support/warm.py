"""Processes without the cost of their start: forks of a server that has imported what they need.

A test that kills processes, or sends them signals, is about what they do, not about Python's imports, which take from
0.3 s (the light commands) to 5 s (PyTorch). What is about the start itself uses `tests.support.running.run_process`.
"""

import atexit
import contextlib
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TextIO

LIGHT = (
    "prepcli.*",
    "concurrent.futures.process",
    "multiprocessing.popen_fork",
    "multiprocessing.synchronize",
    "yaml.cyaml",
)
TORCH = (*LIGHT, "torch", "torchaudio.functional")
SCIPY = (*LIGHT, "pyloudnorm")
WITH_TORCH = {"extend-context-audio", "extend-codec-codes", "manifest-to-mels"}
"""The commands that import PyTorch."""
LIBRARY = "LD_PRELOAD"
"""The variable with a library that is loaded into a process before all others; each has a server of its own."""
READ_AT_START = ("PYTHON", "TZ", "LC_", "LANG", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "MKL_")
"""Variables that Python and libraries read when they are loaded: a fork comes too late for other values."""
_ENVIRON = dict(os.environ)
"""The environment before any test: a test that is the first to need a server may have changed its own."""


def preload_for(arguments: Sequence[str]) -> tuple[str, ...]:
    """The modules that the server should have imported for a command line."""
    if "score" in arguments and find_spec("pyloudnorm"):
        return SCIPY
    return LIGHT if WITH_TORCH.isdisjoint(arguments) else TORCH


def can_fork(environ: Mapping[str, str], preload: tuple[str, ...]) -> bool:
    """Whether a fork of the server would be like a process that starts with these variables."""
    ours = _server(preload).environ
    names = [name for name in {*environ, *ours} if name.startswith(READ_AT_START)]
    return all(environ.get(name) == ours.get(name) for name in names if name != "PYTHONFAULTHANDLER")


def warm_python(path: Path, preload: tuple[str, ...] = LIGHT) -> Path:
    """Write a program that scripts can take for Python: `-m MODULE` and scripts run in forks, all else as ever."""
    client = Path(__file__).with_name("warm_client.py")
    words = [sys.executable, "-IS", str(client), _server(preload).address]
    path.write_text(
        "#!/bin/sh\n"
        f'case "$1" in -m) shift ;; *.py) ;; *) exec {shlex.quote(sys.executable)} "$@" ;; esac\n'
        f'exec {shlex.join(words)} "$@"\n'
    )
    path.chmod(0o755)
    return path


class WarmProcess:
    """A process that runs a module, with the methods of `subprocess.Popen`; its output is text, in pipes.

    It is a child of the server, which collects it at once and tells its exit code.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        preload: tuple[str, ...] = LIGHT,
        cwd: Path | None = None,
    ) -> None:
        self.args = [module, *arguments]
        self.returncode: int | None = None
        self._outcome, outcome = os.pipe()
        out, its_out = os.pipe()
        err, its_err = os.pipe()
        self.stdout: TextIO = os.fdopen(out, encoding="utf-8")
        self.stderr: TextIO = os.fdopen(err, encoding="utf-8")
        request = {"module": module, "arguments": list(arguments), "environ": dict(environ)}
        try:
            _server(preload, environ.get(LIBRARY, "")).ask(
                request | {"folder": str(cwd or Path.cwd())}, (0, its_out, its_err, outcome)
            )
        finally:
            for file in (its_out, its_err, outcome):
                os.close(file)
        self.pid = self._next_number()
        self._texts: dict[str, str] = {}
        self._readers: list[threading.Thread] = []

    def _next_number(self) -> int:
        """The number of the process, and later its exit code, as soon as the server tells."""
        text = b""
        while not text.endswith(b"\n"):
            more = os.read(self._outcome, 1)
            if not more:
                raise RuntimeError(f"the server of warm processes ended before {self.args}")
            text += more
        return int(text)

    def _wait(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._outcome], [], [], seconds)[0]:
            self.returncode = self._next_number()
            os.close(self._outcome)
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, -N after signal N; None while the process runs."""
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it prints on stdout and stderr, when it has ended."""
        if not self._readers:
            self._readers = [
                threading.Thread(target=self._read, args=(name, stream), daemon=True)
                for name, stream in (("out", self.stdout), ("err", self.stderr))
            ]
            for reader in self._readers:
                reader.start()
        for reader in self._readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        return self._texts["out"], self._texts["err"]

    def _read(self, name: str, stream: TextIO) -> None:
        with stream:
            self._texts[name] = stream.read()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> "WarmProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.wait()


class _Server:
    """A process of `tests.support.warm_server`; it ends when this process does, because its socket closes."""

    def __init__(self, preload: Sequence[str], library: str) -> None:
        self.environ = _ENVIRON | ({LIBRARY: library} if library else {})
        self.address = f"prepcli-tests-{uuid.uuid4()}"
        self._channel, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0{self.address}")  # Linux removes such an address by itself
            listener.listen()
            files = [theirs.fileno(), listener.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm_server", *map(str, files), *preload],
                cwd=Path(__file__).parents[2],
                # The threads that OpenBLAS would start with NumPy would not be in a fork.
                env=self.environ | {"OPENBLAS_NUM_THREADS": "1"},
                pass_fds=files,
                start_new_session=True,
            )
        atexit.register(self._end)

    def ask(self, request: Mapping[str, object], files: Sequence[int]) -> None:
        with tempfile.TemporaryFile("w+", encoding="ascii") as text:
            json.dump(request, text)
            text.seek(0)
            socket.send_fds(self._channel, [b"!"], [text.fileno(), *files])

    def _end(self) -> None:
        self._channel.close()
        self._process.wait()


@cache
def _server(preload: tuple[str, ...], library: str = os.environ.get(LIBRARY, "")) -> _Server:
    return _Server(preload, library)
