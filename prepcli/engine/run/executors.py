"""Makes units as tasks of an executor: of a process pool, MPI, Dask, Ray or any other `concurrent.futures.Executor`.

The engine of others starts, places and repeats tasks. It makes nothing exact: a unit is published whole by the worker
that has made it, and this process, which reads the documents of the units, commits. Workers need the same paths as this
process, and the same version of prepcli.
"""

import contextlib
import functools
import hashlib
import importlib.util
import io
import os
import pickle
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.ranks.drafts import TASKS
from prepcli.engine.ranks.progress import SharedCounter
from prepcli.engine.run.unit import Advance, Execution, Process, do_unit_here
from prepcli.engine.state.plan import Unit, UnitT
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import (
    IncompleteError,
    PrepcliError,
    UsageError,
    arguments_named_by,
    naming_of_arguments,
    option,
    same_command,
)
from prepcli.interface.calls import Call, current_call, resumed
from prepcli.interface.shared_options import UnitExecutor
from prepcli.processes.notes import take_notes
from prepcli.processes.workers import wait_for_any
from prepcli.version import __version__

_ENGINES = ("distributed", "dask", "ray", "concurrent", "mpi4py")
"""Packages whose exceptions say that the engine has failed, and not the work."""

_VERSION = f"prepcli {__version__}, Python {sys.version_info[0]}.{sys.version_info[1]}\n".encode()
"""The versions that the driver and the workers must have in common; the first line of the work that is sent."""


_stored_by: dict[str, int] = {}
"""The process that has stored a work, by its path: threads of the driver may be workers, and keep nothing for later."""


class _Work(NamedTuple):
    """The work that is the same for all units, and its surroundings: the folder, the call, and the workspace."""

    process: Process[Any]
    workspace: Workspace
    digest: str
    writers: type[UnitWriter]
    words: Sequence[str]
    command: str
    folder: str
    argument: Callable[[str, object], str] | None


def do_in_executor(
    executor: UnitExecutor, process: Process[UnitT], units: Sequence[UnitT], execution: Execution
) -> Generator[Marker, None, None]:
    """Make `units` (longest first) as tasks of `executor`, and yield the marker of each when it is published.

    The work is stored once, and each worker reads it once. If the iteration ends early, tasks that have not begun are
    cancelled; a unit that a worker still makes is not published.

    Raises:
        IncompleteError: the engine has given up on a unit.
        Exception: the exception that `process` raised.
    """
    call = current_call()
    where = (execution.workspace, execution.digest, execution.writers)
    work = _Work(process, *where, call.words, call.command, os.getcwd(), naming_of_arguments())
    with _stored(work) as (path, digest):
        pending: dict[Any, UnitT] = {}
        try:
            for unit in units:
                pending[_submitted(executor, path, digest, unit)] = unit
            while pending:
                done = wait_for_any(pending)
                execution.tick()
                for future in sorted(done, key=lambda one: pending[one].id):  # the first error is raised
                    unit = pending.pop(future)
                    marker = _result(future, unit)
                    execution.advance(unit.num_records, unit.cost)
                    if marker is not None:
                        yield marker
        finally:
            for future in pending:
                future.cancel()


@contextlib.contextmanager
def _stored(work: _Work) -> Iterator[tuple[str, str]]:
    """Write the work to a file for the workers; its path and digest are valid within the context."""
    folder = work.workspace.make_tmp(TASKS).absolute()
    try:
        data = _VERSION + _pickled(work, folder)
        with (folder / "work.pickle").open("wb") as file:
            file.write(data)
        _stored_by[file.name] = os.getpid()  # a worker may be a fork
        yield file.name, hashlib.sha256(data).hexdigest()
    finally:
        _stored_by.pop(str(folder / "work.pickle"), None)
        shutil.rmtree(folder, ignore_errors=True)


def _pickled(work: _Work, folder: Path) -> bytes:
    """The work as bytes; open files without a name, which forked workers would inherit, are copied into `folder`."""
    if importlib.util.find_spec("cloudpickle") is None:
        raise UsageError("an executor needs cloudpickle, which is not installed: pip install cloudpickle")
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, part: Any) -> str | None:
            return "executor" if isinstance(part, UnitExecutor) else None  # options may hold it

        def reducer_override(self, part: Any) -> Any:
            if isinstance(part, (io.BufferedReader, io.BufferedRandom, io.FileIO)):
                return open, (_named(part, folder), "rb", 0 if isinstance(part, io.FileIO) else -1)
            if isinstance(part, msgspec.json.Encoder):
                return _encoder, (part.enc_hook, part.order)
            if isinstance(part, msgspec.json.Decoder):
                return _decoder, (part.type, part.strict, part.dec_hook)
            if (
                hasattr(part, "cache_parameters")
                and vars(sys.modules[part.__module__]).get(part.__qualname__) is not part
            ):
                return _with_cache, (part.__wrapped__, part.cache_parameters()["maxsize"])
            return super().reducer_override(part)

    written = io.BytesIO()
    try:
        Pickler(written).dump(work)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{work.command} cannot be sent to other processes with these options ({error}): leave out "
            f"{option('--engine')}"
        ) from None
    return written.getvalue()


