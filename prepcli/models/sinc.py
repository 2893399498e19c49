"""Resamples with torchaudio's sinc kernel, so that the samples equal those that trainers get through lhotse."""

from functools import lru_cache
from math import ceil, gcd
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor


MAX_KERNEL_SIZE = 1 << 24
"""Maximum number of values in a kernel, of 8 bytes each. Resampling from 44,100 to 22,050 Hz needs 28 values; from
44,101 to 22,050 Hz it needs a billion."""
# torchaudio's defaults (`lowpass_filter_width`, `rolloff`).
_ZERO_CROSSINGS, _ROLL_OFF = 6, 0.99

Lengths = TypeVar("Lengths", int, "Tensor")


def resampled_length(num_samples: Lengths, from_rate: int, to_rate: int) -> Lengths:
    """Return the number of samples after resampling: num_samples * to_rate / from_rate, rounded half up.

    torchaudio's kernel returns a number that is rounded up. lhotse keeps only the samples within the duration, and so
    does prepcli.
    """
    return (2 * num_samples * to_rate + from_rate) // (2 * from_rate)


def can_resample(from_rate: int, to_rate: int) -> bool:
    """Return whether the kernel fits into memory: rates with a small common divisor need billions of values."""
    divisor = gcd(from_rate, to_rate)
    old, new = from_rate // divisor, to_rate // divisor
    return new * (old + 2 * ceil(_ZERO_CROSSINGS * old / (min(old, new) * _ROLL_OFF))) <= MAX_KERNEL_SIZE


@lru_cache(maxsize=32)
def _kernel(from_rate: int, to_rate: int, device: str) -> Any:
    # Making the kernel takes longer than resampling most utterances.
    import torchaudio  # type: ignore[import-untyped]

    return torchaudio.transforms.Resample(from_rate, to_rate).to(device)


def resample_sinc(audio: "Tensor", from_rate: int, to_rate: int) -> "Tensor":
    """Return audio (..., n), float32, at another rate (Hz), of shape (..., `resampled_length`) and on the same device.

    The kernel is torchaudio's with its defaults (a Hann-windowed sinc, six zero crossings, roll-off 0.99), which
    lhotse's `Recording.resample` also uses. Samples outside the audio count as zero.
    """
    if from_rate == to_rate:
        return audio
    out: Tensor = _kernel(from_rate, to_rate, str(audio.device))(audio)
    return out[..., : resampled_length(audio.shape[-1], from_rate, to_rate)]
