"""Ways to kill a run, and what must hold afterwards: the same bytes as an undisturbed run, whoever continues it."""

import fnmatch
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from prepcli.engine.state.workspace import Workspace
from tests.conftest import read_lines, tree
from tests.support.running import HANG_SECONDS, Process, prepcli, start_prepcli

Victim = Callable[[Process, random.Random], None]
Environ = dict[str, str] | None


ATTEMPTS = 20
"""Tries of what a process on a busy machine may come too late for."""


@dataclass(frozen=True)
class Case:
    """A command whose run is disturbed: its options, and what an undisturbed run gives."""

    command: str
    manifest: object
    options: tuple[object, ...]
    num_units: int
    num_rejects: int
    undisturbed: dict[str, str] = field(default_factory=dict)
    units: str = "shard_*"
    verified: bool = True
    module: str = "prepcli"
    out_option: str | None = None
    records: str = ""
    """Folder below OUT.prepcli of a run that adds to OUT."""
    place: Path | None = None
    """OUT of all runs, if the output holds its own path."""
    is_job: bool = True
    """The run has units, rejects, and a status."""

    def arguments(self, out: Path) -> list[object]:
        where = [self.out_option, out] if self.out_option else [out]
        return [*self.command.split(), self.manifest, *where, *self.options, "--num-workers", 2]

    def start(self, out: Path, *more: object, environ: Environ = None) -> Process:
        return start_prepcli(*self.arguments(out), *more, module=self.module, environ=environ)

    def workspace(self, out: Path) -> Path:
        return out.with_name(out.name + ".prepcli") / self.records

    def state(self, out: Path) -> Workspace:
        """The state of the run now."""
        return Workspace(out, self.workspace(out))

    def progress(self, out: Path) -> int:
        """How far a run is, in steps that only grow: its units that are done; -1 before its folder is there."""
        state = self.state(out)
        units = [path.parent.name for path in state.marker_files()]
        return len(fnmatch.filter(units, self.units)) if units or state.tmp.exists() else -1

    def rejects(self, out: Path) -> int:
        return len(read_lines(self.workspace(out) / "rejects.jsonl")) if self.is_job else 0

    def status(self, out: Path) -> dict[str, Any]:
        return prepcli("status", out, "--json").json

    def tree(self, out: Path) -> dict[str, str]:
        """The files of OUT; the mirror of indexes in it is named after the place of OUT."""
        return {name.replace(f"index{out.resolve()}/", "index/OUT/", 1): digest for name, digest in tree(out).items()}

    def half(self, out: Path) -> list[str]:
        """What stands under a final name and is not the undisturbed file."""
        return [name for name, digest in self.tree(out).items() if self.undisturbed.get(name) != digest]

    def new_place(self, folder: Path) -> Path:
        """OUT of a new run."""
        out = self.place or folder / "out"
        remove(out)
        return out


AnyCase = TypeVar("AnyCase", bound=Case)


def remove(out: Path) -> None:
    """Remove an output, which may be a file, and its workspace."""
    out.unlink() if out.is_file() else shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(out.with_name(out.name + ".prepcli"), ignore_errors=True)


def undisturbed(case: AnyCase, folder: Path) -> AnyCase:
    """The case, after one whole run in `folder`."""
    out = case.place or folder / "out"
    end(case.start(out))
    assert case.rejects(out) == case.num_rejects
    if case.verified:
        checked = prepcli("verify", out)
        assert checked.code == 0, checked.out
    return replace(case, undisturbed=case.tree(out))


def end(process: Process, *codes: int) -> str:
    """Wait for a process, which must succeed, or end with one of these codes; returns what it says on stderr."""
    _, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode in (codes or (0,)), err
    return err


def wait_for(case: Case, out: Path, steps: int, process: Process) -> None:
    """Until a run is so far, or the process has ended."""
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline and process.poll() is None and case.progress(out) < steps:
        time.sleep(0.002)


def children(pid: int) -> list[int]:
    """The processes that a process has started; of one that has ended, none."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def kill_main(process: Process, draw: random.Random) -> None:
    process.kill()


def kill_a_worker(process: Process, draw: random.Random) -> None:
    workers = children(process.pid)
    if workers:
        os.kill(draw.choice(workers), signal.SIGKILL)


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie that nobody collects counts as ended)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not all(map(gone, pids)):
        assert time.monotonic() < deadline, "processes outlive their parent"
        time.sleep(0.05)


def stop_amid(case: Case, out: Path, number: signal.Signals, steps: int) -> bool:
    """Stop a run at work; False if all was done when the signal came, as on a busy machine."""
    process = case.start(out, "--json")
    wait_for(case, out, steps, process)
    process.send_signal(number)
    stdout, err = process.communicate(timeout=HANG_SECONDS)
    if process.returncode == 0:
        return False
    assert process.returncode == 4, err
    assert f"stopped by {number.name}" in err
    assert f"Continue with: prepcli {case.command}" in err
    assert "Traceback" not in err
    if not case.is_job:
        return True
    assert '"status":"incomplete"' in stdout
    left = list(case.state(out).tmp.glob("**/*"))
    assert left == [], f"{left}, {err}"
    status = case.status(out)
    assert status["state"] == "stopped"
    assert status["units_done"] > 0
    return bool(status["units_done"] < case.num_units)


def resume(case: Case, out: Path, world_size: int) -> None:
    """Continue with `world_size` ranks at once; the result must be the undisturbed one."""
    ranks = [["--rank", rank, "--world-size", world_size] if world_size > 1 else [] for rank in range(world_size)]
    for process in [case.start(out, *rank) for rank in ranks]:
        end(process)
    check(case, out)


def check(case: Case, out: Path) -> None:
    """The run is finished, and has left what the undisturbed one has."""
    assert case.tree(out) == case.undisturbed
    assert case.rejects(out) == case.num_rejects
    assert not case.is_job or case.status(out)["state"] == "finished"