def _named(file: io.BufferedReader | io.BufferedRandom | io.FileIO, folder: Path) -> str:
    """The path of an open file, or of a copy if it has none."""
    if isinstance(file.name, str):
        return os.path.abspath(file.name)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as copy, os.fdopen(os.dup(file.fileno()), "rb") as whole:
        whole.seek(0)
        shutil.copyfileobj(whole, copy)
    return copy.name


def _encoder(hook: Callable[[Any], Any] | None, order: Literal["deterministic", "sorted"] | None) -> Any:
    return msgspec.json.Encoder(enc_hook=hook, order=order)


def _decoder(kind: Any, strict: bool, hook: Callable[[type, Any], Any] | None) -> Any:
    return msgspec.json.Decoder(kind, strict=strict, dec_hook=hook)


def _with_cache(function: Callable[..., Any], size: int | None) -> Callable[..., Any]:
    return functools.lru_cache(size)(function)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, _: Any) -> None:
        """No unit needs the executor."""


def _submitted(executor: UnitExecutor, path: str, digest: str, unit: Unit) -> Any:
    """The future of a unit.

    Raises:
        UsageError: the executor takes no tasks.
    """
    try:
        return executor.submit(_do_unit, path, digest, unit)
    except RuntimeError as error:  # shut down, or broken
        raise UsageError(f"the executor takes no tasks ({error}): give one that is open") from error


def _result(future: Any, unit: Unit) -> Marker | None:
    try:
        return future.result()  # type: ignore[no-any-return]
    except PrepcliError:
        raise
    except Exception as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception):  # Ray wraps that of the work
            raise cause from None
        if type(error).__module__.partition(".")[0] not in _ENGINES:
            raise
        raise IncompleteError(
            f"the engine has given up on unit {unit.id}: {error}; run {same_command()} without {option('--engine')} to "
            "find the cause"
        ) from error


@contextlib.contextmanager
def _at(work: _Work) -> Iterator[None]:
    """Within the context, the folder, the call, and the names of options in messages and rejects are the driver's."""
    before = os.getcwd()
    os.chdir(work.folder)
    try:
        with arguments_named_by(work.argument), resumed(_Loaded.call):
            yield
    finally:
        if _stored_by.get(_Loaded.path) == os.getpid():
            _Loaded.call.end()
        take_notes()  # of a unit that could not be made: the next one may be of another run
        os.chdir(before)


class _Loaded:
    """The work that this worker process has read last, and the lock with which its threads make a unit each in turn."""

    path = ""
    work: _Work
    call = Call((), progress=False)
    """The call that the work belongs to: what it keeps for its units, such as tables of containers, lasts as long."""
    lock = threading.Lock()


def _do_unit(path: str, digest: str, unit: Unit) -> Marker | None:
    """Make a unit in a worker of the engine; None if another worker does it, or has done it."""
    with _Loaded.lock:
        if _Loaded.path != path:
            data = Path(path).read_bytes()
            if hashlib.sha256(data).hexdigest() != digest:
                raise PrepcliError(f"{path} is not what the driver has written")
            if not data.startswith(_VERSION):
                own, drivers = (line.partition(b"\n")[0].decode() for line in (_VERSION, data))
                raise UsageError(f"a worker has {own}, and the driver {drivers}: install the same in both")
            _Loaded.call.end()
            _Loaded.work, _Loaded.path = _Unpickler(io.BytesIO(data[len(_VERSION) :])).load(), path
            _Loaded.call = Call(_Loaded.work.words, progress=False, command=_Loaded.work.command)
        work = _Loaded.work
        execution = Execution(work.workspace, work.digest, 1, SharedCounter(), lambda: None, writers=work.writers)
        with _at(work):
            return do_unit_here(partial(_while_running, work.process, path), unit, execution)


def _while_running(process: Process[Any], path: str, unit: Unit, writer: UnitWriter, advance: Advance) -> None:
    """Write the files of a unit that is published only if the run, which has stored the work at `path`, goes on.

    An ended run may have withdrawn units, and engines let a task that has begun go on.
    """
    _check_running(path)
    process(unit, writer, advance)
    _check_running(path)


def _check_running(path: str) -> None:
    try:
        with open(path, "rb"):  # noqa: PTH123 - on NFS only opening a file shows that it was removed
            return
    except FileNotFoundError:
        raise IncompleteError("the run has ended") from None
