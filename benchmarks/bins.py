"""`prepcli estimate-bins` against lhotse's estimator over NeMo's manifest iterator: whole processes, imports included.

    python benchmarks/bins.py                       # 3,000 and 200,000 lines both, 2,000,000 lines prepcli alone
    python benchmarks/bins.py --lines 2000000 --peer-limit 2000000

The runs take turns, so that a slow moment of the machine hits both. Printed are medians of the wall time, their
ratio, and the peak memory of the largest process. Both must give the same bins. Without the extra `nemo` only
prepcli is measured.
"""

import argparse
import importlib.util
import json
import random
import sys
import tempfile
from pathlib import Path

from side_by_side import PREPCLI, Contestant, in_turn, print_table

PEER = """
import sys
from lhotse.dataset.sampling.dynamic_bucketing import estimate_duration_buckets
from nemo.collections.common.data.lhotse.nemo_adapters import LazyNeMoIterator
bins = estimate_duration_buckets(LazyNeMoIterator(sys.argv[1], metadata_only=True), num_buckets=30)
print("[" + ",".join(str(round(edge, 5)) for edge in bins) + "]")
"""

TEXT = "mister quilter is the apostle of the middle classes and we are glad to welcome his gospel"


def write_manifest(path: Path, num_lines: int) -> None:
    """Lines of about 300 bytes; durations are log-normal, up to 40 s."""
    rng = random.Random(1)
    words = TEXT.split()
    with path.open("w") as file:
        for i in range(num_lines):
            record = {
                "audio_filepath": f"/data/speech/corpus/train-clean-360-processed/{i // 1000:05d}/{i:09d}.wav",
                "duration": round(min(40, max(0.3, rng.lognormvariate(1.9, 0.7))), 3),
                "text": " ".join(rng.choices(words, k=26)),
                "speaker": str(i % 997),
                "lang": "en",
            }
            file.write(json.dumps(record) + "\n")


def compare(num_lines: int, folder: Path, runs: int, workers: int, with_peer: bool) -> None:
    manifest = folder / f"{num_lines}.json"
    write_manifest(manifest, num_lines)
    command = [*PREPCLI, "estimate-bins", "-q", "--num-workers", str(workers), str(manifest)]
    contestants = [ours := Contestant("prepcli estimate-bins", command)]
    if with_peer:
        contestants.append(Contestant("lhotse over NeMo's iterator", [sys.executable, "-c", PEER, str(manifest)]))
    in_turn(contestants, runs)
    print(f"\n{num_lines:,} lines, {manifest.stat().st_size / 1e6:,.0f} MB, {workers} workers, {runs} runs each")
    print_table(contestants, ours)
    if len({one.output.strip().splitlines()[-1] for one in contestants}) > 1:
        raise SystemExit("the bins differ")
    print("  the same bins" if with_peer else "  (no peer run)")
    manifest.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[3_000, 200_000, 2_000_000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--peer-limit", type=int, default=200_000, help="Longest manifest for the peer (default 200000)."
    )
    arguments = parser.parse_args()
    has_nemo = importlib.util.find_spec("nemo") is not None
    with tempfile.TemporaryDirectory(prefix="prepcli-bench-") as folder:
        for num_lines in arguments.lines:
            with_peer = has_nemo and num_lines <= arguments.peer_limit
            compare(num_lines, Path(folder), arguments.runs, arguments.workers, with_peer)


if __name__ == "__main__":
    main()
