"""`prepcli find-duplicates --by audio,near-audio` on planted copies: what is found, what is wrong, how fast.

    python benchmarks/duplicates.py                                  # 10,000 records of 3 to 8 s, made here
    python benchmarks/duplicates.py --speech FOLDER/manifest.json    # real recordings, cut up, and their copies
    python benchmarks/duplicates.py --hours 10 30 100                # time and memory by hours, of noise at 8 kHz

Made audio is noise with the formants, pitch, syllables and pauses of many speakers. A quarter of the records are copies
of others: exact (WAV of FLAC), MP3 of 64 kbit/s by ffmpeg, at 22.05 kHz, louder (clipped) and quieter by 6 dB, without
the first 0.5 s, and between 3 s of others on either side. A false pair are two records of a group that do not come from
one original. One worker; "x real time" is audio over processor time of the whole command.
"""

import argparse
import json
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray
from side_by_side import PREPCLI, Contestant

from prepcli.audio.resample import resample

Samples = NDArray[np.int16]
RATE = 16000
PER_SPEAKER = 100
LENGTHS = (
    (0.0, 0.6, "below 0.6 s"),
    (0.6, 1.03, "0.6 to 1.03 s"),
    (1.03, 2.0, "1.03 to 2 s"),
    (2.0, 1e9, "from 2 s"),
)
KINDS = ("exact", "MP3, 64 kbit/s", "22.05 kHz", "+6 dB", "-6 dB", "0.5 s shorter", "inside a longer one")


class Planted(NamedTuple):
    """A record: its original, the kind of copy (empty for the original itself), and its speaker."""

    original: int
    kind: str
    speaker: str
    seconds: float


def voice(speaker: int, seed: int, seconds: float, rate: int = RATE) -> Samples:
    """Noise with the envelope of speech: syllables of 80 to 300 ms, four formants, harmonics of a pitch, pauses."""
    own, rng = np.random.default_rng([speaker]), np.random.default_rng([speaker, seed])
    size = rate // 32
    hop = size // 2
    count = int(seconds * rate) // hop + 2
    syllables = rng.integers(80, 300, int(seconds / 0.08) + 4) * rate // (1000 * hop) + 1
    of_frame = np.repeat(np.arange(len(syllables)), syllables)[:count]
    centres = own.uniform(0.85, 1.15) * rng.uniform(
        [300, 800, 2000, 3000], [900, 2300, 3100, 4200], (len(syllables), 4)
    )
    frequency = np.fft.rfftfreq(size, 1 / rate)
    envelope = np.exp(-(((frequency - centres[..., None]) / 180) ** 2)).sum(axis=1) + 0.003
    voiced = rng.random(len(syllables)) < 0.75
    loudness = np.where(rng.random(len(syllables)) < 0.12, 0.003, rng.uniform(0.3, 1, len(syllables)))
    pitch = own.uniform(90, 240) * np.exp(np.cumsum(rng.normal(0, 0.02, count)).clip(-0.4, 0.4))
    comb = np.where(voiced[of_frame, None], np.cos(np.pi * frequency / pitch[:, None]) ** 8, 0.3)
    shape = envelope[of_frame] * loudness[of_frame, None] * comb
    spectrum = shape * np.exp(2j * np.pi * rng.random(shape.shape))
    frames = np.fft.irfft(spectrum, size) * np.hanning(size + 1)[:-1]
    signal = np.zeros((count + 1) * hop)
    signal[: count * hop] += frames[:, :hop].ravel()
    signal[hop:] += frames[:, hop:].ravel()
    signal = signal[hop : hop + int(seconds * rate)]
    signal += rng.normal(0, 1e-3 * np.abs(signal).max(), len(signal))
    whole: Samples = np.rint(signal * (9000 / np.abs(signal).max())).astype(np.int16)
    return whole


