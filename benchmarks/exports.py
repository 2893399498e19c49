"""`manifest-to-wenet` against WeNet's make_shard_list.py, and `manifest-to-parquet` against `manifest-to-tarred`.

    python benchmarks/exports.py                       # 4,000 WAV files of 5 s
    python benchmarks/exports.py --files 500 --runs 2

WeNet's script is not on PyPI. The loop here does what it does, by the same calls (torchaudio's Resample for every file,
a WAV in memory, `tarfile`), in as many processes; only soundfile reads and writes instead of torchaudio, which needs
torchcodec since 2.9. Like the script it encodes every file again, also where the rate is right already.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from side_by_side import PREPCLI, Contestant, in_turn, print_table

MAKE_SHARD_LIST = """
import io, json, multiprocessing, os, sys, tarfile
import soundfile, torch, torchaudio

def write_tar(items, name):
    with tarfile.open(name, "w") as tar:
        for item in items:
            audio, rate = soundfile.read(item["wav"], dtype="float32", always_2d=True)
            audio = torchaudio.transforms.Resample(rate, 16000)(torch.from_numpy(audio.T.copy()))
            samples = (audio * (1 << 15)).to(torch.int16)
            with io.BytesIO() as file:
                soundfile.write(file, samples.T.numpy(), 16000, format="WAV")
                data = file.getvalue()
            for suffix, content in (("txt", item["txt"].encode()), ("wav", data)):
                info = tarfile.TarInfo(item["key"] + "." + suffix)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))

if __name__ == "__main__":
    manifest, out = sys.argv[1:]
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


def print_processor_time(one: Contestant, other: Contestant) -> None:
    """Of all their processes; on a busy machine it tells more than the clock."""
    ours, theirs = statistics.median(other.processor_seconds), statistics.median(one.processor_seconds)
    print(f"  processor time: {theirs:.2f} s against {ours:.2f} s, {theirs / ours:.2f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--work", type=Path, help="folder for the files (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        folder = Path(name)
        out = folder / "out"

        def clear() -> None:
            for path in (out, folder / "out.prepcli"):
                shutil.rmtree(path, ignore_errors=True)

        def prepcli(label: str, command: str, source: Path, *extra: str) -> Contestant:
            return Contestant(label, [*PREPCLI, command, str(source), str(out), "--num-workers", "2", *extra], clear)

        size = ("--shard-size", "500")
        rates = {rate: make_files(folder, options.files, rate) for rate in (16000, 22050)}
        for rate, what in ((16000, "copied"), (22050, "resampled from 22050 Hz")):
            more = () if rate == 16000 else ("--target-sample-rate", "16000")
            ours = prepcli("prepcli manifest-to-wenet, 2 workers", "manifest-to-wenet", rates[rate], *size, *more)
            loop = [sys.executable, "-c", MAKE_SHARD_LIST, str(rates[rate]), str(out)]
            theirs = Contestant("the loop of make_shard_list.py, 2 processes", loop, clear)
            print(f"{options.files:,} WAV files of 5 s for WeNet at 16 kHz, {what}; last column: time over prepcli's")
            in_turn([ours, theirs], options.runs)
            print_table([ours, theirs], ours)
            print_processor_time(theirs, ours)
        tarred = prepcli("prepcli manifest-to-tarred, 2 workers", "manifest-to-tarred", rates[16000], *size)
        parquet = prepcli("prepcli manifest-to-parquet, 2 workers", "manifest-to-parquet", rates[16000], *size)
        print("the same files copied into Parquet; last column: time over that of manifest-to-tarred")
        in_turn([tarred, parquet], options.runs)
        print_table([tarred, parquet], tarred)
        print_processor_time(parquet, tarred)


if __name__ == "__main__":
    main()
