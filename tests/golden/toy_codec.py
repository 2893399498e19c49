"""A codec of a package of its own, which is found by its entry point (`prepcli/models/plugin_codec.py`)."""

from typing import Any


class Codec:
    """One frame per 160 samples: codes are sums of its samples, for each codebook another."""

    sampling_rate = 16000
    samples_per_frame = 160
    codebook_size = 1000
    takes_batches = True

    def __init__(self, num_codebooks: int, sampling_rate: int) -> None:
        self.num_codebooks = num_codebooks
        self.sampling_rate = sampling_rate

    def encode(self, samples: Any, lengths: Any) -> Any:
        frames = (samples.reshape(len(samples), -1, self.samples_per_frame) * 1000).round().long().sum(2)
        return (frames[:, None] * (1 + frames.new_tensor(range(self.num_codebooks)))[None, :, None]) % 1000


def load(argument: str) -> Codec:
    """`golden:4` has four codebooks; `golden:8@24000` eight at 24 kHz."""
    books, _, rate = argument.partition("@")
    return Codec(int(books), int(rate or 16000))