def syllables(seed: int, seconds: float, rate: int) -> Samples:
    """White noise whose loudness changes ten times a second: much of it is made in little time."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(-128, 128, int(seconds * rate), np.int16)
    return noise * rng.integers(1, 100, -(-len(noise) * 10 // rate)).astype(np.int16).repeat(rate // 10)[: len(noise)]


def copies(folder: Path, name: str, kind: str, samples: Samples, rate: int, other: Samples) -> Path:
    """Write a copy; MP3 is written by `encode` later."""
    path = folder / f"{name}.wav"
    if kind == "22.05 kHz":
        samples, rate = resample(samples, rate, 22050), 22050
    elif kind == "+6 dB":
        samples = (samples * 2.0).clip(-32768, 32767).astype(np.int16)
    elif kind == "-6 dB":
        samples = samples // 2
    elif kind == "0.5 s shorter":
        samples = samples[rate // 2 :]
    elif kind == "inside a longer one":
        samples = np.concatenate([other[: 3 * rate], samples, other[-3 * rate :]])
    soundfile.write(path, samples, rate)
    return path


def encode(files: dict[Path, Path], *options: str) -> None:
    """Code WAV files with ffmpeg, many in one process, into the files that they are mapped to; then remove them."""
    pairs = list(files.items())
    for start in range(0, len(pairs), 50):
        some = pairs[start : start + 50]
        given = [word for source, _ in some for word in ("-i", str(source))]
        made = [word for number, (_, coded) in enumerate(some) for word in ("-map", str(number), *options, str(coded))]
        subprocess.run(["ffmpeg", "-v", "error", "-y", *given, *made], check=True)
        for source, _ in some:
            source.unlink()


def made_originals(count: int) -> Iterator[tuple[Samples, int, str]]:
    """Samples, rate and speaker of records of 3 to 8 s."""
    for number in range(count):
        seconds = 3 + 5 * ((number * 0.618) % 1)
        yield voice(number // PER_SPEAKER, number, seconds), RATE, str(number // PER_SPEAKER)


def real_originals(manifest: Path) -> Iterator[tuple[Samples, int, str]]:
    """The records of a manifest; those of more than 3 s as segments of 1.5 s, for many pairs. Silence is left out."""
    for line in manifest.read_text().splitlines():
        record = json.loads(line)
        samples, rate = soundfile.read(manifest.parent / record["audio_filepath"], dtype="int16")
        size = len(samples) if len(samples) < 3 * rate else int(1.5 * rate)
        for start in range(0, len(samples) - size + 1, size):
            segment = samples[start : start + size]
            if np.abs(segment).max() > 30:
                yield segment, rate, record["speaker"]


def plant(folder: Path, originals: Iterator[tuple[Samples, int, str]], every: int) -> dict[str, Planted]:
    """Write originals, and a copy of each kind for one of `every` of them in turn; returns the records by path."""
    records, lossy = {}, []
    previous: dict[int, Samples] = {}
    for number, (samples, rate, speaker) in enumerate(originals):
        path = folder / f"{number:06d}.flac"
        soundfile.write(path, samples, rate)
        records[str(path)] = Planted(number, "", speaker, len(samples) / rate)
        other = previous.get(rate, samples[::-1])
        for kind in KINDS:
            if number % every != KINDS.index(kind) % every:
                continue
            if kind == "0.5 s shorter" and len(samples) < 1.6 * rate:
                continue
            # A copy of three seconds of another original would be one as well, so its neighbours are played backwards.
            path = copies(folder, f"{number:06d}_{KINDS.index(kind)}", kind, samples, rate, np.tile(other[::-1], 3))
            if kind.startswith("MP3"):
                lossy.append(path)
                path = path.with_suffix(".mp3")
            records[str(path)] = Planted(number, kind, speaker, len(samples) / rate)
        previous[rate] = samples
    encode({path: path.with_suffix(".mp3") for path in lossy}, "-b:a", "64k")
    return records


def write_manifest(path: Path, records: dict[str, Planted]) -> float:
    """Write the lines of the records; returns the hours of audio."""
    total = 0.0
    with path.open("w") as file:
        for name, planted in records.items():
            info = soundfile.info(name)
            total += info.duration
            line = {"audio_filepath": name, "duration": info.duration, "text": "", "speaker": planted.speaker}
            file.write(json.dumps(line) + "\n")
    return total / 3600


def run(folder: Path, hours: float, by: str) -> list[dict[str, Any]]:
    """Run the command on `m.json`; prints its speed and memory, and returns the lines that it has written."""
    out = folder / f"{by}_{hours}.jsonl"
    command = [*PREPCLI, "find-duplicates", str(folder / "m.json"), str(out), "--by", by, "--num-workers", "1"]
    one = Contestant(by, command)
    one.run()
    cpu = one.processor_seconds[0]
    print(
        f"--by {by}: {hours:.2f} h, {one.seconds[0]:.1f} s, {cpu:.1f} processor seconds, "
        f"{3600 * hours / cpu:,.0f} x real time a core, {one.peak_mb:.0f} MB",
        flush=True,
    )
    return [json.loads(line) for line in out.read_text().splitlines()]


def score(lines: list[dict[str, Any]], records: dict[str, Planted], by: str) -> None:
    """Print the share of copies that were found with their originals, by kind, and the false pairs."""
    groups: dict[int, list[Planted]] = defaultdict(list)
    for line in lines:
        if line["duplicate_by"] == by:
            groups[line["duplicate_group"]].append(records[line["audio_filepath"]])
    found = {
        (one.original, one.kind)
        for group in groups.values()
        for one in group
        if one.kind and any(other.original == one.original and not other.kind for other in group)
    }
    for kind in KINDS:
        for least, below, length in LENGTHS:
            planted = [one for one in records.values() if one.kind == kind and least <= one.seconds < below]
            if planted:
                hits = sum((one.original, kind) in found for one in planted)
                print(f"  {by}: {kind}, {length}: {hits} of {len(planted)} ({100 * hits / len(planted):.2f} %)")
    false = {
        tuple(sorted((one, other)))
        for group in groups.values()
        for one, other in combinations(group, 2)
        if one.original != other.original
    }
    everything = list(records.values())
    per_speaker = Counter(one.speaker for one in everything)
    per_original = Counter(one.original for one in everything)
    same = sum(count * (count - 1) // 2 for count in per_original.values())
    of_speaker = sum(count * (count - 1) // 2 for count in per_speaker.values()) - same
    pairs = len(everything) * (len(everything) - 1) // 2 - same
    within = sum(one.speaker == other.speaker for one, other in false)
    print(f"  {by}: {len(false)} false of {pairs:,} pairs, {within} of {of_speaker:,} pairs of one speaker")
    for one, other in sorted(false)[:10]:
        print(f"    {one} {other}")


def planted_set(folder: Path, args: argparse.Namespace) -> None:
    """Plant copies, and print what both kinds find."""
    made = made_originals(args.records * 3 // 4)
    records = plant(folder, real_originals(args.speech), 1) if args.speech else plant(folder, made, 3 * len(KINDS))
    hours = write_manifest(folder / "m.json", records)
    print(f"{len(records):,} records, of which {sum(bool(one.kind) for one in records.values()):,} are copies")
    run(folder, hours, "audio")
    lines = run(folder, hours, "audio,near-audio")
    score(lines, records, "audio")
    score(lines, records, "near-audio")


def by_hours(folder: Path, hours: list[float]) -> None:
    """Print time and memory for sets of so many hours, each with the set before it; no record is a copy."""
    rate, seconds, done = 8000, 30.0, 0
    with (folder / "m.json").open("w") as manifest:
        for target in hours:
            for number in range(done, round(target * 3600 / seconds)):
                path = folder / f"{number:06d}.wav"
                soundfile.write(path, syllables(number, seconds, rate), rate, subtype="ULAW")
                line = {"audio_filepath": str(path), "duration": seconds, "text": ""}
                manifest.write(json.dumps(line) + "\n")
                done += 1
            manifest.flush()
            print(f"  {len(run(folder, target, 'near-audio'))} records in groups")


def main() -> None:
    """Make the records, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--speech", type=Path, help="manifest of real recordings, instead of made ones")
    parser.add_argument("--hours", type=float, nargs="+", help="measure time and memory by hours instead")
    parser.add_argument("--dir", type=Path, help="folder for the files")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        if args.hours:
            by_hours(Path(folder), args.hours)
        else:
            planted_set(Path(folder), args)


if __name__ == "__main__":
    main()
