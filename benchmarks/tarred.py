"""`prepcli manifest-to-tarred` against `lhotse shar export -a original` and GNU tar over the same files.

    python benchmarks/tarred.py                  # 8,000 WAV files of 45 kB (2.8 s at 8 kHz)
    python benchmarks/tarred.py --files 26800

Whole processes in turn, medians, ratios of the pairs of runs, peak memory of the largest process. prepcli flushes every
shard to the disk before it publishes it; GNU tar does not, so it is shown as it is and followed by `sync`. "Aside from
start-up" takes off the time of the same command on 16 files. With FLAC: one worker and two, and what libsndfile alone
takes to decode and encode the same files in one process.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
from side_by_side import PREPCLI, Contestant, clear, in_turn, print_table

LIBSNDFILE = """
import io, json, sys, os
import soundfile
for line in open(sys.argv[1]):
    data, rate = soundfile.read(os.path.join(sys.argv[2], json.loads(line)["audio_filepath"]), dtype="int16")
    soundfile.write(io.BytesIO(), data, rate, format="FLAC")
"""


def make_files(folder: Path, count: int) -> Path:
    """WAV files of 45 kB that compress like speech: noise shaped by a slow envelope, and silence."""
    generator = np.random.default_rng(0)
    time = np.arange(22400) / 8000
    lines = []
    for number in range(count):
        path = Path(f"wav/{number // 1000:03d}/{number:06d}.wav")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        envelope = np.clip(np.sin(2 * np.pi * (1.3 + number % 5 * 0.2) * time), 0, 1) ** 2
        voice = np.sin(2 * np.pi * (90 + number % 90) * time) + 0.3 * np.sin(2 * np.pi * 700 * time)
        samples = 5000 * envelope * voice + generator.normal(0, 20 + 200 * envelope)
        soundfile.write(folder / path, samples.astype(np.int16), 8000)
        lines.append(
            {"audio_filepath": str(path), "duration": 2.8, "text": "so it was said", "speaker": str(number % 50)}
        )
    manifest = folder / "manifest.json"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "few.json").write_text("".join(json.dumps(line) + "\n" for line in lines[:16]))
    (folder / "list.txt").write_text("".join(f"{line['audio_filepath']}\n" for line in lines))
    return manifest


def write_cuts(folder: Path, manifest: Path) -> Path:
    """The same files as a lhotse CutSet."""
    cuts = folder / "cuts.jsonl.gz"
    code = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from lhotse import CutSet, Recording\n"
        "records = map(json.loads, open(sys.argv[1]))\n"
        "root = Path(sys.argv[1]).parent\n"
        "cuts = (Recording.from_file(root / r['audio_filepath']).to_cut() for r in records)\n"
        "CutSet.from_cuts(cuts).to_file(sys.argv[2])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(manifest), str(cuts)], check=True)
    return cuts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=8000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--work", type=Path, help="folder for the files (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        folder = Path(name)
        manifest = make_files(folder, options.files)
        out = folder / "out"

        fresh = partial(clear, out, folder / "shar", folder / "x.tar")

        def prepcli(label: str, source: Path, workers: int, *extra: str) -> Contestant:
            shards = "16" if source == manifest else "2"
            arguments = [str(source), str(out), "--num-shards", shards, "--num-workers", str(workers), *extra]
            return Contestant(label, [*PREPCLI, "manifest-to-tarred", *arguments], fresh)

        start_up = prepcli("prepcli, 16 files (start-up)", folder / "few.json", 2)
        ours = prepcli("prepcli, 2 workers", manifest, 2)
        tar = f"cd '{folder}' && tar -cf x.tar -T list.txt"
        plain = Contestant("GNU tar", ["sh", "-c", tar], fresh)
        synced = Contestant("GNU tar, then sync of the file", ["sh", "-c", f"{tar} && sync x.tar"], fresh)
        size = str(-(-options.files // 16))
        export = ["shar", "export", "-a", "original", "--no-shuffle", "-s", size, "-j", "2"]
        cuts = write_cuts(folder, manifest)
        lhotse = Contestant(
            "lhotse shar export -a original -j 2",
            [str(Path(sys.executable).with_name("lhotse")), *export, str(cuts), str(folder / "shar")],
            fresh,
        )
        print(f"copy of {options.files:,} WAV files of 45 kB; last column: time over that of prepcli with 2 workers")
        contestants = [start_up, ours, plain, synced, lhotse]
        in_turn(contestants, options.runs)
        print_table(contestants, ours)
        aside = [a - b for a, b in zip(ours.seconds, start_up.seconds, strict=True)]
        per_file = 1e6 / options.files
        print(f"  prepcli aside from start-up: {statistics.median(aside) * per_file:.0f} us per file; ", end="")
        print(f"GNU tar {plain.median * per_file:.0f}, with sync {synced.median * per_file:.0f}")

        print("with --force-codec flac")
        one = prepcli("prepcli, 1 worker", manifest, 1, "--force-codec", "flac")
        two = prepcli("prepcli, 2 workers", manifest, 2, "--force-codec", "flac")
        few = prepcli("prepcli, 1 worker, 16 files", folder / "few.json", 1, "--force-codec", "flac")
        bare = [sys.executable, "-c", LIBSNDFILE]
        whole = Contestant("bare libsndfile, 1 process", [*bare, str(manifest), str(folder)])
        bare_few = Contestant("bare libsndfile, 16 files", [*bare, str(folder / "few.json"), str(folder)])
        in_turn([one, two, few, whole, bare_few], options.runs)
        print_table([one, two, few, whole, bare_few], two)
        alone, both = one.median - few.median, two.median - few.median
        outside = 1 - (whole.median - bare_few.median) / alone
        print(f"  aside from start-up: {alone / both:.2f} x from one worker to two; {outside:.0%} outside libsndfile")


if __name__ == "__main__":
    main()
