"""Change of sampling rate with torchaudio's sinc kernel: what trainers hear through lhotse, to the sample."""

from functools import lru_cache
from math import ceil, gcd
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor


MAX_KERNEL_SIZE = 1 << 24
"""Numbers in a kernel, of 8 bytes while it is made. 44,100 to 22,050 Hz takes 28, 44,101 to 22,050 Hz a billion."""
# torchaudio's defaults (`lowpass_filter_width`, `rolloff`).
_ZERO_CROSSINGS, _ROLL_OFF = 6, 0.99

Lengths = TypeVar("Lengths", int, "Tensor")


def resampled_length(num_samples: Lengths, from_rate: int, to_rate: int) -> Lengths:
    """Samples after resampling: num_samples * to_rate / from_rate, rounded half up.

    The kernel gives the next whole number; of these lhotse keeps those that the duration says, and so must we.
    """
    return (2 * num_samples * to_rate + from_rate) // (2 * from_rate)


def can_resample(from_rate: int, to_rate: int) -> bool:
    """Whether the kernel fits into memory: rates with a small common divisor need one of billions of numbers."""
    divisor = gcd(from_rate, to_rate)
    old, new = from_rate // divisor, to_rate // divisor
    return new * (old + 2 * ceil(_ZERO_CROSSINGS * old / (min(old, new) * _ROLL_OFF))) <= MAX_KERNEL_SIZE


@lru_cache(maxsize=32)
def _kernel(from_rate: int, to_rate: int, device: str) -> Any:
    # The kernel takes longer to make than most utterances to resample.
    import torchaudio  # type: ignore[import-untyped]

    return torchaudio.transforms.Resample(from_rate, to_rate).to(device)


def resample_sinc(audio: "Tensor", from_rate: int, to_rate: int) -> "Tensor":
    """Audio (..., n), float32, at another rate (Hz), on its own device: (..., `resampled_length`).

    torchaudio's kernel with its defaults (a Hann-windowed sinc, six zero crossings, roll-off 0.99), which is what
    lhotse's `Recording.resample` uses. Samples outside the audio count as zero.
    """
    if from_rate == to_rate:
        return audio
    out: Tensor = _kernel(from_rate, to_rate, str(audio.device))(audio)
    return out[..., : resampled_length(audio.shape[-1], from_rate, to_rate)]
