"""Index, plan and dry run of every job over a manifest of 10 million lines: seconds, peak memory, and is it linear?

    python benchmarks/scale.py                                 # 1, 3 and 10 million lines; 2 GB of disk
    python benchmarks/scale.py --lines 100000 300000 --only extend-context-audio
    python benchmarks/scale.py --lines 1000000 --ranks 4       # one rank, four ranks, and a second start

The manifest (about 180 bytes per line) is made by the script and grows from one length to the next. For
extend-codec-codes there is a Lhotse Shar of as many cuts, 4096 per shard: one shard, linked, with tars that a plan does
not open. Every command is a whole process, imports included. Each cell: seconds by the clock (processor seconds of all
processes), memory of the largest process. The microseconds per line are processor time, which other work on the machine
disturbs little. The last column extends the straight lines through the two longest: an estimate, not a measurement.

With `--ranks`, one of several ranks with one worker each indexes and plans manifest-to-tarred (`sharing.py`).
"""

import argparse
import gzip
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from bins import made_up_words, train_tokenizer
from sharing import print_sharing
from side_by_side import PREPCLI, Contestant

FAR = 100_000_000
SHARD_SIZE = 4096
UTTERANCES_A_SPEAKER = 150
TEXTS = 20_000
_BLOCK = 50_000

INDEX = """
import sys
from prepcli.manifest.index import index_manifests
from prepcli.formats.names import normal_path
print(len(index_manifests([sys.argv[1]], num_workers=int(sys.argv[2]), keys={"path": normal_path})))
"""


def lines(start: int, stop: int) -> Iterator[str]:
    """The lines of the manifest with these numbers; speakers come in order, durations are log-normal, below 40 s."""
    rng = random.Random(start)
    drawn = (rng.choices(of, k=stop - start) for of in values())
    for i, text, duration in zip(range(start, stop), *drawn, strict=True):
        speaker = i // UTTERANCES_A_SPEAKER
        yield (
            f'{{"audio_filepath": "part_{i // 1_000_000:03d}/{speaker:06d}/{i:09d}.flac", '
            f'"duration": {duration}, "text": {text}, "speaker": "{speaker:06d}"}}\n'
        )


@cache
def values() -> tuple[list[str], list[str]]:
    """Texts (words as frequent as Zipf's law has it) and durations, as they stand in a line."""
    rng = random.Random(1)
    words = made_up_words(50_000)
    frequencies = list(accumulate(1 / (rank + 1) for rank in range(len(words))))
    texts = [" ".join(rng.choices(words, cum_weights=frequencies, k=rng.randint(5, 20))) for _ in range(TEXTS)]
    durations = [f"{min(40, max(0.3, rng.lognormvariate(1.6, 0.6))):.3f}" for _ in range(TEXTS)]
    return list(map(json.dumps, texts)), durations


def grow_manifest(path: Path, start: int, stop: int) -> None:
    with path.open("a") as file:
        for begin in range(start, stop, _BLOCK):
            file.write("".join(lines(begin, min(begin + _BLOCK, stop))))


