"""What lies between the engine and the simulated machines: the names that its modules use are replaced.

The engine itself is not changed. In all modules of prepcli, and in those of Python that they reach files with, the
modules `os`, `io`, `time`, `threading`, ... are others; what a process remembers is kept for each process.
"""

import contextlib
import genericpath
import os
import pathlib
import posixpath
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any
from unittest.mock import patch

from tests.faults.machines import FUNCTIONS
from tests.faults.ranks import Event, Thread, World

_PYTHONS_OWN = (pathlib, shutil, tempfile, genericpath, posixpath)
_ENGINE = ("prepcli.engine.", "prepcli.planning.", "prepcli.processes.")
_OF_FOLDERS = ("walk", "makedirs", "removedirs", "renames")
"""Functions of `os` in Python, which call others by their global names."""


def _like(module: types.ModuleType, **others: Any) -> types.ModuleType:
    made = types.ModuleType(module.__name__)
    made.__dict__.update(module.__dict__)
    made.__dict__.update(others)
    return made


def _os(world: World) -> types.ModuleType:
    made = _like(os, **{name: getattr(world.files, name) for name in FUNCTIONS})
    for name in _OF_FOLDERS:
        code = getattr(os, name)
        setattr(made, name, types.FunctionType(code.__code__, made.__dict__, name, code.__defaults__, code.__closure__))
        getattr(made, name).__kwdefaults__ = code.__kwdefaults__
    return made


class _Id:
    """A `uuid.UUID`, as far as it is used."""

    def __init__(self, draw: Any) -> None:
        self.hex = f"{draw.getrandbits(128):032x}"

    def __str__(self) -> str:
        return self.hex


class _Names:
    """The names that `tempfile` tries."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __iter__(self) -> "_Names":
        return self

    def __next__(self) -> str:
        return f"{self._world.draw.getrandbits(40):010x}"


class _NoPipe:
    """The ends of a pipe in which nothing is sent, as all work is done by the process that asks for it."""

    def poll(self) -> bool:
        return False


class _Context:
    """A context of `multiprocessing`."""

    def Pipe(self, duplex: bool = True) -> tuple[_NoPipe, _NoPipe]:  # noqa: N802
        return _NoPipe(), _NoPipe()


class _Pool:
    """A `WorkerPool` of no process: a task is done when it is submitted, by the process that submits it."""

    def __init__(self, workers: int, initializer: Callable[..., object], arguments: Any, *_: Any) -> None:
        initializer(*arguments)
        self._has_failed = False

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        if not self._has_failed:
            try:
                future.set_result(function(*arguments))
            except Exception as error:
                self._has_failed = True
                future.set_exception(error)
        return future

    def __enter__(self) -> "_Pool":
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _PerProcess:
    """Stands for a class whose attributes are what a process remembers."""

    def __init__(self, world: World, name: str) -> None:
        self.__dict__.update(_world=world, _name=name)

    def _kept(self) -> dict[str, Any]:
        kept: dict[str, Any] = self._world.process.own.setdefault(self._name, {})
        return kept

    def __getattr__(self, name: str) -> Any:
        return self._kept()[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._kept()[name] = value


def _per_machine(world: World, function: Any) -> Callable[..., Any]:
    """A function that remembers its results, for each machine."""

    def called(*arguments: Any) -> Any:
        known, key = world.process.machine.known, (function, arguments)
        if key not in known:
            known[key] = function.__wrapped__(*arguments)
        return known[key]

    return called


@contextlib.contextmanager
def simulated(world: World) -> Iterator[Callable[[], None]]:
    """Within the context the engine runs on the machines of `world`.

    What it yields empties what modules of the engine keep for the time of a command; to be called before each schedule.
    """
    others: dict[int, Any] = {
        id(os): _os(world),
        id(sys.modules["io"]): (fake_io := _like(sys.modules["io"], open=world.files.open_file)),
        id(time): _like(
            time,
            time=lambda: world.now + world.process.machine.clock,
            monotonic=lambda: world.now + world.process.machine.since_boot,
            sleep=world.sleep,
        ),
        id(threading): _like(
            threading, Thread=partial(Thread, world), Event=partial(Event, world), current_thread=lambda: world.task
        ),
        id(socket): _like(socket, gethostname=lambda: world.process.machine.name),
        id(signal): _like(signal, pthread_sigmask=lambda *_: None),
        id(uuid): _like(uuid, uuid4=lambda: _Id(world.draw)),
    }
    modules = {name: module for name, module in sys.modules.items() if name.startswith("prepcli.")}
    with contextlib.ExitStack() as stack:
        stack.callback(sys.settrace, sys.gettrace())
        sys.settrace(None)  # coverage follows threads, and is confused by greenlets
        replace = lambda module, name, value: stack.enter_context(patch.object(module, name, value))  # noqa: E731
        made: dict[int, Any] = {}
        for module in (*modules.values(), *_PYTHONS_OWN):
            for name, value in list(vars(module).items()):
                if id(value) in others:
                    replace(module, name, others[id(value)])
                elif hasattr(value, "cache_info") and value.__module__.startswith(_ENGINE):
                    replace(module, name, made.setdefault(id(value), _per_machine(world, value)))
        for module in modules.values():
            if hasattr(module, "WorkerPool"):
                replace(module, "WorkerPool", _Pool)
            if module.__name__.startswith(_ENGINE) and isinstance(getattr(module, "_Worker", None), type):
                replace(module, "_Worker", _PerProcess(world, module.__name__))
            if hasattr(module, "worker_context"):
                replace(module, "worker_context", _Context)
            for name in ("begin_worker", "keep_freed_memory"):
                if hasattr(module, name):
                    replace(module, name, lambda: None)
        replace(tempfile, "_io", fake_io)
        replace(tempfile, "_name_sequence", _Names(world))
        replace(shutil, "_use_fd_functions", False)
        kept = [
            value
            for name, module in modules.items()
            if name.startswith(_ENGINE)
            for own, value in vars(module).items()
            if own.startswith("_") and not own.startswith("__") and isinstance(value, dict | set | list) and not value
        ]

        def forget() -> None:
            for one in kept:
                one.clear()

        yield forget
        forget()
