"""`prepcli manifest-to-mels` against the loop of Tacotron 2's preprocess_audio2mel.py.

    python benchmarks/mels.py                      # 1,000 WAV files of 6.5 s, as in LJSpeech
    python benchmarks/mels.py --files 200 --runs 2

The loop computes as the original does: a Fourier basis as a convolution, magnitude and phase, mel filters, logarithm,
and `torch.save`, file by file, on one core. Both write the same values. "Aside from start-up" takes off the time of the
same command on 8 files, which is mostly the import of PyTorch.

Earlier outputs are put aside and removed at the end (0.5 GB for each run): ext4 without a journal looks at every inode
that was removed in the last minutes when it makes a file, which took up to a millisecond per file.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from side_by_side import PREPCLI, Contestant, in_turn, print_table

LOOP = """
import json, os, sys
import librosa, numpy as np, torch
from scipy.io.wavfile import read

torch.set_num_threads(1)
manifest, out = sys.argv[1:]
os.makedirs(out)
basis = np.fft.fft(np.eye(1024))[:513]
window = torch.hann_window(1024)
basis = torch.FloatTensor(np.vstack([basis.real, basis.imag])[:, None, :]) * window
filters = torch.from_numpy(librosa.filters.mel(sr=22050, n_fft=1024, n_mels=80, fmin=0.0, fmax=8000.0))
for line in open(manifest):
    path = os.path.join(os.path.dirname(manifest), json.loads(line)["audio_filepath"])
    rate, data = read(path)
    audio = torch.FloatTensor(data.astype(np.float32))[None] / 32768.0
    padded = torch.nn.functional.pad(audio[:, None, None], (512, 512, 0, 0), mode="reflect")[:, :, 0]
    both = torch.nn.functional.conv1d(padded, basis, stride=256)
    real, imag = both[:, :513], both[:, 513:]
    magnitude, phase = torch.sqrt(real**2 + imag**2), torch.atan2(imag, real)
    mel = torch.log(torch.clamp(torch.matmul(filters, magnitude), min=1e-5))[0]
    torch.save(mel, os.path.join(out, os.path.basename(path)[:-4] + ".pt"))
"""


def make_files(folder: Path, count: int) -> Path:
    """16-bit WAV of 6.5 s at 22050 Hz."""
    generator = np.random.default_rng(0)
    time = np.arange(int(6.5 * 22050)) / 22050
    voice = np.sin(2 * np.pi * 130 * time) * np.clip(np.sin(2 * np.pi * 1.3 * time), 0, 1)
    lines = []
    for number in range(count):
        samples = 6000 * voice + generator.normal(0, 100, len(time))
        soundfile.write(folder / f"u{number:06d}.wav", samples.astype(np.int16), 22050)
        lines.append({"audio_filepath": f"u{number:06d}.wav", "duration": 6.5, "text": "so it was said"})
    (folder / "few.json").write_text("".join(json.dumps(line) + "\n" for line in lines[:8]))
    manifest = folder / "manifest.json"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return manifest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path, help="folder for the files (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        folder = Path(name)
        manifest = make_files(folder, options.files)
        out = folder / "out"

        def clear() -> None:
            for path in (out, folder / "out.prepcli"):
                if path.exists():
                    path.rename(folder / f"before{len(list(folder.glob('before*')))}")

        def prepcli(source: Path, workers: int) -> Contestant:
            label = f"prepcli, {workers} worker{'s' * (workers > 1)}" + ", 8 files" * (source != manifest)
            command = [*PREPCLI, "manifest-to-mels", str(source), str(out), "--devices", "cpu"]
            return Contestant(label, [*command, "--num-workers", str(workers)], clear)

        def loop(source: Path) -> Contestant:
            label = "the loop, 1 core" + ", 8 files" * (source != manifest)
            return Contestant(label, [sys.executable, "-c", LOOP, str(source), str(out)], clear)

        few = folder / "few.json"
        contestants = [prepcli(manifest, 1), prepcli(manifest, 2), loop(manifest), prepcli(few, 1), loop(few)]
        in_turn(contestants, options.runs)
        print(f"mels of {options.files:,} files of 6.5 s; last column: time over that of prepcli with one worker")
        print_table(contestants, contestants[0])
        one, two, theirs, start_one, start_theirs = contestants

        def aside(contestant: Contestant, start: Contestant) -> float:
            return statistics.median(a - b for a, b in zip(contestant.seconds, start.seconds, strict=True))

        ours, others = aside(one, start_one), aside(theirs, start_theirs)
        print(f"  aside from start-up: {others / ours:.1f} x the loop on one core; ", end="")
        print(f"two workers {ours / aside(two, start_one):.2f} x one")
        own = statistics.median(one.processor_seconds) - statistics.median(start_one.processor_seconds)
        loops = statistics.median(theirs.processor_seconds) - statistics.median(start_theirs.processor_seconds)
        each = 1e3 / options.files
        print(
            f"  processor time of a file: {own * each:.2f} ms, of the loop {loops * each:.2f} ms, {loops / own:.1f} x"
        )


if __name__ == "__main__":
    main()
