"""Recordings and supervisions of lhotse joined by `make-manifest`, against `lhotse cut simple`.

    python benchmarks/lhotse_join.py                      # 20,000 supervisions of 10,000 recordings, both unsorted
    python benchmarks/lhotse_join.py --records 100000 --runs 1

Both read the same two `.jsonl.gz` and write a line for each supervision; lhotse needs `--force-eager`, because the
files are not sorted. The audio is not looked at: this is what `make-manifest` does before it measures files. Each path,
start, duration and text must be equal. "CPU per record" is without the start of the program (a run over a tenth of the
supervisions).
"""

import argparse
import gzip
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from side_by_side import Contestant, in_turn, print_table

OURS = """
import sys
from pathlib import Path
from prepcli.commands.make_manifest.entries import write_catalog
from prepcli.commands.make_manifest.lhotse import files_named, lhotse_source

source = lhotse_source(files_named(sys.argv[1]), "", "/", False, Path(sys.argv[2]))
catalog = write_catalog(source.entries(), Path(sys.argv[2]), False)
with open(sys.argv[2] + "/ours.jsonl", "wb") as out:
    for unit in catalog.slices.units:
        out.writelines(line + b"\\n" for _, line in catalog.slices.lines(unit))
"""


def write(folder: Path, records: int) -> tuple[Path, Path]:
    """Two supervisions for each recording, in an order of their own."""
    shuffle = random.Random(0).shuffle
    recordings = [
        {
            "id": f"rec{number:07d}",
            "sources": [{"type": "file", "channels": [0], "source": f"/corpus/{number % 100:02d}/rec{number:07d}.wav"}],
            "sampling_rate": 16000,
            "num_samples": 160000,
            "duration": 10.0,
            "channel_ids": [0],
        }
        for number in range(records // 2)
    ]
    supervisions = [
        {
            "id": f"{recording['id']}_{half}",
            "recording_id": recording["id"],
            "start": 5.0 * half + 0.25,
            "duration": 4.5,
            "channel": 0,
            "text": f"the text of part {half} of {recording['id']}",
            "language": "English",
            "speaker": f"spk{number % 300}",
        }
        for number, recording in enumerate(recordings)
        for half in (0, 1)
    ]
    paths = folder / f"r{records}.jsonl.gz", folder / f"s{records}.jsonl.gz"
    for path, lines in zip(paths, (recordings, supervisions), strict=True):
        shuffle(lines)
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    return paths


def ours(folder: Path) -> Iterator[tuple[Any, ...]]:
    """The path, offset, duration, text and speaker of each entry."""
    for line in (folder / "ours.jsonl").read_text().splitlines():
        path, _, _, fields, offset, duration, *_ = json.loads(line)
        yield path, offset or 0.0, duration, fields["text"], fields["speaker"]


def theirs(folder: Path) -> Iterator[tuple[Any, ...]]:
    """The same of each supervision; lhotse makes one cut of a recording."""
    with gzip.open(folder / "cuts.jsonl.gz", "rt", encoding="utf-8") as file:
        for cut in map(json.loads, file):
            path = cut["recording"]["sources"][0]["source"]
            for speech in cut["supervisions"]:
                yield path, cut["start"] + speech["start"], speech["duration"], speech["text"], speech["speaker"]


def main() -> None:
    """Make the files, measure in turn, compare, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start: list[float] = []
        for records in (options.records // 10, options.records):
            recordings, supervisions = write(folder, records)
            cut = ["-m", "lhotse.bin.lhotse", "cut", "simple", "--force-eager"]
            cut = ["-c", "from lhotse.bin.lhotse import cli; cli()", *cut[2:]]
            cut += ["-r", str(recordings), "-s", str(supervisions), str(folder / "cuts.jsonl.gz")]
            found = [
                Contestant("make-manifest's join", [sys.executable, "-c", OURS, f"{recordings},{supervisions}", name]),
                Contestant("lhotse cut simple", [sys.executable, *cut]),
            ]
            in_turn(found, options.runs)
            if sorted(ours(folder)) != sorted(theirs(folder)):
                raise SystemExit("the records differ")
            if not start:
                start = [min(one.processor_seconds) for one in found]
        print(f"{options.records:,} supervisions; load {os.getloadavg()[0]:.1f}")
        print_table(found, found[0])
        more = options.records - options.records // 10
        costs = [(min(one.processor_seconds) - before) / more for one, before in zip(found, start, strict=True)]
        for one, cost in zip(found, costs, strict=True):
            print(f"  {one.name:<44} {cost * 1e6:7.1f} us of CPU per record")
        print(f"  {'lhotse to ours':<44} {costs[1] / costs[0]:7.0f} x")


if __name__ == "__main__":
    main()
