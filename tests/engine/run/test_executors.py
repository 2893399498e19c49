"""Units as tasks of an executor: errors, and what is sent to processes that inherit nothing."""

import contextlib
import errno
import functools
import hashlib
import os
import signal
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

import pytest

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.ranks.progress import SharedCounter
from prepcli.engine.run.engines import engine_named
from prepcli.engine.run.executors import do_in_executor
from prepcli.engine.run.unit import Advance, Execution, Process
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import IncompleteError, UsageError, arguments_named_by, option
from prepcli.interface.calls import called, keep_for_caller
from prepcli.interface.shared_options import UnitExecutor
from prepcli.processes.notes import note
from prepcli.version import __version__
from tests.engine.folder_runs import begun_workspace
from tests.engine.toy import ToyUnit
from tests.support.tools import need_package


def make(workspace: Workspace, process: Process[ToyUnit], executor: UnitExecutor) -> list[str]:
    """The ids of the units that an executor has made of three."""
    units = [ToyUnit(f"unit_{number:03d}", 1.0, 0, number) for number in range(3)]
    execution = Execution(workspace, "digest", 1, SharedCounter(), lambda: None)
    with called([], progress=False, command="toy"):
        return sorted(marker.unit for marker in do_in_executor(executor, process, units, execution))


def refuse(unit: ToyUnit, writer: UnitWriter, advance: Advance) -> None:
    raise UsageError(f"{unit.id} cannot be made")


def die(unit: ToyUnit, writer: UnitWriter, advance: Advance) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_error_of_the_work_passes_through(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1) as pool, pytest.raises(UsageError, match="unit_000 cannot be made"):
        make(begun_workspace(tmp_path / "out"), refuse, pool)


def test_an_engine_that_gives_up(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1) as pool, pytest.raises(IncompleteError, match="the engine has given up on unit unit_"):
        make(begun_workspace(tmp_path / "out"), die, pool)


def run_out_of_space(unit: ToyUnit, writer: UnitWriter, advance: Advance) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.slow
def test_an_error_of_the_machine_passes_through_ray(tmp_path: Path) -> None:
    need_package("ray")
    with engine_named("ray", 1)() as executor, pytest.raises(OSError, match="No space left on device") as raised:
        make(begun_workspace(tmp_path / "out"), run_out_of_space, executor)
    assert raised.value.errno == errno.ENOSPC


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_that_is_shut_down(kind: Callable[[int], Executor], tmp_path: Path) -> None:
    pool = kind(1)
    pool.shutdown()
    with pytest.raises(UsageError, match="the executor takes no tasks"):
        make(begun_workspace(tmp_path / "out"), refuse, pool)


def wait_for_file(folder: Path, unit: ToyUnit, writer: UnitWriter, advance: Advance) -> None:
    (folder / unit.id).touch()
    while unit.number and not (folder / "go").exists():
        time.sleep(0.01)


def test_a_run_that_has_ended_publishes_nothing_more(tmp_path: Path) -> None:
    """It may have withdrawn the units without audio, for the next run to make."""
    workspace = begun_workspace(tmp_path / "out")
    units = [ToyUnit(f"unit_{number:03d}", 1.0, 0, number) for number in range(3)]
    execution = Execution(workspace, "digest", 1, SharedCounter(), lambda: None)
    with ProcessPoolExecutor(1) as pool, called([], progress=False, command="toy"):
        with contextlib.closing(do_in_executor(pool, partial(wait_for_file, tmp_path), units, execution)) as markers:
            assert next(markers).unit == "unit_000"
            while not (tmp_path / "unit_001").exists():
                time.sleep(0.01)
        (tmp_path / "go").touch()
    assert [workspace.marker_file(unit.id).exists() for unit in units] == [True, False, False]
    assert list(workspace.tmp.iterdir()) == []


def name_an_option(unit: ToyUnit, writer: UnitWriter, advance: Advance) -> None:
    raise UsageError(f"without {option('--raw')}")


@pytest.mark.slow
def test_workers_name_options_as_the_caller_does(tmp_path: Path) -> None:
    """In messages, and in rejects, which are bytes of the output."""
    naming = arguments_named_by(named_as_argument)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, naming, pytest.raises(UsageError, match="without raw"):
        make(begun_workspace(tmp_path / "out"), name_an_option, pool)


