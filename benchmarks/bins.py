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
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

PEER = """
import sys
from lhotse.dataset.sampling.dynamic_bucketing import estimate_duration_buckets
from nemo.collections.common.data.lhotse.nemo_adapters import LazyNeMoIterator
bins = estimate_duration_buckets(LazyNeMoIterator(sys.argv[1], metadata_only=True), num_buckets=30)
print("[" + ",".join(str(round(edge, 5)) for edge in bins) + "]")
"""

TEXT = "mister quilter is the apostle of the middle classes and we are glad to welcome his gospel"


@dataclass
class Runs:
    """Wall times in seconds, the largest peak memory in MB, and the last output of one contestant."""

    command: list[str]
    seconds: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    bins: str = ""

    def once(self, manifest: Path) -> None:
        start = time.perf_counter()
        process = subprocess.Popen(
            [*self.command, str(manifest)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        self.bins = process.stdout.read().strip().splitlines()[-1]
        _, status, usage = os.wait4(process.pid, 0)
        self.seconds.append(time.perf_counter() - start)
        process.stdout.close()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(self.command[:4])} ... failed with exit code {process.returncode}")
        self.peak_mb = max(self.peak_mb, usage.ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20))

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


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
    ours = Runs([sys.executable, "-m", "prepcli", "estimate-bins", "-q", "--num-workers", str(workers)])
    contestants = {"prepcli estimate-bins": ours}
    if with_peer:
        contestants["lhotse over NeMo's iterator"] = Runs([sys.executable, "-c", PEER])
    for number in range(runs + 1):
        for one in contestants.values():
            one.once(manifest)
            if number == 0:
                one.seconds.clear()  # the first run warms the page cache
    print(f"\n{num_lines:,} lines, {manifest.stat().st_size / 1e6:,.0f} MB, {workers} workers, {runs} runs each")
    for name, one in contestants.items():
        spread = f"{min(one.seconds):.2f}-{max(one.seconds):.2f}"
        ratio = f"  {one.median / ours.median:6.1f} x prepcli" if one is not ours else ""
        print(f"  {name:28s} {one.median:8.2f} s ({spread})  {one.peak_mb:6.0f} MB{ratio}")
    if len({one.bins for one in contestants.values()}) > 1:
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
