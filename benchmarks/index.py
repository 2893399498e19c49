"""`prepcli index` against the indexer of lhotse 2, on Shar tars in the page cache.

    python benchmarks/index.py --lhotse .venv/lhotse2               # 10,000 members, 410 MB
    python benchmarks/index.py --lhotse .venv/lhotse2 --members 100000 --runs 3

`--lhotse` is a folder with lhotse 2 (`pip install --target FOLDER lhotse==2.0.0a7`), beside the lhotse of the
environment. Start-up is not counted: both call their indexer in a process that has imported it, and of the command the
time on four tars with one pair each is taken off. The indexes must be equal, byte for byte.
"""

import argparse
import random
import statistics
import sys
import tempfile
from pathlib import Path

from side_by_side import PREPCLI, Contestant, in_turn

from prepcli.formats.tar import TarWriter

NUM_TARS = 4
OURS = """
import sys, time
from pathlib import Path
from prepcli.formats.indexes import make_index

begin, processor = time.perf_counter(), time.process_time()
for tar in sys.argv[1:]:
    Path(tar + ".ours").write_bytes(make_index(Path(tar), "shar_tar"))
print(time.perf_counter() - begin, time.process_time() - processor)
"""
THEIRS = """
import sys, time
sys.path.insert(0, sys.argv[1])
from lhotse.indexing import create_tar_index

begin, processor = time.perf_counter(), time.process_time()
for tar in sys.argv[2:]:
    create_tar_index(tar, tar + ".theirs")
print(time.perf_counter() - begin, time.process_time() - processor)
"""


def make_tars(folder: Path, num_members: int) -> list[str]:
    """Pairs of about 82 kB of audio and a small manifest, in four tars."""
    generator = random.Random(0)
    data = generator.randbytes(100_000)
    folder.mkdir()
    paths = [folder / f"recording.{number:06d}.tar" for number in range(NUM_TARS)]
    for number, path in enumerate(paths):
        with path.open("wb") as file:
            tar = TarWriter(file)
            for pair in range(num_members // NUM_TARS // 2):
                tar.add(f"{number:02d}_{pair:06d}.flac", data[: generator.randint(70_000, 94_000)])
                tar.add(f"{number:02d}_{pair:06d}.json", b"{}" + b" " * generator.randint(250, 420))
            tar.close()
    return [str(path) for path in paths]


def compare(tars: list[str]) -> None:
    """Stop if the indexes differ."""
    for tar in tars:
        if Path(f"{tar}.ours").read_bytes() != Path(f"{tar}.theirs").read_bytes():
            raise SystemExit(f"the indexes of {tar} differ")


class Call(Contestant):
    """A process that prints the seconds and the processor seconds of the call that is measured."""

    def run(self, count: bool = True) -> None:
        """One run; its own figures take the place of those of the process."""
        super().run(count)
        if count:
            self.seconds[-1], self.processor_seconds[-1] = map(float, self.output.split())


def main() -> None:
    """Make the tars, measure in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lhotse", type=Path, required=True, help="folder with lhotse 2")
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--work", type=Path, help="folder for the files (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        many, few = (make_tars(Path(name, kind), count) for kind, count in (("many", options.members), ("few", 8)))

        def clear() -> None:
            for tar in (*many, *few):
                Path(f"{tar}.idx").unlink(missing_ok=True)

        ours = Call("make_index of prepcli", [sys.executable, "-c", OURS, *many])
        theirs = Call("create_tar_index of lhotse 2", [sys.executable, "-c", THEIRS, str(options.lhotse), *many])
        command, start = (
            Contestant(f"prepcli index, {what}", [*PREPCLI, "index", *tars], clear)
            for what, tars in (("all members", many), ("8 members", few))
        )
        in_turn([ours, theirs, command, start], options.runs)
        compare(many)
        print(f"{options.members:,} members of {NUM_TARS} tars")
        for one in (ours, theirs, command, start):
            processor = statistics.median(one.processor_seconds)
            print(f"  {one.name:<32} {one.median:.3f} s, {processor:.3f} s of processor time")
        for what, a, b in (
            ("time", theirs.seconds, ours.seconds),
            ("processor time", theirs.processor_seconds, ours.processor_seconds),
        ):
            print(f"  {what} over prepcli's: {statistics.median(x / y for x, y in zip(a, b, strict=True)):.1f} x")
        aside = statistics.median(a - b for a, b in zip(command.seconds, start.seconds, strict=True))
        print(f"  the command aside from start-up: {aside:.3f} s")


if __name__ == "__main__":
    main()
