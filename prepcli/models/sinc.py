"""Change of sampling rate with torchaudio's sinc kernel: what trainers hear through lhotse, to the sample."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor


Lengths = TypeVar("Lengths", int, "Tensor")


def resampled_length(num_samples: Lengths, from_rate: int, to_rate: int) -> Lengths:
    """Samples after resampling: num_samples * to_rate / from_rate, rounded half up.

    The kernel gives the next whole number; of these lhotse keeps those that the duration says, and so must we.
    """
    return (2 * num_samples * to_rate + from_rate) // (2 * from_rate)


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
