"""Ways to kill a run, and what must hold afterwards: the same bytes as an undisturbed run, whoever continues it."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import read_lines, tree
from tests.support.running import HANG_SECONDS, Process, prepcli, start_prepcli

Victim = Callable[[Process, random.Random], None]


ATTEMPTS = 20
"""Tries of what a process on a busy machine may come too late for."""


@dataclass(frozen=True)
class Case:
    """A command whose run is disturbed: its options, and what an undisturbed run gives."""

    command: str
    manifest: Path
    options: tuple[object, ...]
    num_shards: int
    num_rejects: int
    undisturbed: dict[str, str]
    units: str = "shard_*"
    verified: bool = True
    module: str = "prepcli"
    out_option: str | None = None
    records: str = ""
    """Folder below OUT.prepcli of a run that adds to OUT."""
    one_place: bool = False
    """The output holds its own path: only that of runs in the same place is the same."""

    def arguments(self, out: Path) -> list[object]:
        where = [self.out_option, out] if self.out_option else [out]
        return [self.command, self.manifest, *where, *self.options, "--num-workers", 2]

    def workspace(self, out: Path) -> Path:
        return workspace_of(out, self.records)

    @staticmethod
    def tree(out: Path) -> dict[str, str]:
        """The files of OUT; the mirror of indexes in it is named after the place of OUT."""
        return {name.replace(f"index{out.resolve()}/", "index/OUT/", 1): digest for name, digest in tree(out).items()}

    def start(self, out: Path, *more: object, is_cold: bool = False) -> Process:
        return start_prepcli(*self.arguments(out), *more, module=self.module, is_cold=is_cold)


def workspace_of(out: Path, records: str) -> Path:
    return out.with_name(out.name + ".prepcli") / records


def undisturbed_case(
    folder: Path,
    command: str,
    manifest: Path,
    options: tuple[object, ...],
    num_shards: int,
    num_rejects: int,
    **more: Any,
) -> Case:
    """The case, after one whole run in `folder`, in a new interpreter: it has another order of sets than all forks."""
    case = Case(command, manifest, options, num_shards, num_rejects, {}, **more)
    done = case.start(folder / "out", is_cold=True)
    _, err = done.communicate(timeout=HANG_SECONDS)
    assert done.returncode == 0, err
    return with_reference(case, folder / "out")


def with_reference(case: Case, out: Path) -> Case:
    """The case with the files of `out`, which `verify` has judged: who has the same files need not ask it again."""
    assert len(read_lines(case.workspace(out) / "rejects.jsonl")) == case.num_rejects
    if case.verified:
        checked = prepcli("verify", out)
        assert checked.code == 0, checked.out
    return replace(case, undisturbed=case.tree(out))


def wait_for_markers(out: Path, count: int, process: Process, units: str = "shard_*", records: str = "") -> None:
    """Until `count` units are published, or the process has ended."""
    done = workspace_of(out, records) / "done"
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if (count == 0 and done.exists()) or (done.exists() and len(list(done.glob(f"{units}.json"))) >= count):
            return
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


def stop_amid(case: Case, out: Path, number: signal.Signals) -> bool:
    """Stop a run after two units; False if all units were done when the signal came, as on a busy machine."""
    process = case.start(out, "--json")
    wait_for_markers(out, 2, process, case.units, case.records)
    process.send_signal(number)
    stdout, err = process.communicate(timeout=HANG_SECONDS)
    if process.returncode == 0:
        return False
    assert process.returncode == 4, err
    assert f"stopped by {number.name}" in err
    assert "Traceback" not in err
    assert '"status":"incomplete"' in stdout
    left = list((case.workspace(out) / "tmp").glob("**/*"))
    assert left == [], f"{left}, {err}"
    status = prepcli("status", out, "--json").json
    assert status["state"] == "stopped"
    assert status["units_done"] > 0
    return bool(status["units_done"] < case.num_shards)


def resume(case: Case, out: Path, world_size: int) -> None:
    """Continue with `world_size` ranks at once; the result must be the undisturbed one."""
    ranks = [["--rank", rank, "--world-size", world_size] if world_size > 1 else [] for rank in range(world_size)]
    processes = [case.start(out, *rank) for rank in ranks]
    for process in processes:
        _, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0, err
    assert case.tree(out) == case.undisturbed


def kill_one_of_a_launch(case: Case, out: Path, victim: Victim, markers: int, draw: random.Random) -> None:
    """Of three ranks of a launch one is disturbed for good; the others do its units, and finish."""
    launch = ("--world-size", 3, "--launch-id", "first")
    ranks = [case.start(out, "--rank", rank, *launch) for rank in range(3)]
    disturbed = draw.choice(ranks)
    wait_for_markers(out, markers, disturbed, case.units, case.records)
    victim(disturbed, draw)
    for process in ranks:
        _, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0 or process is disturbed, err
    assert case.tree(out) == case.undisturbed
    assert len(read_lines(case.workspace(out) / "rejects.jsonl")) == case.num_rejects
    assert prepcli("status", out, "--json").json["state"] == "finished"
    assert not (case.workspace(out) / "claims").exists()


class KillMatrix:
    """The tests of a module's fixture `case`; a subclass may name other moments.

    What is the same for all jobs is tried at more of them in `tests/commands/manifest_to_tarred/test_kill_matrix.py`.
    """

    kills: tuple[tuple[Victim, int, int], ...] = ((kill_main, 0, 1), (kill_a_worker, 3, 2), (kill_main, 8, 5))
    """Who is killed after how many units, and how many ranks continue."""
    world_sizes: tuple[int, ...] = (2,)
    """How many ranks continue where one of two was killed."""
    signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        parameters: dict[str, tuple[str, tuple[Any, ...]]] = {
            "test_kill_one_process": ("victim, markers, world_size", self.kills),
            "test_kill_one_of_two_ranks": ("world_size", self.world_sizes),
            "test_signals_end_the_run_in_good_order": ("number", self.signals),
        }
        name = metafunc.function.__name__
        if name in parameters:
            metafunc.parametrize(*parameters[name])

    def test_kill_one_process(
        self, case: Case, draw: random.Random, tmp_path: Path, victim: Victim, markers: int, world_size: int
    ) -> None:
        """Kill the main process or a worker after `markers` units; continue with `world_size` ranks."""
        out = tmp_path / "out"
        process = case.start(out)
        wait_for_markers(out, markers, process, case.units, case.records)
        time.sleep(draw.random() * 0.1)
        workers = children(process.pid)
        victim(process, draw)
        _, err = process.communicate(timeout=HANG_SECONDS)
        if victim is kill_a_worker and process.returncode != 0:
            assert process.returncode == 4
            assert "SIGKILL" in err
            assert f"Continue with: prepcli {case.command}" in err
        wait_until_gone(workers)
        half = {name: digest for name, digest in case.tree(out).items() if case.undisturbed.get(name) != digest}
        assert half == {}  # nothing half under a final name
        resume(case, out, world_size)
        assert len(read_lines(case.workspace(out) / "rejects.jsonl")) == case.num_rejects

    def test_kill_one_of_two_ranks(self, case: Case, draw: random.Random, tmp_path: Path, world_size: int) -> None:
        """Of two ranks one is killed, the other goes on; then `world_size` ranks continue."""
        out = tmp_path / "out"
        ranks = [case.start(out, "--rank", rank, "--world-size", 2) for rank in range(2)]
        wait_for_markers(out, draw.randrange(case.num_shards // 2), ranks[0], case.units, case.records)
        ranks[1].kill()
        for process in ranks:
            process.communicate(timeout=HANG_SECONDS)
        assert ranks[0].returncode == 0
        resume(case, out, world_size)

    def test_signals_end_the_run_in_good_order(self, case: Case, tmp_path: Path, number: signal.Signals) -> None:
        """A signal ends the run with exit code 4, tidily, and the same command continues it."""
        out = tmp_path / "out"
        for _ in range(ATTEMPTS):
            if stop_amid(case, out, number):
                break
            for folder in (out, out.with_name("out.prepcli")):
                shutil.rmtree(folder, ignore_errors=True)
        else:
            raise AssertionError(f"{ATTEMPTS} times all units were done before the signal")
        resume(case, out, 1)