def grow_shar(folder: Path, num_cuts: int) -> None:
    """Shards until there are `num_cuts`, all of them links to the files of the first one."""
    cuts, tars = folder / "cuts", folder / "target_audio"
    first = cuts / "cuts.000000.jsonl.gz", tars / "recording.000000.tar"
    if not cuts.exists():
        cuts.mkdir(parents=True)
        tars.mkdir()
        with gzip.open(first[0], "wt", compresslevel=3) as file:
            file.writelines(json.dumps(cut(json.loads(line), i)) + "\n" for i, line in enumerate(lines(0, SHARD_SIZE)))
        first[1].write_bytes(bytes(10240))
    for number in range(-(-num_cuts // SHARD_SIZE)):
        for one in first:
            link = one.with_name(one.name.replace("000000", f"{number:06d}"))
            if not link.exists():
                os.link(one, link)


def cut(record: dict[str, str], number: int) -> dict[str, object]:
    """A cut as manifest-to-shar writes it."""
    duration = float(record["duration"])
    id = f"cut-{number:09d}"
    audio = {"id": id, "sampling_rate": 22050, "num_samples": round(duration * 22050), "duration": duration}
    recording = {**audio, "sources": [{"type": "shar", "channels": [0], "source": ""}], "channel_ids": [0]}
    supervision = {"id": id, "recording_id": id, "start": 0.0, "duration": duration, "channel": 0}
    supervision |= {"text": record["text"], "speaker": record["speaker"]}
    custom = {"context_recording": recording, "context_speaker_similarity": 0.75}
    whole = {"id": id, "start": 0.0, "duration": duration, "channel": 0, "supervisions": [supervision]}
    return {**whole, "recording": recording, "custom": custom, "type": "MonoCut"}


def grow(folder: Path, start: int, stop: int) -> None:
    grow_manifest(folder / "manifest.json", start, stop)
    grow_shar(folder / "shar", stop)
    if not start:
        # Commands refuse a manifest of which no file of a sample is there; the first record is in each sample.
        first = folder / json.loads(next(lines(0, 1)))["audio_filepath"]
        first.parent.mkdir(parents=True)
        first.touch()
        train_tokenizer(folder / "manifest.json", folder / "tokenizer.model")


def contestants(folder: Path, workers: int) -> list[Contestant]:
    manifest, shar, out, model = (str(folder / name) for name in ("manifest.json", "shar", "out", "tokenizer.model"))
    plan = ("--dry-run", "--num-workers", str(workers))
    codec = folder / "codec"
    commands = {
        "index alone": [sys.executable, "-c", INDEX, manifest, str(workers)],
        "manifest-to-tarred": [
            *PREPCLI,
            "manifest-to-tarred",
            manifest,
            out,
            "--num-shards",
            "1024",
            "--shuffle",
            *plan,
        ],
        "manifest-to-shar": [*PREPCLI, "manifest-to-shar", manifest, out, "--shuffle", *plan],
        "manifest-to-wenet": [*PREPCLI, "manifest-to-wenet", manifest, out, *plan],
        "manifest-to-mels --lists-only": [*PREPCLI, "manifest-to-mels", manifest, out, "--lists-only", *plan],
        "manifest-to-parquet": [*PREPCLI, "manifest-to-parquet", manifest, out, *plan],
        "fix-durations": [*PREPCLI, "fix-durations", manifest, str(folder / "fixed.json"), *plan],
        "extend-text-context": [*PREPCLI, "extend-text-context", shar, *plan],
        "extend-context-audio": [*PREPCLI, "extend-context-audio", manifest, out, "--devices", "cpu", *plan],
        "extend-codec-codes": [*PREPCLI, "extend-codec-codes", shar, "--codec-model", codec.name, *plan],
        "estimate-bins": [*PREPCLI, "estimate-bins", manifest, "--num-workers", str(workers)],
        "estimate-bins-2d": [
            *(*PREPCLI, "estimate-bins-2d", manifest, "-t", model, "-s", "5", "--num-workers", str(workers)),
        ],
    }
    commands["extend-codec-codes"] += ["--devices", "cpu"]
    return [Contestant(name, command) for name, command in commands.items()]


class Figures(NamedTuple):
    """Seconds by the clock, processor seconds, MB."""

    seconds: float
    processor: float
    peak_mb: float


def straight(lengths: list[int], values: list[float]) -> float:
    """Where the line through the last two values is at `FAR` lines."""
    slope = (values[-1] - values[-2]) / (lengths[-1] - lengths[-2])
    return values[-1] + slope * (FAR - lengths[-1])


def print_table(lengths: list[int], rows: dict[str, list[Figures]]) -> None:
    heads = [f"{length / 1e6:g} M lines" for length in lengths]
    slopes = [f"µs per line, {a / 1e6:g} to {b / 1e6:g} M" for a, b in pairwise(lengths)]
    table = [["", *heads, *slopes, *([f"{FAR / 1e6:g} M, extrapolated"] if slopes else [])]]
    for name, figures in rows.items():
        row = [name, *(f"{one.seconds:.1f} s ({one.processor:.1f}), {one.peak_mb:,.0f} MB" for one in figures)]
        for (a, b), (before, after) in zip(pairwise(lengths), pairwise(figures), strict=True):
            row.append(f"{(after.processor - before.processor) / (b - a) * 1e6:.2f}")
        if slopes:
            processor, peak = (straight(lengths, [one[k] for one in figures]) for k in (1, 2))
            row.append(f"{processor:,.0f} processor seconds, {max(peak, figures[-1].peak_mb) / 1000:,.1f} GB")
        table.append(row)
    for number, row in enumerate(table):
        print("| " + " | ".join(row) + " |")
        if not number:
            print("|---" * len(row) + "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--only", nargs="+", help="Commands, or 'index alone'.")
    parser.add_argument("--runs", type=int, default=1, help="Of each; medians are shown.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ranks", type=int, help="Index and plan by so many ranks, compared with one.")
    arguments = parser.parse_args()
    lengths = sorted(arguments.lines)
    rows: dict[str, list[Figures]] = {}
    with tempfile.TemporaryDirectory(prefix="prepcli-scale-") as name:
        folder = Path(name)
        for start, stop in zip([0, *lengths], lengths, strict=False):
            # In a process of its own: what this one takes, Linux adds to the peak of those that it starts.
            growing = multiprocessing.Process(target=grow, args=(folder, start, stop))
            growing.start()
            growing.join()
            if growing.exitcode:
                raise SystemExit("the input could not be made")
            size = (folder / "manifest.json").stat().st_size
            print(f"{stop:,} lines, {size / 1e6:,.0f} MB", file=sys.stderr, flush=True)
            if arguments.ranks:
                print_sharing(folder, stop, arguments.ranks)
                continue
            for one in contestants(folder, arguments.workers):
                if arguments.only and one.name not in arguments.only:
                    continue
                for _ in range(arguments.runs):
                    one.run()
                figures = Figures(one.median, statistics.median(one.processor_seconds), one.peak_mb)
                rows.setdefault(one.name, []).append(figures)
                print(f"  {one.name:<22} {figures}", file=sys.stderr, flush=True)
    if rows:
        print_table(lengths, rows)


if __name__ == "__main__":
    main()
