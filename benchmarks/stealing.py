"""How much later a job ends than it could, when ranks are uneven: eight, of which one is slow and one is killed.

    python benchmarks/stealing.py                # about a minute
    python benchmarks/stealing.py --no-steal     # for comparison: units are left over

Units only wait: a second each, on average. Rank 1 needs four times as long, and rank 0 is killed at a third of an even
share. The ideal is what the ranks that live could do together, each at its own speed, if work could be divided at will.
"""

import argparse
import multiprocessing
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.run.job import RunOptions, UnitJob
from prepcli.engine.run.run import run_job
from prepcli.engine.run.unit import Advance
from prepcli.engine.state.plan import Plan, Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.processes.ranks import Rank

RANKS = 8
SLOW, FACTOR = 1, 4.0
KILLED = 0


class Waiting(UnitJob[Unit, None]):
    """Each unit waits for `factor` times its cost in seconds."""

    command = "waiting"
    reads_audio_files = False

    def __init__(self, num_units: int, factor: float) -> None:
        self.num_units = num_units
        self.factor = factor

    def output_patterns(self, plan: Plan[Unit, None]) -> Sequence[str]:
        return ("unit_*",)

    def settings(self, plan: Plan[Unit, None]) -> dict[str, Any]:
        return {}

    def plan(self, workspace: Workspace) -> Plan[Unit, None]:
        draw = random.Random(0)
        units = [Unit(f"unit_{n:04d}", draw.uniform(0.5, 1.5), 1) for n in range(self.num_units)]
        return Plan(units, records_in=self.num_units, contents=None)

    def process(self, plan: Plan[Unit, None], unit: Unit, writer: UnitWriter, advance: Advance) -> None:
        time.sleep(unit.cost * self.factor)
        writer.open(unit.id).write(b"done")
        writer.count(1, unit.cost)


def rank(out: Path, number: int, num_units: int, steal: bool) -> None:
    job = Waiting(num_units, FACTOR if number == SLOW else 1.0)
    run_job(job, Workspace(out), RunOptions(rank=Rank(number, RANKS, launch_id="bench"), steal=steal))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=320)
    parser.add_argument("--no-steal", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prepcli-stealing-") as name:
        out = Path(name) / "out"
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
    print(f"{done} of {arguments.units} units, {seconds:.1f} s; ideal {ideal:.1f} s ({seconds / ideal:.2f} x)")


if __name__ == "__main__":
    main()
