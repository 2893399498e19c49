"""`prepcli segment` by speech against the loop that people write: Silero's `get_speech_timestamps`, and merging.

    python benchmarks/segment.py                     # 10 min and 1 h of speech, WAV and FLAC; 3 runs
    python benchmarks/segment.py --hours 10 --runs 1 # 10 h take the loop 13 GB

Speech is that of the mini corpus in random order, with pauses of 0.1 to 2 s, at 16 kHz; files stay in the page cache.
Both have one worker and one thread per library. "x real time" is seconds of audio per second of processor time with
decoding, medians; without the start of the program, which is a run over 1 s. With espeak-ng, whose library says when it
says each word, the share of cuts within words is given for both, and for a grid of 30 s.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from side_by_side import PREPCLI, Contestant, in_turn

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests/data/mini_corpus"
RATE = 16000
LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LOOP = """
import json, sys
import soundfile, torch
from silero_vad import get_speech_timestamps, load_silero_vad
from torchaudio.functional import resample

torch.set_num_threads(1)
samples, rate = soundfile.read(sys.argv[1], dtype="float32")
audio = torch.from_numpy(samples)
if rate != 16000:
    audio = resample(audio, rate, 16000)
merged = []
for stamp in get_speech_timestamps(audio, load_silero_vad(onnx=True)):
    start, end = stamp["start"] / 16000, stamp["end"] / 16000
    if merged and start - merged[-1][1] <= 1.0 and end - merged[-1][0] <= 20.0:
        merged[-1][1] = end
    else:
        merged.append([start, end])
with open(sys.argv[2], "w") as out:
    for start, end in merged:
        line = {"audio_filepath": sys.argv[1], "offset": start, "duration": end - start}
        out.write(json.dumps(line) + "\\n")
"""


def blocks(seconds: float) -> Iterator[np.ndarray]:
    """Speech of the mini corpus in random order, and pauses."""
    import soxr

    seeded, length, total, spoken = random.Random(1), 0, round(seconds * RATE), []
    for path in sorted(CORPUS.glob("s0*/*.flac")):
        samples, rate = soundfile.read(path, dtype="float32")
        spoken.append(soxr.resample(samples, rate, RATE))
    while length < total:
        block = np.concatenate([seeded.choice(spoken), np.zeros(round(seeded.uniform(0.1, 2) * RATE), np.float32)])
        block = block[: total - length]
        length += len(block)
        yield block


def recording(path: Path, seconds: float) -> Path:
    """Write a recording of speech."""
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16") as file:
        for block in blocks(seconds):
            file.write(block)
    return path


def contestants(path: Path) -> list[Contestant]:
    """The loop, and prepcli, over one recording."""
    out = path.with_name(f"{path.stem}_{path.suffix[1:]}.json")
    words = ["segment", str(path), str(out), "--overwrite", "--num-workers", "1"]
    loop = [sys.executable, "-c", LOOP, str(path), f"{out}.loop"]
    return [
        Contestant("get_speech_timestamps and merging", loop),
        Contestant("segment --by speech", [*PREPCLI, *words]),
    ]


def measure(folder: Path, hours: float, runs: int) -> None:
    """Print speed and memory for WAV and FLAC."""
    for suffix in ("wav", "flac"):
        started = contestants(recording(folder / f"short.{suffix}", 1))
        found = contestants(recording(folder / f"long.{suffix}", hours * 3600))
        in_turn(started, runs)
        in_turn(found, runs)
        print(f"{hours:g} h, {suffix.upper()}; load {os.getloadavg()[0]:.1f}")
        for start, one in zip(started, found, strict=True):
            used = statistics.median(one.processor_seconds) - statistics.median(start.processor_seconds)
            print(
                f"  {one.name:<36} {hours * 3600 / used:6.0f} x real time  {one.peak_mb:6.0f} MB  {one.median:7.2f} s"
            )


def cuts(folder: Path, minutes: float) -> None:
    """Print the share of cuts within words, for four voices of espeak-ng with and without noise."""
    sys.path.insert(0, str(ROOT))
    from tests.commands.segment.test_speech import vocabulary
    from tests.support.espeak_words import VOICES, talk, with_noise

    counts: dict[str, list[Any]] = {}
    for language, voice in VOICES.items():
        talked = talk(voice, vocabulary(language), 60 * minutes, random.Random(language))
        for decibels in (0, 30, 15):
            path = folder / f"{language}{decibels}.wav"
            samples = with_noise(talked.samples, decibels, seed=1) if decibels else talked.samples
            soundfile.write(path, samples, talked.rate)
            loop, ours = contestants(path)
            loop.run()
            ours.run()
            out = path.with_name(f"{path.stem}_wav.json")
            length = len(talked.samples) / talked.rate
            grid = [{"offset": start, "duration": min(30, length - start)} for start in range(0, int(length), 30)]
            all_lines = {
                loop.name: [json.loads(line) for line in Path(f"{out}.loop").read_text().splitlines()],
                ours.name: [json.loads(line) for line in out.read_text().splitlines()],
                "windows of 30 s": grid,
            }
            starts = [word.start / talked.rate for word in talked.words]
            ends = [word.end / talked.rate for word in talked.words]
            for name, lines in all_lines.items():
                places = {round(place, 4) for x in lines for place in (x["offset"], x["offset"] + x["duration"])}
                words = [(place, bisect_right(starts, place - 1e-4) - 1) for place in places]
                within = sum(number >= 0 and place < ends[number] - 1e-4 for place, number in words)
                order = sorted((x["offset"], x["offset"] + x["duration"]) for x in lines)
                before = [(at, bisect_right(order, (at + 1e-4, 1e9)) - 1) for at in starts]
                lost = sum(number < 0 or at >= order[number][1] for at, number in before)
                count = counts.setdefault(name, [0, 0, 0, 0, 0])
                count[:4] = [a + b for a, b in zip(count, (len(places), within, len(starts), lost), strict=False)]
                count[4] = max(count[4], max(x["duration"] for x in lines))
    print(f"{len(VOICES)} voices of {minutes:g} min, as they are and with noise at 30 and 15 dB")
    for name, (num_cuts, num_within, num_words, num_lost, longest) in counts.items():
        print(
            f"  {name:<36} {100 * num_within / num_cuts:6.2f} % of {num_cuts} cuts within words   "
            f"{100 * num_lost / num_words:5.2f} % of {num_words} words begin outside   longest {longest:.2f} s"
        )


def main() -> None:
    """Make the recordings, measure in turn, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, nargs="+", default=[1 / 6, 1])
    parser.add_argument("--minutes", type=float, default=20, help="of each voice of espeak-ng")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(LIBRARIES, "1"))
    for hours in options.hours:
        with tempfile.TemporaryDirectory() as name:
            measure(Path(name), hours, options.runs)
    if options.minutes and shutil.which("espeak-ng"):
        with tempfile.TemporaryDirectory() as name:
            cuts(Path(name), options.minutes)


if __name__ == "__main__":
    main()
