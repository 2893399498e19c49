"""`python -m tests.soak --kills 200`: runs of all jobs, killed at random moments; exit code 1 for any difference.

    python -m tests.soak --kills 200                       # all jobs, about equally often
    python -m tests.soak --kills 50 --jobs tarred shar --seed 7

A directory in which something went wrong is kept, and named.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.soak.cases import JOBS, MAKERS
from tests.soak.soaking import KINDS, Findings, soak


def run(kills: int, jobs: list[str], seed: int, folder: Path) -> dict[str, Findings]:
    """So many kills in all, shared by the jobs; prints what happens. Jobs that cannot run here are left out."""
    found: dict[str, Findings] = {}
    for number, job in enumerate(jobs):
        share = kills * (number + 1) // len(jobs) - kills * number // len(jobs)
        own = folder / job
        own.mkdir()
        try:
            found[job] = soak(MAKERS[job](own), share, own, random.Random(f"{seed} {job}"), _tell)
        except pytest.skip.Exception as skipped:
            _tell(f"{job} is left out: {skipped}")
    return found


def _tell(line: str) -> None:
    print(line, flush=True)


def _print_table(found: dict[str, Findings], seconds: float) -> None:
    kinds = (*KINDS, "too late")
    print(f"\n{'job':<20}" + "".join(f"{kind:>21}" for kind in kinds) + f"{'trees':>8}{'faults':>8}")
    for job, one in found.items():
        row = "".join(f"{one.kills[kind]:>21}" for kind in kinds)
        print(f"{job:<20}{row}{one.trees:>8}{len(one.faults):>8}")
    kills = sum(one.num_kills for one in found.values())
    faults = [(job, fault) for job, one in found.items() for fault in one.faults]
    for job, fault in faults:
        print(f"FAULT {job}: {fault}")
    trees = sum(one.trees for one in found.values())
    print(f"{kills} kills, {trees} trees compared, {len(faults)} faults, {seconds:.0f} s")


def main() -> int:
    os.environ["PYTHONFAULTHANDLER"] = "1"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="prepcli-soak-"))
    found = run(arguments.kills, arguments.jobs, arguments.seed, folder)
    _print_table(found, time.monotonic() - started)
    if not any(one.faults for one in found.values()):
        shutil.rmtree(folder)
        return 0
    print(f"left in {folder}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
