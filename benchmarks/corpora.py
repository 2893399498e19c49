"""`prepcli download librispeech` against a sox and a soxi process per file; hashing and unpacking, alone and together.

    python benchmarks/corpora.py                  # the size of dev-clean: 2,703 utterances, 5.4 hours; 2 workers
    python benchmarks/corpora.py --files 1000 --mean 12.3    # utterances as long as those of the train sets

The archive is made here, in LibriSpeech's layout, and is on the disk already: what a network would add is not measured.
"Converting" is FLAC to WAV with durations and the manifest, from a tree that is unpacked. The other program does what
NeMo's script does for each line of a transcript, in as many processes: sox makes the WAV, soxi tells its duration. It
flushes nothing to the disk; prepcli flushes every file. "CPU" counts all processes of a run, and depends little on
other work on the machine. What a run made is put aside and deleted when all is measured: ext4 looks for a free inode
much longer for a minute after many files were deleted.
"""

import argparse
import io
import os
import resource
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import soundfile
from side_by_side import PREPCLI, Contestant, in_turn, print_table

from prepcli.commands.download.corpus_unpack import file_checksum, unpack, unpack_checked

RIVAL = """
import json, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

source, target, workers = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
target.mkdir()

def convert(line):
    transcript, words = line
    name, _, text = words.partition(" ")
    wav = target / f"{name}.wav"
    subprocess.run(["sox", transcript.parent / f"{name}.flac", wav], check=True)
    duration = float(subprocess.check_output(["soxi", "-D", wav]))
    return json.dumps({"audio_filepath": str(wav), "duration": duration, "text": text.lower()})

lines = [(path, line) for path in sorted(source.glob("*/*/*.trans.txt")) for line in path.read_text().splitlines()]
with ThreadPoolExecutor(workers) as pool, open(f"{target}.json", "w") as manifest:
    for record in pool.map(convert, lines):
        manifest.write(record + "\\n")
"""


def make_archive(path: Path, count: int, mean: float) -> None:
    """Utterances of `mean` seconds, a third to five thirds of it, that compress like speech, 25 per chapter."""
    generator = np.random.default_rng(0)
    with tarfile.open(path, "w:gz", compresslevel=6) as out:

        def add(name: str, data: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))

        lines: list[str] = []
        for number in range(count):
            speaker, chapter, index = 1000 + number // 100, 100000 + number // 25, number % 25
            moment = np.arange(int(16000 * mean * (1 / 3 + number * 7 % 95 / 70))) / 16000
            envelope = np.clip(np.sin(2 * np.pi * (1.3 + number % 5 * 0.2) * moment), 0, 1) ** 2
            voice = np.sin(2 * np.pi * (90 + number % 90) * moment) + 0.3 * np.sin(2 * np.pi * 1700 * moment)
            samples = 5000 * envelope * voice + generator.normal(0, 20 + 200 * envelope)
            flac = io.BytesIO()
            soundfile.write(flac, samples.astype(np.int16), 16000, format="FLAC")
            folder = f"LibriSpeech/dev-clean/{speaker}/{chapter}"
            add(f"{folder}/{speaker}-{chapter}-{index:04d}.flac", flac.getvalue())
            lines.append(f"{speaker}-{chapter}-{index:04d} SO IT WAS SAID\n")
            if index == 24 or number == count - 1:
                add(f"{folder}/{speaker}-{chapter}.trans.txt", "".join(lines).encode())
                lines = []


def prepcli(data: Path, archive: Path, checksums: Path, *more: str) -> list[str]:
    """The command, for data that are to be made in `data`."""
    command = [*PREPCLI, "download", "librispeech", "--data-root", str(data), "--archive", str(archive)]
    return [*command, "--checksums", str(checksums), *more]


def put_aside(path: Path, trash: Path) -> None:
    if path.exists():
        path.rename(trash / f"{len(list(trash.iterdir()))}")


def forget_conversion(data: Path, trash: Path) -> None:
    """Leave what unpacking left, so that the next run converts again."""
    work = data.with_name(f"{data.name}.prepcli") / "sets/dev_clean"
    made = (*(path.parent for path in work.glob("*/plan.json")), *map(work.joinpath, ("owner.json", "report.json")))
    for path in (data / "LibriSpeech/dev-clean-processed", data / "dev_clean.json", work / "rejects.jsonl", *made):
        put_aside(path, trash)


def compare_conversion(folder: Path, archive: Path, checksums: Path, workers: int, runs: int) -> None:
    data = folder / "data"
    own = prepcli(data, archive, checksums, "--num-workers", str(workers))
    rival_out, trash = folder / "rival", folder / "trash"
    trash.mkdir()
    Contestant("unpack", [*own, "--fetch-only"]).run()
    contestants = [
        Contestant("prepcli, from an unpacked tree", own, lambda: forget_conversion(data, trash)),
        Contestant(
            "sox and soxi, a process of each per file",
            [sys.executable, "-c", RIVAL, str(data / "LibriSpeech/dev-clean"), str(rival_out), str(workers)],
            lambda: put_aside(rival_out, trash),
        ),
    ]
    in_turn(contestants, runs)
    print(f"converting, {workers} workers each")
    print_table(contestants, contestants[0])
    for contestant in contestants:
        contestant.prepare()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        contestant.run(count=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"  {contestant.name:<44} {seconds:7.2f} s of CPU")
    for path in rival_out.glob("*.wav"):
        mine, _ = soundfile.read(data / "LibriSpeech/dev-clean-processed" / path.name, dtype="int16")
        theirs, _ = soundfile.read(path, dtype="int16")
        assert (mine == theirs).all(), path
    print("  the samples of all files are equal")


def compare_overlap(folder: Path, archive: Path, runs: int) -> None:
    """Each work in turn, several times, within this process."""
    works: dict[str, Callable[[Path], object]] = {"unpacking alone": lambda out: unpack(archive, out)}
    for algorithm in ("sha256", "md5"):
        checksum = file_checksum(archive, algorithm)
        works[f"{algorithm} alone"] = partial(lambda name, _: file_checksum(archive, name), algorithm)
        works[f"both at once, {algorithm}"] = partial(lambda known, out: unpack_checked(archive, out, known), checksum)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            put_aside(out := folder / "unpacked", folder / "trash")
            os.sync()
            start = time.perf_counter()
            work(out)
            seconds[name].append(time.perf_counter() - start)
    print(f"hashing and unpacking, {archive.stat().st_size / 1e6:.0f} MB of archive")
    for name, taken in seconds.items():
        print(f"  {name:<44} {statistics.median(taken):7.2f} s ({min(taken):.2f} to {max(taken):.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2703)
    parser.add_argument("--mean", type=float, default=7.16, help="seconds per utterance")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path, help="folder for the files (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        folder = Path(name)
        archive = folder / "dev-clean.tar.gz"
        # In a process of its own: what it takes would count as the peak of every process that is started from here.
        with ProcessPoolExecutor(1, get_context("spawn")) as apart:
            apart.submit(make_archive, archive, options.files, options.mean).result()
        checksums = folder / "md5sum.txt"
        checksums.write_text(f"{file_checksum(archive, 'md5').partition(':')[2]}  {archive.name}\n")
        compare_conversion(folder, archive, checksums, options.workers, options.runs)
        compare_overlap(folder, archive, options.runs)


if __name__ == "__main__":
    main()
