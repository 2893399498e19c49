"""Schedules: ranks meet in an order that a seed decides, some are killed or stopped, and the promises are checked.

    python -m tests.faults.schedules --count 100000 --first 1    # prints the seeds that fail
    python -m tests.faults.schedules --seed 4711                 # repeats one of them

What is checked is what users are promised, through the beginning, the claims, the publishing and the finish of a run:
not by which files ranks tell each other what.
"""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError, PrepcliError, UsageError
from prepcli.interface.calls import called
from prepcli.processes.ranks import Rank
from tests.faults.machines import Machine, Node
from tests.faults.ranks import PAUSE, Process, World
from tests.faults.seam import simulated
from tests.faults.toy import RECORDS, Toy, ToyJob

OUT = Path("/sim/out")
USERS = {"/sim/out/notes.txt": b"mine", "/sim/out/more/list.json": b"{}", "/sim/beside.txt": b"also mine"}
DEAD_SECONDS = 130.0
"""Seconds that ranks wait for one that is dead: 90, and what a busy machine takes to see it."""
CLEAR_SECONDS = 3700.0
"""Seconds that ranks wait for one that is dead and was about to clear the output."""
BEGIN_SECONDS = 40.0
"""Seconds that a rank takes for all but waiting and the work of units."""
TOLD = 10_000
"""Schedules after which the soak mode says how many it has run."""


@dataclass(frozen=True)
class Launch:
    """Ranks that are started together; `name` None: without a launch id."""

    toy: Toy
    num_ranks: int
    name: str | None
    overwrite: bool = False
    retry: bool = False


