"""`manifest-to-wenet` against WeNet's make_shard_list.py, and `manifest-to-parquet` against `manifest-to-tarred`.

    python benchmarks/exports.py                       # 4,000 WAV files of 5 s
    python benchmarks/exports.py --files 500 --runs 2
    python benchmarks/exports.py --files 10000 --runs 3 --parts copied
    python benchmarks/exports.py --parts copied resampled --wenet-python VENV/bin/python

WeNet's script is not on PyPI. The loop here does what it does, by the same calls (torchaudio's Resample for every file,
a WAV in memory, `tarfile`), in as many processes. Like the script it encodes every file again, also where the rate is
right already. WeNet recommends torchaudio 2.2.2: `--wenet-python` is an interpreter that has it, and the loop then
reads and writes with torchaudio, which calls FFmpeg where that is installed. Since 2.9, torchaudio needs torchcodec,
which refuses to write into memory as the script does (0.11): so with this environment's interpreter soundfile reads and
writes, which is faster.

The loop leaves its shards in the page cache, prepcli flushes them to the disk: so the loop is also shown with `sync` of
its shards. "The floor" reads the same files, hashes them with XXH3, writes them to one file per shard, and flushes
that: what remains if all else in prepcli took no time.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from side_by_side import PREPCLI, Contestant, clear, in_turn, print_table

MAKE_SHARD_LIST = """
import io, json, multiprocessing, os, sys, tarfile
import torch, torchaudio

def read(path):
    if by_torchaudio:
        return torchaudio.load(path)
    audio, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return torch.from_numpy(audio.T.copy()), rate

def write(file, samples):
    if by_torchaudio:
        torchaudio.save(file, samples, 16000, format="wav", bits_per_sample=16)
    else:
        soundfile.write(file, samples.T.numpy(), 16000, format="WAV")

def write_tar(items, name):
    with tarfile.open(name, "w") as tar:
        for item in items:
            audio, rate = read(item["wav"])
            audio = torchaudio.transforms.Resample(rate, 16000)(audio)
            samples = (audio * (1 << 15)).to(torch.int16)
            with io.BytesIO() as file:
                write(file, samples)
                data = file.getvalue()
            for suffix, content in (("txt", item["txt"].encode()), ("wav", data)):
                info = tarfile.TarInfo(item["key"] + "." + suffix)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))

if __name__ == "__main__":
    manifest, out = sys.argv[1:3]
    by_torchaudio = sys.argv[3:] == ["torchaudio"]
    if not by_torchaudio:
        import soundfile
    torch.set_num_threads(1)
    os.makedirs(out)
    items = []
    for line in open(manifest):
        record = json.loads(line)
        path = os.path.join(os.path.dirname(manifest), record["audio_filepath"])
        items.append({"key": os.path.basename(path)[:-4], "txt": record["text"], "wav": path})
    with multiprocessing.Pool(2) as pool:
        shards = [items[at : at + 500] for at in range(0, len(items), 500)]
        pool.starmap(write_tar, [(shard, f"{out}/shards_{n:09d}.tar") for n, shard in enumerate(shards)])
"""

FLOOR = """
import json, multiprocessing, os, sys
import xxhash

def copy(paths, name):
    digest = xxhash.xxh3_128()
    with open(name, "wb", buffering=0) as out:
        for path in paths:
            with open(path, "rb", buffering=0) as file:
                data = file.read()
            digest.update(data)
            out.write(data)
        os.fsync(out.fileno())

if __name__ == "__main__":
    manifest, out = sys.argv[1:]
    os.makedirs(out)
    folder = os.path.dirname(manifest)
    paths = [os.path.join(folder, json.loads(line)["audio_filepath"]) for line in open(manifest)]
    with multiprocessing.Pool(2) as pool:
        shards = [paths[at : at + 500] for at in range(0, len(paths), 500)]
        pool.starmap(copy, [(shard, f"{out}/{n}") for n, shard in enumerate(shards)])
