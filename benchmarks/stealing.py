"""How much later a job ends than it could, when ranks are uneven: eight, of which one is slow and one is killed.

    python benchmarks/stealing.py                # about a minute
    PYTHONPATH=CHECKOUT python benchmarks/stealing.py    # with the prepcli of another commit
    python benchmarks/stealing.py --no-steal     # for comparison: units are left over

Units only wait: a second each, on average. Rank 1 needs four times as long, and rank 0 is killed at a third of an even
share. The ideal is what the ranks that live could do together, each at its own speed, if work could be divided at will.
Work that is done twice is counted in units that were begun and in units that were done, beyond one each; the unit that
the killed rank had in hand is not counted.
"""

import argparse
import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.job import Job, RunOptions
from prepcli.engine.run.run import run_job
from prepcli.engine.run.unit import Advance, Execution, do_in_workers
from prepcli.engine.state.plan import Plan, Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.processes.ranks import Rank

RANKS = 8
SLOW, FACTOR = 1, 4.0
KILLED = 0


class Waiting(Job[Unit, None]):
    """Each unit waits for `factor` times its cost in seconds."""

    command = "waiting"
    reads_audio_files = False
    ranks_help = True

    def __init__(self, num_units: int, factor: float, log: Path | None = None) -> None:
        """`log`: a folder with an empty file for each unit that was begun or done, as often as that happened."""
        self.num_units = num_units
        self.factor = factor
        self.log = log

    def output_patterns(self, plan: Plan[Unit, None]) -> Sequence[str]:
        return ("unit_*",)

    def settings(self, plan: Plan[Unit, None]) -> dict[str, Any]:
        return {}

    def plan(self, workspace: Workspace) -> Plan[Unit, None]:
        draw = random.Random(0)
        units = [Unit(f"unit_{n:04d}", draw.uniform(0.5, 1.5), 1) for n in range(self.num_units)]
        return Plan(units, records_in=self.num_units, contents=None)

    def execute(self, plan: Plan[Unit, None], units: Sequence[Unit], execution: Execution) -> Iterator[Marker]:
        return do_in_workers(partial(self.process, plan), units, execution)

    def process(self, plan: Plan[Unit, None], unit: Unit, writer: UnitWriter, advance: Advance) -> None:
        self._note("begun", unit)
        time.sleep(unit.cost * self.factor)
        self._note("done", unit)
        writer.open(unit.id).write(b"done")
        writer.count(1, unit.cost)

    def _note(self, what: str, unit: Unit) -> None:
        if self.log is not None:
            (self.log / f"{what}.{unit.id}.{time.monotonic_ns()}").touch()


def rank(out: Path, number: int, num_units: int, steal: bool) -> None:
    job = Waiting(num_units, FACTOR if number == SLOW else 1.0, out.parent / "log")
    run_job(job, Workspace(out), RunOptions(rank=Rank(number, RANKS, launch_id="bench"), steal=steal))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=320)
    parser.add_argument("--no-steal", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prepcli-stealing-") as name:
        out, log = Path(name) / "out", Path(name) / "log"
        log.mkdir()
        total = Waiting(arguments.units, 1.0).plan(Workspace(out)).total_cost
        started = time.monotonic()
        processes = [
            multiprocessing.get_context("fork").Process(
                target=rank, args=(out, number, arguments.units, not arguments.no_steal)
            )
            for number in range(RANKS)
        ]
        for process in processes:
            process.start()
        time.sleep(total / RANKS / 3)
        processes[KILLED].kill()
        killed = time.monotonic() - started
        for process in processes:
            process.join()
        seconds = time.monotonic() - started
        ideal = (total - killed) / (RANKS - 2 + 1 / FACTOR)
        done = len(list(out.glob("unit_*")))
        begun, made = (len(list(log.glob(f"{what}.*"))) for what in ("begun", "done"))
    print(
        f"{done} of {arguments.units} units, {seconds:.1f} s; ideal {ideal:.1f} s ({seconds / ideal:.2f} x); "
        f"begun again: {begun - 1 - done}, done again: {made - done} ({(made - done) / arguments.units:.1%})"
    )


if __name__ == "__main__":
    main()
