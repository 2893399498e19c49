"""`prepcli filter` against the loop that people write: `json.loads`, a few conditions, and the line.

    python benchmarks/filter.py                      # 1,000,000 and 10,000,000 lines; 2 workers
    python benchmarks/filter.py --lines 100000       # a tenth of it first

The manifest (about 230 bytes per line) is made here and stays in the page cache. Both keep the same lines, byte for
byte; `filter` also shows what each rule drops, and lists the lines that it drops with the rule. "CPU per line" is that
of all processes, without the start of the program (a run over 1,000 lines); so is the time by the clock. `--folder
/dev/shm` leaves out the disk, which must take all that `filter` flushes, and may be busy with other work.
"""

import argparse
import os
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

from side_by_side import PREPCLI, Contestant, clear, in_turn, print_table

RIVAL = """
import json, sys

with open(sys.argv[1]) as manifest, open(sys.argv[2], "w") as kept:
    for line in manifest:
        record = json.loads(line)
        rate = len(record["text"]) / record["duration"]
        if 1 <= record["duration"] <= 20 and record["snr"] >= 10 and rate <= 60:
            kept.write(line)
"""
RULES = ("--keep", "1 <= duration <= 20", "--keep", "snr >= 10", "--drop", "chars_per_second > 60")
FIRST = 1000
_WORDS = [f"word{number}"[: 2 + number % 7] for number in range(60)]


def make_manifest(path: Path, count: int) -> None:
    """Lines with texts of 4 to 30 words, of 7,919 speakers and five languages."""
    draw = random.Random(1)
    texts = [" ".join(draw.choices(_WORDS, k=draw.randint(4, 30))) for _ in range(5000)]
    with path.open("w") as file:
        for number in range(count):
            speaker = number % 7919
            file.write(
                f'{{"audio_filepath": "/data/audio/{speaker:04d}/{number:08d}.wav", '
                f'"duration": {draw.uniform(0.5, 25):.3f}, "text": "{texts[number % 5000]}", '
                f'"speaker": "spk{speaker:05d}", "lang": "{("en", "de", "fr", "es", "it")[speaker % 5]}", '
                f'"snr": {round(draw.uniform(5, 60), 2)}, "bandwidth": {draw.randint(3000, 22000)}}}\n'
            )


def contestants(manifest: Path, out: Path, workers: int) -> list[Contestant]:
    """The loop, and prepcli with so many workers."""
    ours, theirs = out / "ours.json", out / "theirs.json"
    command = [*PREPCLI, "filter", str(manifest), str(ours), *RULES, "--num-workers", str(workers)]
    return [
        Contestant("json in a loop", [sys.executable, "-c", RIVAL, str(manifest), str(theirs)]),
        Contestant(f"filter, {workers} workers", command, partial(clear, ours)),
        Contestant(f"filter --dry-run, {workers} workers", [*command, "--dry-run"]),
    ]


def compare(out: Path) -> None:
    """Stop if other lines are kept."""
    with (out / "ours.json").open("rb") as ours, (out / "theirs.json").open("rb") as theirs:
        while block := ours.read(1 << 20):
            if block != theirs.read(1 << 20):
                raise SystemExit("the manifests differ")
        if theirs.read(1):
            raise SystemExit("the manifests differ")


def main() -> None:
    """Make the manifests, measure in turn, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where files are made (default: a temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        top, start = Path(name), [(0.0, 0.0)]
        for count in sorted({FIRST, max(options.lines // 10, FIRST), options.lines}):
            manifest = top / f"manifest_{count}.json"
            make_manifest(manifest, count)
            found = contestants(manifest, top, options.workers)
            in_turn(found, options.runs)
            compare(top)
            used = [(min(one.processor_seconds), min(one.seconds)) for one in found]
            if count == FIRST:
                start = used
                continue
            print(f"{count:,} lines, {manifest.stat().st_size / 1e6:,.0f} MB; load {os.getloadavg()[0]:.1f}")
            print_table(found, found[0])
            costs = [
                [(a - b) / (count - FIRST) * 1e6 for a, b in zip(*of, strict=True)]
                for of in zip(used, start, strict=True)
            ]
            for one, (cpu, clock) in zip(found, costs, strict=True):
                ratio = costs[0][1] / clock
                print(f"  {one.name:<44} {cpu:7.2f} us of CPU, {clock:.2f} by the clock per line ({ratio:.2f} x)")
            manifest.unlink()


if __name__ == "__main__":
    main()