"""
PARTS = ("copied", "resampled", "parquet")


def make_files(folder: Path, count: int, rate: int) -> Path:
    """WAV files of 5 s with a voice-like envelope."""
    generator = np.random.default_rng(0)
    time = np.arange(5 * rate) / rate
    voice = np.sin(2 * np.pi * 130 * time) * np.clip(np.sin(2 * np.pi * 1.3 * time), 0, 1)
    lines = []
    (folder / str(rate)).mkdir()
    for number in range(count):
        samples = 6000 * voice + generator.normal(0, 100, len(time))
        soundfile.write(folder / f"{rate}/u{number:06d}.wav", samples.astype(np.int16), rate)
        lines.append({"audio_filepath": f"{rate}/u{number:06d}.wav", "duration": 5.0, "text": "so it was said"})
    manifest = folder / f"{rate}.json"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return manifest


def print_processor_time(one: Contestant, reference: Contestant) -> None:
    """Of all its processes; on a busy machine it tells more than the clock."""
    seconds, its = statistics.median(one.processor_seconds), statistics.median(reference.processor_seconds)
    print(f"  {one.name:<44} {seconds:7.2f} s of processor time {seconds / its:20.2f} x")


class Exports:
    """The commands over files at two rates; each run begins without the output of the one before."""

    def __init__(self, folder: Path, files: int, runs: int, wenet_python: str = "") -> None:
        self.folder, self.files, self.runs, self.wenet_python = folder, files, runs, wenet_python
        self.out = folder / "out"

    def clear(self) -> None:
        clear(self.out)

    def prepcli(self, command: str, source: Path, *extra: str) -> Contestant:
        arguments = [str(source), str(self.out), "--num-workers", "2", "--shard-size", "500", *extra]
        return Contestant(f"prepcli {command}, 2 workers", [*PREPCLI, command, *arguments], self.clear)

    def program(
        self, label: str, code: str, source: Path, *extra: str, interpreter: str = sys.executable
    ) -> Contestant:
        return Contestant(label, [interpreter, "-c", code, str(source), str(self.out), *extra], self.clear)

    def by_torchaudio(self, source: Path) -> list[Contestant]:
        """The loop as the script itself reads and writes, if there is an interpreter for it."""
        if not self.wenet_python:
            return []
        label = "the loop by torchaudio, 2 processes"
        return [self.program(label, MAKE_SHARD_LIST, source, "torchaudio", interpreter=self.wenet_python)]

    def synced(self, one: Contestant) -> Contestant:
        """The same, and the flush of its shards."""
        return Contestant(
            f"{one.name}, sync", ["sh", "-c", '"$@" && sync "$0"/*', str(self.out), *one.command], self.clear
        )

    def copied(self, source: Path) -> None:
        ours = self.prepcli("manifest-to-wenet", source)
        loop = self.program("the loop, 2 processes", MAKE_SHARD_LIST, source)
        floor = self.program("the floor, 2 processes", FLOOR, source)
        contestants = [ours, loop, *self.by_torchaudio(source), self.synced(loop), floor]
        print(f"{self.files:,} WAV files of 5 s for WeNet at 16 kHz, copied; last column: time over prepcli's")
        self.measure(contestants, ours)

    def resampled(self, source: Path) -> None:
        ours = self.prepcli("manifest-to-wenet", source, "--target-sample-rate", "16000")
        loop = self.program("the loop, 2 processes", MAKE_SHARD_LIST, source)
        print(f"{self.files:,} WAV files of 5 s for WeNet, resampled from 22050 Hz to 16 kHz")
        self.measure([ours, loop, *self.by_torchaudio(source)], ours)

    def parquet(self, source: Path) -> None:
        tarred, parquet = self.prepcli("manifest-to-tarred", source), self.prepcli("manifest-to-parquet", source)
        print(f"{self.files:,} WAV files of 5 s copied into Parquet; last column: time over that of manifest-to-tarred")
        self.measure([tarred, parquet], tarred)

    def measure(self, contestants: list[Contestant], reference: Contestant) -> None:
        in_turn(contestants, self.runs)
        print_table(contestants, reference)
        for one in contestants:
            print_processor_time(one, reference)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--wenet-python", default="", help="an interpreter with the torchaudio that WeNet recommends")
    parser.add_argument("--work", type=Path, help="folder for the files (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        exports = Exports(Path(name), options.files, options.runs, options.wenet_python)
        needed = {22050 if part == "resampled" else 16000 for part in options.parts}
        rates = {rate: make_files(exports.folder, options.files, rate) for rate in sorted(needed)}
        for part in options.parts:
            getattr(exports, part)(rates[22050 if part == "resampled" else 16000])


if __name__ == "__main__":
    main()
