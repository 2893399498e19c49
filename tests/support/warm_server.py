"""`python -m tests.support.warm_server SOCKET LISTENER MODULE…` has imported what commands need, and forks for each.

Each request comes over the socket of the client, or over a connection to the listening one, with open files: the
request itself (JSON), the three standard streams, and a pipe for what becomes of the process: its number, and later its
exit code. The process is a child of this one, in a session of its own, with the arguments, environment, folder, streams
and signal handlers that it would have if it were started alone; it leaves the server's stack, so exceptions, threads
and `atexit` end it as any other, but what was imported is not destroyed first. The server ends with its client.
"""

import atexit
import contextlib
import faulthandler
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import sys
import threading
import weakref
from collections.abc import Collection
from pathlib import Path
from typing import Any, TextIO

NUM_STREAMS = 3


def main() -> None:
    channel, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    modules = sys.argv[3:]
    is_light = "torch" not in modules
    if is_light:  # its 500 MB would make each fork cost ten times more
        sys.modules["torch"] = None  # type: ignore[assignment]
    packages = [name for name in modules if name.endswith(".*")]
    for name in packages:
        _import(name)
    if is_light:
        del sys.modules["torch"]
    for name in [name for name in modules if name not in packages]:  # SciPy fails where torch is None
        _import(name)
    os.environ.clear()
    _forget_finalizers()
    gc.collect()
    gc.freeze()  # what is here now is neither searched for cycles nor copied by any fork
    request = _serve(channel, listener)
    if request is not None:
        try:
            _run(request["module"])
        except SystemExit as done:
            if done.code is not None and not isinstance(done.code, int):
                raise
            _leave(done.code or 0)
        _leave(0)


def _forget_finalizers() -> None:
    """At exit do not undo what imports have done: PyTorch removes each operator, which takes half of a short run."""
    for one in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        one.atexit = False


def _run(name: str) -> None:
    """A module, or a script, which has its own folder at the head of the path."""
    if name.endswith(".py"):
        sys.path[0] = os.path.dirname(os.path.abspath(name))
        runpy.run_path(name, run_name="__main__")
    else:
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def _leave(code: int) -> None:
    """End as Python does, but without destroying each object: that would copy all pages of the server first."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)  # Python says what is wrong with a stream


def _import(name: str) -> None:
    """A module, or with `.*` at its end all modules of a package but the program, which must not be imported twice.

    Those of them that need what `main` leaves out are left out too.
    """
    package = importlib.import_module(name.removesuffix(".*"))
    if name.endswith(".*"):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(".__main__"):
                try:
                    importlib.import_module(found.name)
                except ModuleNotFoundError as error:
                    if error.name is None or sys.modules.get(error.name, error) is not None:
                        raise


def _serve(channel: socket.socket, listener: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; the request in the new process, None in the server when its client has ended."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    outcomes: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel.fileno(), listener.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _collect(outcomes)
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            request = _fork(connection, outcomes) if _is_ours(connection) else None
            if request:
                listener.detach()
                channel.detach()
                return request
            connection.close()
        if channel.fileno() in ready:
            request = _fork(channel, outcomes)
            if request is None:
                break
            if request:
                listener.detach()
                return request
    for pid in outcomes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    return None


def _is_ours(connection: socket.socket) -> bool:
    """Whether the same user is at the other end: everybody may connect."""
    _, user, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return bool(user == os.getuid())


def _fork(channel: socket.socket, outcomes: dict[int, int]) -> dict[str, Any] | None:
    """The request in the process that is made for it, {} in the server; None at the end of the channel."""
    message, files, _, _ = socket.recv_fds(channel, 1, NUM_STREAMS + 2)
    if not message:
        return None
    # A thread would not be in the fork, nor let go of a lock that it held.
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads in the server"
    with os.fdopen(files[0], encoding="ascii") as text:
        request: dict[str, Any] = json.load(text)
    outcome = files[-1]
    pid = os.fork()
    if pid == 0:
        channel.detach()
        _become(request, files[1:-1])
        return request
    for file in files[1:-1]:
        os.close(file)
    outcomes[pid] = outcome
    with contextlib.suppress(BrokenPipeError):
        os.write(outcome, b"%d\n" % pid)
    return {}


def _collect(outcomes: dict[int, int]) -> None:
    """Report all children that have ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        outcome = outcomes.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(outcome, b"%d\n" % os.waitstatus_to_exitcode(status))
        os.close(outcome)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Make this fork what `python -m MODULE ARGUMENTS` is when it begins."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    take_streams(streams)
    os.environ.update(request["environ"])
    if "PYTHONFAULTHANDLER" in os.environ:
        faulthandler.enable()
    os.chdir(request["folder"])
    sys.path[0] = str(Path.cwd())
    sys.argv = ["", *request["arguments"]]


def take_streams(files: list[int], kept: Collection[int] = ()) -> None:
    """Make descriptors the standard streams, and close all others but `kept`, which are above these."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    first = NUM_STREAMS
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


if __name__ == "__main__":
    main()
