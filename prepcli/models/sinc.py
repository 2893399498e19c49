"""Change of sampling rate with torchaudio's sinc kernel: what trainers hear through lhotse, to the sample."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def resampled_length(num_samples: int, from_rate: int, to_rate: int) -> int:
    """Samples after resampling: ceil(num_samples * to_rate / from_rate)."""
    return -(-num_samples * to_rate // from_rate)


@lru_cache(maxsize=32)
def _kernel(from_rate: int, to_rate: int, device: str) -> Any:
    # The kernel takes longer to make than most utterances to resample.
    import torchaudio  # type: ignore[import-untyped]

    return torchaudio.transforms.Resample(from_rate, to_rate).to(device)


def resample_sinc(audio: "Tensor", from_rate: int, to_rate: int) -> "Tensor":
    """Audio (..., n), float32, at another rate (Hz), on its own device: (..., ceil(n * to / from)).

    torchaudio's kernel with its defaults (a Hann-windowed sinc, six zero crossings, roll-off 0.99), which is what
    lhotse's `Recording.resample` uses. Samples outside the audio count as zero.
    """
    if from_rate == to_rate:
        return audio
    out: Tensor = _kernel(from_rate, to_rate, str(audio.device))(audio)
    return out