class Schedule:
    """One schedule: `run` it, then `broken` says which promises were not kept."""

    def __init__(self, world: World, seed: int) -> None:
        world.reset(seed)
        self.world, self.seed, self.draw = world, seed, world.draw
        self.broken: list[str] = []
        self.processes: dict[Process, Launch] = {}
        self.toys: list[Toy] = []
        draw, files = self.draw, world.files
        world.latency = draw.choice((0.0005, 0.002, 0.01))
        world.mean_calls = draw.choice((1.0, 4.0, 15.0, 50.0))
        files.clock = draw.uniform(-3600, 3600)
        files.stale_seconds = draw.choice((0.0, 1.0))
        files.has_links = draw.random() < 0.8
        files.has_unnamed = draw.random() < 0.8
        files.appeared = self._appeared
        self.machines = [
            Machine(f"node{number}", draw.uniform(-3600, 3600), draw.uniform(0, 1e6))
            for number in range(draw.randint(1, 3))
        ]
        for path, content in USERS.items():
            files.write_users(path, content)

    def run(self) -> None:
        kind = self.draw.choice((self._continued, self._continued, self._without_id, self._retried, self._overwritten))
        try:
            last = kind()
            self._check_end(last)
        finally:
            self.world.end()

    # Kinds of schedules; each returns what the output must be of at the end.

    def _continued(self) -> Toy:
        toy = self._toy()
        num_ranks = min(self.draw.randint(2, 9), self.draw.randint(2, 9))  # few find most
        self._launch(Launch(toy, num_ranks, "first"), restart=True)
        self._go()
        if self.draw.random() < 0.4:
            self._launch(Launch(toy, self.draw.randint(1, 5), "second"), restart=True)
            self._go()
        return toy

    def _without_id(self) -> Toy:
        toy = self._toy()
        for _ in range(self.draw.randint(1, 2)):
            self._launch(Launch(toy, self.draw.randint(2, 5), None))
        self._go()
        return toy

    def _retried(self) -> Toy:
        toy = self._toy()
        toy = replace(toy, bad=toy.bad | {self.draw.randrange(RECORDS * toy.num_units)})
        self._launch(Launch(toy, self.draw.randint(1, 4), "first"))
        self._go()
        toy = replace(toy, bad=frozenset())
        self._launch(Launch(toy, self.draw.randint(1, 6), "second", retry=True), restart=True)
        self._go()
        self._repair(toy, retry=True)
        return toy

    def _overwritten(self) -> Toy:
        first = self._toy()
        second = first if self.draw.random() < 0.25 else replace(self._toy(), edition=1)
        self._launch(Launch(first, self.draw.randint(1, 5), "first"))
        if self.draw.random() < 0.3:
            self._go()
        later = self.draw.choice((0.0, 1.0, 30.0, 120.0))
        self._launch(Launch(second, self.draw.randint(1, 5), "second", overwrite=True), later)
        self._go()
        return second

    def _toy(self) -> Toy:
        draw = self.draw
        num_units = draw.randint(1, 5)
        records = range(RECORDS * num_units)
        bad = frozenset(record for record in records if draw.random() < 0.1) if draw.random() < 0.3 else frozenset()
        if draw.random() < 0.1:
            bad |= set(records[:RECORDS])  # a unit without a file
        return Toy(num_units, 0, bad, draw.choice((0.0, 0.0, 2.0, 40.0, 150.0)), draw.random() < 0.5)

    # Processes.

    def _launch(self, launch: Launch, later: float = 0.0, restart: bool = False) -> None:
        """Start the ranks of a launch, and decide what befalls them."""
        draw = self.draw
        self.toys.append(launch.toy)
        within = draw.choice((0.0, 0.1, 3.0, 60.0))
        faulty = draw.choice((0.0, 0.3, 0.3, 0.7, 1.0))
        for number in range(launch.num_ranks):
            process = self._start(launch, number, later + draw.uniform(0, within))
            if draw.random() < faulty:
                process.fault = draw.choice(("killed", "killed", "stopped", "paused"))
                process.fault_at = 1 + int(draw.choice((20, 100, 300)) * draw.random())
                if restart and process.fault == "killed" and draw.random() < 0.3:
                    self._start(launch, number, later + draw.uniform(0, 200), restarts=1)

    def _start(self, launch: Launch, number: int, begins: float, restarts: int = 0) -> Process:
        rank = Rank(number, launch.num_ranks, number, "test", launch.name, restarts, launch.name)
        options = RunOptions(
            rank=rank, overwrite=launch.overwrite, retry_rejects=launch.retry, budget=Budget(1000), steal=True
        )

        def run() -> Report:
            with called(["toy", "manifest.json", str(OUT)], progress=False):
                return run_job(ToyJob(launch.toy, OUT, self.world), Workspace(OUT), options)

        name = f"{launch.name}/{number}" + "r" * restarts
        process = self.world.start(name, self.draw.choice(self.machines), begins, run)
        self.processes[process] = launch
        return process

    def _go(self) -> None:
        """Let the processes run, and check how they have ended."""
        world = self.world
        began = world.now
        world.run()
        now = [process for process in world.processes if process.begins >= began]
        for process in now:
            self._check_process(process, now)
        world.processes.clear()

    # Checks.

    def _say(self, fault: str) -> None:
        self.broken.append(fault)

    def _appeared(self, path: str, node: Node) -> None:
        """Each file that appears in OUT is whole."""
        if path.startswith("/sim/out/") and not any(toy.files().get(path[9:]) == node.content for toy in self.toys):
            self._say(f"{path} appeared with the content {node.content!r}")

    def _check_process(self, process: Process, together: list[Process]) -> None:
        launch, error = self.processes[process], process.error
        if process.is_frozen:
            return
        if process.ended is None:
            self._say(f"{process.name} on {process.machine.name} waits for ever")
            return
        if error is not None and not self._is_allowed(process, error, together):
            self._say(f"{process.name} failed: {type(error).__name__}: {error}")
        clearing = any(self.processes[other].overwrite for other in together)
        if error is None:
            report: Report = process.result
            if report.status == "incomplete" and launch.name is not None and not clearing and launch.num_ranks > 1:
                self._say(f"{process.name} left units undone")
            if report.status in ("done", "nothing_to_do") and not clearing:
                self._check_counts(report, process.name, launch.toy)
        met = [other.met_fault for other in together if other.met_fault is not None and other is not process]
        last = max([process.begins, *met, *(other.begins for other in together)])
        allowed = BEGIN_SECONDS + DEAD_SECONDS * len(met) + 2 * sum(toy.num_units * toy.seconds for toy in self.toys)
        allowed += CLEAR_SECONDS * clearing * (1 + len(met)) + PAUSE * (process.met_fault is not None)
        if process.ended - last > allowed:
            self._say(f"{process.name} has ended {process.ended - last:.0f} s after the last fault")

    def _is_allowed(self, process: Process, error: BaseException, together: list[Process]) -> bool:
        """Whether a run may end with this error: only beside another command that starts again."""
        if not isinstance(error, PrepcliError) or "a bug in prepcli" in str(error):
            return False
        if any(self.processes[other].overwrite for other in together):
            said = ["another command has started again"]
            if not self.processes[process].overwrite:
                said.append("run the same command again to continue")
            return isinstance(error, (UsageError, IncompleteError)) or any(words in str(error) for words in said)
        return False

    def _check_counts(self, report: Report, name: str, toy: Toy) -> None:
        total, rejects = RECORDS * toy.num_units + 1, len(toy.rejects())
        if (report.records_in, report.records_out, report.rejects) != (total, total - rejects, rejects):
            self._say(f"{name} counts {report.records_out} of {report.records_in}, and {report.rejects} rejects")

    def _repair(self, toy: Toy, retry: bool = False) -> Process:
        """The same command again, when all others are long gone: it succeeds."""
        world = self.world
        for process in self.processes:
            process.machine.pids.discard(process.pid)
        world.now += 2 * 3600
        process = self._start(Launch(toy, 1, None, retry=retry), 0, 0.0)
        world.run()
        world.processes.clear()
        return process

    def _check_end(self, toy: Toy) -> None:
        world = self.world
        process = self._repair(toy)
        clears = any(launch.overwrite for launch in self.processes.values())
        if isinstance(process.error, UsageError) and "--overwrite" in str(process.error) and clears:
            process = self._start(Launch(toy, 1, None, overwrite=True), 0, 0.0)
            world.run()
        report = process.result
        if process.error is not None or report is None or report.status not in ("done", "nothing_to_do"):
            self._say(f"run again: {process.error or report or 'it waits for ever'}")
            return
        self._check_counts(report, "run again", toy)
        expected = toy.files() | {path[9:]: content for path, content in USERS.items() if path.startswith("/sim/out/")}
        found = world.files.tree("/sim/out")
        for name in sorted({*expected, *found}):
            if found.get(name) != expected.get(name):
                self._say(f"{name} is {found.get(name)!r}, not {expected.get(name)!r}")
        listed = world.files.tree("/sim/out.prepcli").get("rejects.jsonl", b"").splitlines()
        if [json.loads(line)["manifest_line"] for line in listed] != toy.rejects():
            self._say(f"rejects.jsonl lists {listed}")
        for path in world.files.harmed:
            self._say(f"{path} is the user's, and was changed")
        for path, content in USERS.items():
            with contextlib.suppress(FileNotFoundError):
                if world.files.find(path).content == content:
                    continue
            self._say(f"{path} is the user's, and is lost")


@contextlib.contextmanager
def scheduler() -> Iterator[Callable[[int], Schedule]]:
    """Yields what runs the schedule of a seed; it is to be looked at before the next one is run."""
    world = World()
    with simulated(world) as forget:

        def run(seed: int) -> Schedule:
            forget()
            schedule = Schedule(world, seed)
            schedule.run()
            return schedule

        yield run


def failing(first: int, count: int) -> dict[int, list[str]]:
    """The seeds of `count` schedules, from `first` on, that fail, with what each has found."""
    with scheduler() as run:
        return {seed: broken for seed in range(first, first + count) if (broken := run(seed).broken)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.count)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    started, failed = time.monotonic(), 0
    with scheduler() as run:
        for number, seed in enumerate(seeds, 1):
            if broken := run(seed).broken:
                failed += 1
                print(f"seed {seed}: " + "\n    ".join(broken), flush=True)
            if number % TOLD == 0:
                print(f"{number:,} schedules, {failed} failed", flush=True)
    seconds = time.monotonic() - started
    print(f"{len(seeds)} schedules, {failed} failed, {seconds:.0f} s ({1000 * seconds / len(seeds):.1f} ms each)")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
