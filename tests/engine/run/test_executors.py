"""Units as tasks of an executor: errors, and what is sent to processes that inherit nothing."""

import functools
import os
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.ranks.progress import SharedCounter
from prepcli.engine.run.executors import do_in_executor
from prepcli.engine.run.unit import Advance, Execution, Process
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError, UsageError
from prepcli.interface.calls import called
from tests.engine.folder_runs import begun_workspace
from tests.engine.toy import ToyUnit


def make(workspace: Workspace, process: Process[ToyUnit], executor: Executor) -> list[str]:
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