def named_as_argument(name: str, value: object) -> str:
    return name.removeprefix("--")


class OtherVersion(ThreadPoolExecutor):
    """Sends the work to workers as a driver of another version does."""

    digest = ""

    def submit(self, function: Any, /, *arguments: Any, **none: Any) -> Any:
        path, _, unit = arguments
        if not self.digest:
            data = b"prepcli 0.3.0" + Path(path).read_bytes().removeprefix(f"prepcli {__version__}".encode())
            Path(path).write_bytes(data)
            self.digest = hashlib.sha256(data).hexdigest()
        return super().submit(function, path, self.digest, unit)


def test_a_worker_of_another_version(tmp_path: Path) -> None:
    with OtherVersion(1) as pool, pytest.raises(UsageError, match=r"a worker has .*, and the driver prepcli 0\.3\.0"):
        make(begun_workspace(tmp_path / "out"), run_out_of_space, pool)


def note_and_fail(fails: bool, unit: ToyUnit, writer: UnitWriter, advance: Advance) -> None:
    if fails:
        note("of an earlier call")
        raise UsageError("it fails")


def test_notes_of_an_earlier_call(tmp_path: Path) -> None:
    workspace = begun_workspace(tmp_path / "out")
    with ProcessPoolExecutor(1) as pool:
        with pytest.raises(UsageError, match="it fails"):
            make(workspace, partial(note_and_fail, True), pool)
        for unit in make(workspace, partial(note_and_fail, False), pool):
            document = read_document(workspace.marker_file(unit), Marker)
            assert document is not None
            assert document.notes == []


def write(
    file: IO[bytes], cached: Callable[[], str], executor: Any, unit: ToyUnit, writer: UnitWriter, advance: Advance
) -> None:
    assert executor is None
    data = os.pread(file.fileno(), 100, 0)
    writer.open(f"{unit.id}.txt").write(data + cached().encode())


def test_open_files_and_caches_are_sent_and_the_executor_is_not(tmp_path: Path) -> None:
    """A file without a name is what forked workers inherit."""

    @functools.cache
    def cached() -> str:
        return " cached"

    workspace = begun_workspace(tmp_path / "out")
    (tmp_path / "named").write_bytes(b"named")
    with tempfile.TemporaryFile() as nameless, (tmp_path / "named").open("rb") as named:
        nameless.write(b"nameless")
        nameless.flush()
        for file, content in ((nameless, b"nameless cached"), (named, b"named cached")):
            with ProcessPoolExecutor(1) as pool:
                made = make(workspace, partial(write, file, cached, pool), pool)
            assert made == ["unit_000", "unit_001", "unit_002"]
            for unit in made:
                folder = workspace.unit_folder(unit)
                assert (folder / f"files/{unit}.txt").read_bytes() == content
                (folder / "unit.json").unlink()
                (folder / f"files/{unit}.txt").unlink()
    assert list(workspace.tmp.iterdir()) == []


def _noted(log: Path) -> Callable[[], object]:
    def undo() -> None:
        with log.open("a") as file:
            file.write("undone ")

    with log.open("a") as file:
        file.write("kept ")
    return undo


def keep(log: Path, unit: ToyUnit, writer: UnitWriter, advance: Advance) -> None:
    keep_for_caller(_noted, log)


def test_a_worker_keeps_states_for_all_units_of_a_run(tmp_path: Path) -> None:
    """Such as the table of a large archive. A thread of the driver keeps nothing for a later call."""
    with ProcessPoolExecutor(1) as pool:
        for name in ("a", "b"):
            make(begun_workspace(tmp_path / name), partial(keep, tmp_path / f"{name}.log"), pool)
    assert (tmp_path / "a.log").read_text() == "kept undone "
    assert (tmp_path / "b.log").read_text() == "kept "
    with ThreadPoolExecutor(1) as threads:
        make(begun_workspace(tmp_path / "c"), partial(keep, tmp_path / "c.log"), threads)
    assert (tmp_path / "c.log").read_text() == "kept undone " * 3
