"""Many small manifests against one large one, plain and compressed: what the index of manifest-to-tarred costs.

    python benchmarks/small_files.py                     # 10,000 files of 100 lines; 300 MB of disk
    python benchmarks/small_files.py --files 1000 --lines 10 --runs 1

Processor seconds of whole processes in turn, imports included, and the ratio to one large file. The last column starts
again with the index that is there.
"""

import argparse
import gzip
import shutil
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

from scale import lines
from side_by_side import Contestant

INDEX = """
import sys
from pathlib import Path
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.names import marked_root, member_stem, normal_path
from prepcli.manifest.sources import expand_paths
from prepcli.jobs.records import Records
keys = {"path": normal_path, "stem": member_stem, "root": marked_root}
print(len(Records(expand_paths(sys.argv[1]), keys=keys, workspace=Workspace(Path(sys.argv[2])))))
"""


def make(folder: Path, files: int, lines_of_each: int) -> dict[str, Path]:
    """Equal lines in one file and in many, plain and compressed."""
    many, packed = folder / "many", folder / "packed"
    many.mkdir()
    packed.mkdir()
    whole = folder / "one.json"
    with whole.open("wb") as one:
        for number in range(files):
            content = "".join(lines(number * lines_of_each, (number + 1) * lines_of_each)).encode()
            one.write(content)
            (many / f"m_{number}.json").write_bytes(content)
            (packed / f"m_{number}.json.gz").write_bytes(gzip.compress(content, 6))
    with whole.open("rb") as source, gzip.open(folder / "one.json.gz", "wb", 6) as target:
        shutil.copyfileobj(source, target)
    pattern = f"m_{{0..{files - 1}}}.json"
    return {
        "one file": whole,
        f"{files:,} files": many / pattern,
        "one .gz": folder / "one.json.gz",
        f"{files:,} .gz": packed / f"{pattern}.gz",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--lines", type=int, default=100, help="Of each file.")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prepcli-small-files-") as name:
        folder = Path(name)
        pairs = []
        for title, manifests in make(folder, arguments.files, arguments.lines).items():
            out = folder / f"out of {title}"
            command = [sys.executable, "-c", INDEX, str(manifests), str(out)]
            clear = partial(shutil.rmtree, f"{out}.prepcli", ignore_errors=True)
            pairs.append((Contestant(title, command, prepare=clear), Contestant(title, command)))
        pairs[0][0].run(count=False)
        for _ in range(arguments.runs):
            for first, again in pairs:
                first.run()
                again.run()
    medians = [[statistics.median(one.processor_seconds) for one in pair] for pair in pairs]
    print("| index of | processor seconds | started again |\n|---|---|---|")
    for row, (first, _) in enumerate(pairs):
        seconds, later = medians[row]
        print(f"| {first.name} | {seconds:.2f} ({seconds / medians[row // 2 * 2][0]:.2f} x) | {later:.2f} |")


if __name__ == "__main__":
    main()
