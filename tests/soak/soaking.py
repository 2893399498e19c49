"""One run after the other, each killed at a random moment and continued by other ranks, until the tree is complete."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import read_lines
from tests.jobs.killing import Case, children, gone, remove, wait_for
from tests.support.running import HANG_SECONDS, Process

MAX_KILLS = 4
"""Maximum number of kills per output directory before its run is completed."""
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
KINDS = ("SIGKILL", "SIGKILL to a worker", *(number.name for number in SIGNALS))
# What a process may leave behind that was stopped before its handlers were set, or while Python itself ended.
EARLY = {"SIGTERM": {-15}, "SIGUSR1": {-10}, "SIGINT": {-2, 1, 130}}


@dataclass
class Findings:
    """What was done, and everything that was not as it must be."""

    kills: Counter[str] = field(default_factory=Counter)
    """By kind; `too late` counts those whose victim had already ended."""
    trees: int = 0
    """Trees that were compared byte for byte."""
    faults: list[str] = field(default_factory=list)

    @property
    def num_kills(self) -> int:
        return self.kills.total() - self.kills["too late"]


def soak(case: Case, kills: int, folder: Path, draw: random.Random, tell: Callable[[str], object]) -> Findings:
    """Kill runs of `case` so often; each output directory is then finished, compared and removed."""
    findings = Findings()
    turn = 0
    while findings.num_kills < kills:
        out = case.place or folder / f"out_{turn}"
        if turn == 0:
            remove(out)
        started = time.monotonic()
        wanted = min(draw.randint(1, MAX_KILLS), kills - findings.num_kills)
        so_far = len(findings.faults)
        story = [_kill_once(case, out, draw, findings) for _ in range(wanted)]
        story.append(_finish(case, out, draw, findings))
        tell(f"{case.command}: {'; '.join(story)}: {time.monotonic() - started:.1f} s")
        if found := findings.faults[so_far:]:
            tell("\n".join([f"  kept: {out}", *(f"  FAULT {fault}" for fault in found)]))
            if case.place:
                break
        else:
            remove(out)
        turn += 1
    return findings


def _start(case: Case, out: Path, world_size: int) -> list[Process]:
    ranks = [("--rank", rank, "--world-size", world_size) if world_size > 1 else () for rank in range(world_size)]
    return [case.start(out, *rank) for rank in ranks]


def _kill_once(case: Case, out: Path, draw: random.Random, findings: Findings) -> str:
    """Start some ranks, kill one of them or a worker of it, and let the others end as they like."""
    unpacked = case.units != "batch_*" or (case.workspace(out) / "plan.json").exists()
    world_size = draw.choice([1, 1, 2, 3]) if unpacked else 1  # fetching is one process's work
    processes = _start(case, out, world_size)
    victim = draw.choice(processes)
    if draw.random() < 0.4:
        time.sleep(draw.random() * 3)  # at any moment: imports, plan, units, merge
    else:
        wait_for(case, out, draw.randrange(case.num_units), victim)
        time.sleep(draw.random() * 0.1)
    workers = [child for process in processes for child in children(process.pid)]
    kind = draw.choice(KINDS)
    if victim.poll() is not None or not _hit(victim, kind, draw):
        findings.kills["too late"] += 1
        kind = "too late"
    else:
        findings.kills[kind] += 1
    for process in processes:
        err = _end(process, findings)
        allowed = {0} | ({4} | EARLY.get(kind, set()) if process is victim and kind != "too late" else set())
        allowed |= {-9} if process is victim and kind == "SIGKILL" else set()
        if process.returncode not in allowed:
            findings.faults.append(f"{kind}: exit code {process.returncode}: {err[-1000:]}")
        if process.returncode == 4 and "Traceback" in err:
            findings.faults.append(f"{kind}: a traceback: {err[-2000:]}")
    if not _all_gone(workers):
        findings.faults.append(f"{kind}: workers outlive their parent")
    if half := case.half(out):
        findings.faults.append(f"{kind}: half written under a final name: {half}")
    done = case.progress(out)
    return f"{kind} of {world_size} with {done} of {case.num_units} units"


def _hit(victim: Process, kind: str, draw: random.Random) -> bool:
    """Whether there was somebody to kill."""
    if kind == "SIGKILL to a worker":
        workers = children(victim.pid)
        if not workers:
            return False
        try:
            os.kill(draw.choice(workers), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True
    victim.send_signal(signal.Signals[kind])
    return True


def _finish(case: Case, out: Path, draw: random.Random, findings: Findings) -> str:
    """Bring the run to its end with some number of ranks; tree and rejects must be those of the undisturbed run."""
    world_size = draw.choice([1, 2, 5])
    if case.units == "batch_*" and not (case.workspace(out) / "plan.json").exists():
        world_size = 1
    for process in _start(case, out, world_size):
        err = _end(process, findings)
        if process.returncode:
            findings.faults.append(f"{world_size} ranks to the end: exit code {process.returncode}: {err[-1000:]}")
    found, workspace = case.tree(out), case.workspace(out)
    if found != case.undisturbed:
        names = sorted({*found, *case.undisturbed})
        differ = [name for name in names if found.get(name) != case.undisturbed.get(name)]
        findings.faults.append(f"{len(differ)} files differ from the undisturbed run: {differ[:5]}")
    if not (workspace / "rejects.jsonl").exists():
        findings.faults.append("no rejects.jsonl")
    elif len(rejects := read_lines(workspace / "rejects.jsonl")) != case.num_rejects:
        findings.faults.append(f"{len(rejects)} rejects, not {case.num_rejects}")
    left = [path.name for path in (workspace / "tmp").iterdir()] if (workspace / "tmp").exists() else []
    if left:
        findings.faults.append(f"left in tmp: {left}")
    findings.trees += 1
    return f"finished by {world_size}"


def _end(process: Process, findings: Findings) -> str:
    """Wait for a process; returns what it said on stderr."""
    try:
        return str(process.communicate(timeout=HANG_SECONDS)[1])
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler then tells where all threads are
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=5)
        os.killpg(process.pid, signal.SIGKILL)
        err = str(process.communicate()[1])
        findings.faults.append(f"hangs: {process.args!r}: {err[-6000:]}")
        return err


def _all_gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        if all(map(gone, pids)):
            return True
        time.sleep(0.05)
    return False
