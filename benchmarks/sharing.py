"""Ranks of manifest-to-tarred, one of which indexes and plans: what each costs, all cost, and a second start costs.

`python benchmarks/scale.py --ranks 4` calls this. For each rank: processor seconds; bytes that it has read with system
calls (the manifest, and the parts of the index that it has joined); the peak of its private memory (`RssAnon`, looked
at every 0.2 s); and its share of all memory (`Pss`) when all ranks hold the plan and have looked at every record of it.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

RANK = """
import json, resource, sys, threading, time
from pathlib import Path
peak = 0
def value(file, name):
    return next(int(line.split()[1]) for line in open(file) if line.startswith(name))
def watch():
    global peak
    while True:
        peak = max(peak, value("/proc/self/status", "RssAnon:"))
        time.sleep(0.2)
threading.Thread(target=watch, daemon=True).start()
import prepcli
from prepcli.commands.manifest_to_tarred import making
manifest, out, rank, world_size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
begun = time.monotonic()
def only_plan(output, plan, *_, **__):
    output.workspace.rank = output.engine.rank
    return plan(output.workspace)
making.run = only_plan
ranks = {"rank": rank, "world_size": world_size, "num_workers": 1}
plan = prepcli.manifest_to_tarred(manifest, out, num_shards=1024, shuffle=True, **ranks)
seconds = time.monotonic() - begun
contents = plan.contents
for column in (contents.records.index.start, contents.layout.sets[0].records, contents.layout.ambiguous):
    column.max()
usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
figures = {
    "seconds": seconds,
    "processor": sum(one.ru_utime + one.ru_stime for one in usage),
    "read": value("/proc/self/io", "rchar:"),
    "private": peak * 1024,
}
out.mkdir(exist_ok=True)
(out / f"planned-{world_size}-{rank}").touch()
while len(list(out.glob(f"planned-{world_size}-*"))) < world_size:
    time.sleep(0.05)
figures["pss"] = value("/proc/self/smaps_rollup", "Pss:") * 1024
(out / f"measured-{world_size}-{rank}").touch()
while len(list(out.glob(f"measured-{world_size}-*"))) < world_size:
    time.sleep(0.05)
print(json.dumps(figures))
"""


class Cost(NamedTuple):
    """Seconds of the slowest rank, processor seconds and bytes of all ranks, bytes of the largest rank's own memory."""

    seconds: float
    processor: float
    read: float
    pss: float
    private: float


def plan_together(folder: Path, world_size: int) -> Cost:
    """Index and plan by ranks of this machine, at the same time."""
    out = folder / "planned"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, folder / "manifest.json", out, str(rank), str(world_size)],
            stdout=subprocess.PIPE,
        )
        for rank in range(world_size)
    ]
    found = [json.loads(process.communicate()[0]) for process in processes]
    shutil.rmtree(out)
    return Cost(
        max(one["seconds"] for one in found),
        sum(one["processor"] for one in found),
        sum(one["read"] for one in found),
        sum(one["pss"] for one in found),
        max(one["private"] for one in found),
    )


def print_sharing(folder: Path, num_lines: int, ranks: int) -> None:
    """A table: one rank, several, and several that start again."""
    size = (folder / "manifest.json").stat().st_size
    costs = {}
    for name, world_size in (("1 rank", 1), (f"{ranks} ranks", ranks), (f"{ranks} ranks, started again", ranks)):
        if "again" not in name:
            shutil.rmtree(folder / "planned.prepcli", ignore_errors=True)
        costs[name] = plan_together(folder, world_size)
    one = costs["1 rank"]
    print(f"{num_lines:,} lines, {size / 1e6:,.0f} MB")
    print("| | seconds | processor seconds | bytes read / manifest | memory, all ranks (Pss) | private, largest rank |")
    print("|---|---|---|---|---|---|")
    for name, cost in costs.items():
        print(
            f"| {name} | {cost.seconds:.1f} | {cost.processor:.1f} ({cost.processor / one.processor:.2f} x) "
            f"| {cost.read / size:.2f} | {cost.pss / 1e6:,.0f} MB ({cost.pss / one.pss:.2f} x) "
            f"| {cost.private / 1e6:,.0f} MB |"
        )
    shutil.rmtree(folder / "planned.prepcli")
