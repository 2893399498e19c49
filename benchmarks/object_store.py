"""`prepcli manifest-to-tarred` with audio or output in an object store.

    PYTHONPATH=. python benchmarks/object_store.py                 # 5,000 WAV files of 50 kB
    PYTHONPATH=. python benchmarks/object_store.py --files 1000
    PYTHONPATH=. python benchmarks/object_store.py --files 0        # writing only, 600 files of 500 kB
    PYTHONPATH=. python benchmarks/object_store.py --files 0 --written 2000

Against smart_open without a shared client, as lhotse opens s3://; against copying the files down with obstore (64
threads) and the local command; and, for writing tars, against obstore's bare streaming of the same tars, with its
defaults. Whole processes in turn, a new prefix each; one worker, and for writing two as well, which is the default on
two cores (obstore has threads of its own). The rates of writing are also shown without the start, which is that of the
same command with 20 files, and of an interpreter that imports obstore. The store is that of the
tests and runs on the same machine: it takes most of the processor, so the processor seconds of the clients tell more
than the clock. smart_open reads `--few` files, and its rate is compared.
"""

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
from side_by_side import PREPCLI, Contestant, in_turn

from tests.storage.buckets import Bucket
from tests.storage.object_store import ObjectStore

SMART_OPEN = """
import sys
import smart_open
for number in range(int(sys.argv[2])):
    with smart_open.open(f"{sys.argv[1]}/{number:06d}.wav", "rb") as file:
        file.read()
"""
COPY_DOWN = """
import subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import obstore
from obstore.store import S3Store
bucket, count, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
store = S3Store(bucket, client_options={"allow_http": True})
def fetch(number):
    name = f"{number:06d}.wav"
    (folder / name).write_bytes(bytes(obstore.get(store, f"audio/{name}").bytes()))
with ThreadPoolExecutor(64) as pool:
    list(pool.map(fetch, range(count)))
sys.exit(subprocess.call(sys.argv[4:]))
"""
STREAM = """
import sys
from pathlib import Path
import obstore
from obstore.store import S3Store
store = S3Store(sys.argv[1], client_options={"allow_http": True})
for path in sorted(Path(sys.argv[2]).glob("audio_*.tar")):
    with obstore.open_writer(store, f"{sys.argv[3]}/{path.name}") as file:
        with path.open("rb") as source:
            while block := source.read(1 << 20):
                file.write(block)
"""


def make_files(folder: Path, count: int, num_samples: int = 25_000) -> Path:
    """WAV files of `num_samples` samples, by default of 50 kB."""
    generator = np.random.default_rng(0)
    (folder / "audio").mkdir(parents=True)
    lines = []
    for number in range(count):
        name = f"{number:06d}.wav"
        soundfile.write(folder / "audio" / name, generator.integers(-3000, 3000, num_samples, np.int16), 16000)
        lines.append({"audio_filepath": name, "duration": num_samples / 16000, "text": "so it was said"})
    manifest = folder / "manifest.json"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return manifest


def fresh(folder: Path) -> None:
    """Remove an output and its records."""
    for path in (folder, folder.with_name(folder.name + ".prepcli")):
        shutil.rmtree(path, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)


