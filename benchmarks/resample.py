"""soxr against torchaudio, on one core: speed in alternating runs, and what both do to tones.

    python benchmarks/resample.py

Speed is in seconds of audio per second (xRT). The tones: the largest gain error up to 80 and 90 % of the lower Nyquist
frequency, and the level of tones above it that come back as aliases, from 105 % and from 120 % of it on.
"""

import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import torchaudio  # type: ignore[import-untyped]
from numpy.typing import NDArray

from prepcli.audio.resample import resample

RATES = ((44100, 22050), (48000, 16000), (44100, 16000))
SECONDS = 10
RUNS = 21

Samples = NDArray[np.float32]
Resampler = Callable[[Samples], Samples]


def resamplers(from_rate: int, to_rate: int) -> dict[str, Resampler]:
    kernel = torchaudio.transforms.Resample(from_rate, to_rate)

    def with_kernel(samples: Samples) -> Samples:
        result: Samples = kernel(torch.from_numpy(samples)).numpy()
        return result

    return {
        "soxr HQ (prepcli)": lambda samples: resample(samples, from_rate, to_rate),
        "torchaudio, kernel kept": with_kernel,
    }


def xrt(functions: dict[str, Resampler], from_rate: int) -> dict[str, float]:
    """Median speed of each, the runs taking turns so that a slow moment of the machine hits all."""
    samples = np.random.default_rng(0).normal(0, 0.1, SECONDS * from_rate).astype(np.float32)
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(RUNS):
        for name, function in functions.items():
            start = time.perf_counter()
            function(samples)
            times[name].append(time.perf_counter() - start)
    return {name: SECONDS / statistics.median(taken) for name, taken in times.items()}


def gain(function: Resampler, frequency: float, from_rate: int) -> float:
    """Level of a tone after resampling relative to before, in dB; the ends of the audio are left out."""
    time_axis = np.arange(from_rate) / from_rate
    tone = (0.5 * np.sin(2 * np.pi * frequency * time_axis)).astype(np.float32)
    out = function(tone)
    middle = out[len(out) // 5 : -len(out) // 5].astype(np.float64)
    power = float(np.mean(middle**2))
    return 10 * math.log10(max(power, 1e-20) / 0.125)


def quality(function: Resampler, from_rate: int, to_rate: int) -> str:
    nyquist = to_rate / 2
    below = {
        share: max(abs(gain(function, nyquist * x, from_rate)) for x in np.linspace(0.02, share, 30))
        for share in (0.8, 0.9)
    }
    above = {
        share: max(gain(function, nyquist * x, from_rate) for x in np.linspace(share, 0.99 * from_rate / to_rate, 30))
        for share in (1.05, 1.2)
    }
    return (
        f"gain error {below[0.8]:.4f} dB to 80 %, {below[0.9]:.4f} to 90 %; "
        f"aliases {above[1.05]:.0f} dB from 105 %, {above[1.2]:.0f} from 120 %"
    )


def main() -> None:
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, torchaudio {torchaudio.__version__}; median of {RUNS} runs, one thread")
    for from_rate, to_rate in RATES:
        functions = resamplers(from_rate, to_rate)
        speeds = xrt(functions, from_rate)
        ours, theirs = speeds.values()
        print(f"{from_rate} -> {to_rate} Hz, ratio {ours / theirs:.2f}")
        for name, function in functions.items():
            print(f"  {name:24} {speeds[name]:6.0f} xRT  {quality(function, from_rate, to_rate)}")


if __name__ == "__main__":
    main()
