"""`prepcli score` against the loop that people write: librosa for the bandwidth, pyloudnorm for the loudness.

    python benchmarks/score.py                       # 200 recordings of 10 s per rate; 5 runs
    python benchmarks/score.py --files 20 --runs 3

The recordings are FLAC of 16 bits, noise in the rhythm of syllables, and stay in the page cache. All run with one
worker and one thread per library. The loop computes two fields, `basic` all fourteen. "x real time" is seconds of audio
per second of processor time, medians, without the start of the program (a run over one recording). The numbers of the
loop must be those of the fields.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from side_by_side import PREPCLI, Contestant, in_turn

RIVAL = """
import json, os, sys
import librosa, numpy, pyloudnorm

folder = os.path.dirname(sys.argv[1])
with open(sys.argv[1]) as manifest, open(sys.argv[2], "w") as out:
    for line in manifest:
        record = json.loads(line)
        audio, rate = librosa.load(os.path.join(folder, record["audio_filepath"]), sr=None)
        spectrum = librosa.stft(y=audio, n_fft=512, hop_length=int(rate * 0.01), window="blackmanharris")
        in_db = librosa.power_to_db(numpy.mean(numpy.abs(spectrum) ** 2, axis=1), ref=512, top_db=100.0)
        record["bandwidth"] = int(numpy.flatnonzero(in_db - in_db.max() > -50)[-1] * (rate / 512))
        record["loudness"] = pyloudnorm.Meter(rate).integrated_loudness(audio.astype(numpy.float64))
        out.write(json.dumps(record) + "\\n")
"""
SECONDS = 10
LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def make_manifest(folder: Path, count: int, rate: int) -> Path:
    """Recordings that differ, and their manifest."""
    rng, times = np.random.default_rng(rate), np.arange(SECONDS * rate) / rate
    lines = []
    for number in range(count):
        noise = rng.standard_normal(len(times), np.float32) * (0.02 + np.abs(np.sin(times * (8 + number % 5))))
        soundfile.write(folder / f"{number}.flac", 0.1 * noise, rate, subtype="PCM_16")
        record = {"audio_filepath": f"{number}.flac", "duration": float(SECONDS), "text": "a text of some words"}
        lines.append(json.dumps(record) + "\n")
    (folder / "one.json").write_text(lines[0])
    (folder / "all.json").write_text("".join(lines))
    return folder


def contestants(folder: Path, name: str) -> list[Contestant]:
    """The loop, and prepcli with one worker for `basic` and for `basic,speech`, over a manifest of the folder."""
    found = [Contestant("librosa and pyloudnorm", [sys.executable, "-c", RIVAL, f"{folder}/{name}", f"{folder}/loop"])]
    for fields in ("basic", "basic,speech"):
        words = ["score", f"{folder}/{name}", f"{folder}/{fields}.json", "--fields", fields, "--num-workers", "1"]
        found.append(Contestant(f"score --fields {fields}", [*PREPCLI, *words, "--overwrite"]))
    return found


def compare(folder: Path) -> None:
    """Stop if the numbers differ."""
    for ours, theirs in zip((folder / "basic.json").open(), (folder / "loop").open(), strict=True):
        one, other = json.loads(ours), json.loads(theirs)
        if one["bandwidth"] != other["bandwidth"] or abs(one["loudness"] - other["loudness"]) > 2e-6:
            raise SystemExit(f"the numbers differ: {ours}{theirs}")


def main() -> None:
    """Make the recordings, measure in turn, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rates", type=int, nargs="+", default=[16000, 24000, 44100])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(LIBRARIES, "1"))
    for rate in options.rates:
        with tempfile.TemporaryDirectory() as name:
            folder = make_manifest(Path(name), options.files, rate)
            started, found = contestants(folder, "one.json"), contestants(folder, "all.json")
            in_turn(started, options.runs)
            in_turn(found, options.runs)
            compare(folder)
            print(f"{options.files} recordings of {SECONDS} s at {rate} Hz; load {os.getloadavg()[0]:.1f}")
            for start, one in zip(started, found, strict=True):
                used = statistics.median(one.processor_seconds) - statistics.median(start.processor_seconds)
                speed = (options.files - 1) * SECONDS / used
                print(f"  {one.name:<28} {speed:7.0f} x real time   {one.peak_mb:5.0f} MB   {one.median:6.2f} s")


if __name__ == "__main__":
    main()