def show(contestants: list[Contestant], files: dict[str, int]) -> None:
    """Rate, processor time per file, and memory."""
    for one in contestants:
        count = files[one.name]
        used = sorted(one.processor_seconds)[len(one.processor_seconds) // 2]
        print(
            f"  {one.name:<34} {one.median:7.2f} s  {count / one.median:6.0f} files/s  "
            f"{1000 * used / count:6.2f} ms of processor per file  {one.peak_mb:5.0f} MB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--few", type=int, default=500)
    parser.add_argument("--written", type=int, default=600)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prepcli-store-") as name:
        folder = Path(name)
        store = ObjectStore(folder / "store")
        store.start()
        try:
            os.environ |= store.environ
            os.environ["PYTHONPATH"] = f"{os.environ.get('PYTHONPATH', '')}:{Path(sys.prefix) / 'boto3'}"
            bucket = Bucket(store, "benchmark")
            if args.files:
                measure_reading(folder, bucket, args)
            measure_writing(folder / "writing", bucket, args)
        finally:
            store.kill()


SHARDS = ["--num-shards", "4", "--num-workers", "1", "--no-index"]
TWO_WORKERS = ["--num-workers", "2"]


def measure_reading(folder: Path, bucket: Bucket, args: argparse.Namespace) -> None:
    """Audio from the store into tars on the disk."""
    manifest = make_files(folder, args.files)
    audio = bucket.upload(folder / "audio", "audio")
    tarred = [*PREPCLI, "manifest-to-tarred", str(manifest)]
    local, read, down = folder / "local", folder / "read", folder / "down"
    here = [str(local), *SHARDS, "--audio-base-dir", str(folder / "audio")]
    from_down = [*tarred, str(folder / "copied"), *SHARDS, "--audio-base-dir", str(down)]

    def before_down() -> None:
        fresh(folder / "copied")
        shutil.rmtree(down, ignore_errors=True)
        down.mkdir()

    few = str(args.few)
    contestants = [
        Contestant("local", [*tarred, *here], lambda: fresh(local)),
        Contestant("from the store", [*tarred, str(read), *SHARDS, "--audio-base-dir", audio], lambda: fresh(read)),
        Contestant("smart_open", [sys.executable, "-c", SMART_OPEN, audio, few]),
        Contestant(
            "copied down, then local",
            [sys.executable, "-c", COPY_DOWN, bucket.name, str(args.files), str(down), *from_down],
            before_down,
        ),
    ]
    print(f"reading {args.files:,} files of 50 kB ({few} with smart_open), one worker")
    in_turn(contestants, args.runs)
    show(contestants, {one.name: args.few if one.name == "smart_open" else args.files for one in contestants})


def measure_writing(folder: Path, bucket: Bucket, args: argparse.Namespace) -> None:
    """Audio from the disk into tars in the store."""
    count = args.written
    manifest = make_files(folder, count, num_samples=250_000)
    few = folder / "few.json"
    few.write_text("".join(manifest.read_text().splitlines(True)[:20]))
    local, work, nothing = folder / "local", folder / "work", folder / "nothing"
    nothing.mkdir()
    options = [*SHARDS, "--audio-base-dir", str(folder / "audio")]
    subprocess.run(
        [*PREPCLI, "manifest-to-tarred", str(manifest), str(local), *options], check=True, stdout=subprocess.DEVNULL
    )

    prefixes = map(str, itertools.count())

    def contestant(name: str, command: Callable[[str], list[str]]) -> Contestant:
        one = Contestant(name, [])

        def before() -> None:
            one.command = command(next(prefixes))
            fresh(work)
            work.mkdir()

        one.prepare = before
        return one

    def packed(source: Path, prefix: str, more: Sequence[str] = ()) -> list[str]:
        words = [*PREPCLI, "manifest-to-tarred", str(source), str(bucket / prefix), *options]
        return [*words, "--work-dir", str(work), *more]

    def streamed(source: Path, prefix: str) -> list[str]:
        return [sys.executable, "-c", STREAM, bucket.name, str(source), prefix]

    writers = [
        contestant("to the store", partial(packed, manifest)),
        contestant("to the store, 20 files", partial(packed, few)),
        contestant("obstore, the finished tars", partial(streamed, local)),
        contestant("obstore, nothing", partial(streamed, nothing)),
        contestant("to the store, 2 workers", partial(packed, manifest, more=TWO_WORKERS)),
    ]
    num_bytes = sum(path.stat().st_size for path in local.glob("audio_*.tar"))
    print(f"writing {num_bytes / 1e6:.0f} MB of tars")
    in_turn(writers, args.runs)
    show(writers, {one.name: count for one in writers})
    one, _, bare, _, two = writers
    for own, label in ((one, "one worker"), (two, "two workers")):
        ratio = statistics.median(theirs / ours for ours, theirs in zip(own.seconds, bare.seconds, strict=True))
        print(f"  whole commands, {label}: {ratio:.2f} times the rate of obstore")
    for whole, start in (writers[:2], writers[2:4]):
        net = whole.median - start.median
        cpu = statistics.median(whole.processor_seconds) - statistics.median(start.processor_seconds)
        print(
            f"  {whole.name:<34} {num_bytes / 1e6 / whole.median:6.0f} MB/s; without the start "
            f"{num_bytes / 1e6 / net:6.0f} MB/s, {cpu:.2f} s of processor"
        )


if __name__ == "__main__":
    subprocess.run(["sync"], check=False)
    main()
