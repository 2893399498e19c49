"""`prepcli make-manifest` against the loop that people write: `soundfile.info` for each file, in one process.

    python benchmarks/make_manifest.py                    # 100,000 WAV files in 100 folders; 2 workers
    python benchmarks/make_manifest.py --files 10000 --suffix flac

The files are made here and stay in the page cache, so that the disk is not measured. Both write a manifest of absolute
paths and durations, which must be equal. "CPU per file" is that of all processes, without the start of the program
(a run over no more than one folder), and is what other work on the machine hardly touches. A tenth of the files tells
whether time grows with their number.
"""

import argparse
import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
from side_by_side import PREPCLI, Contestant, clear, in_turn, print_table

RIVAL = """
import json, os, sys
from pathlib import Path
import soundfile

with open(sys.argv[2], "w") as manifest:
    for path in sorted(Path(sys.argv[1]).rglob("*.*")):
        info = soundfile.info(path)
        manifest.write(json.dumps({"audio_filepath": str(path), "duration": info.duration}) + "\\n")
"""
PER_FOLDER = 1000
RATE = 16000


def make_files(folder: Path, count: int, suffix: str) -> None:
    """Files of 0.1 to 0.6 s, a thousand in each folder: of WAV the header is read, whatever the length."""
    samples = np.random.default_rng(0).integers(-8000, 8000, RATE, dtype=np.int16)
    for number in range(count):
        path = folder / f"{number // PER_FOLDER:04d}/{number:06d}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, samples[: 1600 + number % 8000], RATE)


def contestants(folder: Path, out: Path, workers: int) -> list[Contestant]:
    """prepcli, with so many workers and with one, and the loop."""
    ours, theirs = out / "ours.json", out / "theirs.json"
    command = [*PREPCLI, "make-manifest", str(folder), str(ours), "--absolute-paths", "--num-workers"]
    return [
        Contestant("soundfile.info in a loop", [sys.executable, "-c", RIVAL, str(folder), str(theirs)]),
        Contestant(f"make-manifest, {workers} workers", [*command, str(workers)], partial(clear, ours)),
        Contestant("make-manifest, 1 worker", [*command, "1"], partial(clear, ours)),
    ]


def compare(out: Path) -> None:
    """Stop if the manifests differ."""
    ours, theirs = (
        [json.loads(line) for line in (out / name).read_text().splitlines()] for name in ("ours.json", "theirs.json")
    )
    if ours != theirs:
        raise SystemExit("the manifests differ")


def processor_seconds(one: Contestant) -> float:
    """The least of all runs, which others have disturbed least."""
    return min(one.processor_seconds)


def main() -> None:
    """Make the files, measure in turn, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--suffix", default="wav", choices=["wav", "flac", "ogg", "mp3"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where files are made (default: a temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        top = Path(name)
        start: list[float] = []
        for count in sorted({PER_FOLDER, max(options.files // 10, PER_FOLDER), options.files}):
            folder = top / f"files_{count}"
            make_files(folder, count, options.suffix)
            found = contestants(folder, top, options.workers)
            in_turn(found, options.runs)
            compare(top)
            if not start:
                start = [processor_seconds(one) for one in found]
                continue
            print(f"{count:,} {options.suffix} files")
            print_table(found, found[0])
            for one, at_first in zip(found, start, strict=True):
                per_file = (processor_seconds(one) - at_first) / (count - PER_FOLDER) if count > PER_FOLDER else 0.0
                print(f"  {one.name:<44} {per_file * 1e6:7.1f} us of CPU per file")
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
