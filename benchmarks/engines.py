"""The same jobs in worker processes of the command, and as tasks of Dask and Ray on this machine.

    python benchmarks/engines.py                 # 20,000 WAV files of 45 kB, 500 units
    python benchmarks/engines.py --files 4000 --units 100

Whole processes in turn, each with two workers and with a cluster of its own, which is started and stopped. "A unit
more" is the time of a unit beyond that of the plain run, without start-up: the time of the same command on 16 files.
The memory is that of the largest process; Ray's agents and workers are not children of the command, and not counted.
"""

import argparse
import statistics
import tempfile
from functools import partial
from pathlib import Path

from side_by_side import PREPCLI, Contestant, clear, in_turn, print_table
from tarred import make_files

ENGINES: dict[str, list[str]] = {"plain": [], "dask": ["--engine", "dask"], "ray": ["--engine", "ray"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--units", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path, help="folder for the files (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        folder = Path(name)
        manifest = make_files(folder, options.files)
        sizes = {"manifest-to-tarred": ("--num-shards", options.units, 2)}
        sizes["manifest-to-shar"] = ("--shard-size", -(-options.files // options.units), 8)
        for command, (option, many, few) in sizes.items():
            contestants = {
                (engine, source.stem): Contestant(
                    f"{engine}, {source.stem}",
                    [
                        *PREPCLI,
                        command,
                        str(source),
                        str(folder / "out"),
                        option,
                        str(size),
                        "--num-workers",
                        "2",
                        *more,
                    ],
                    partial(clear, folder / "out"),
                )
                for engine, more in ENGINES.items()
                for source, size in ((folder / "few.json", few), (manifest, many))
            }
            in_turn(list(contestants.values()), options.runs)
            print(f"{command} of {options.files:,} files in {options.units:,} units; last column: over the plain run")
            print_table(list(contestants.values()), contestants["plain", "manifest"])
            for engine in ("dask", "ray"):
                seconds = [contestants[one, stem].seconds for one in (engine, "plain") for stem in ("manifest", "few")]
                rows = zip(*seconds, strict=True)
                more = statistics.median((a - b) - (c - d) for a, b, c, d in rows) / options.units
                start = statistics.median(contestants[engine, "few"].seconds) - contestants["plain", "few"].median
                print(f"  {engine}: {start:.1f} s more to start and stop, a unit {1e6 * more:,.0f} us more")


if __name__ == "__main__":
    main()
