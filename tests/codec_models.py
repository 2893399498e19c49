"""A small NeMo audio codec with random weights whose codes use their whole codebooks."""

from pathlib import Path
from typing import Any

from recipes.demo.make_codec import SAMPLING_RATE, make_codec
from tests.speaker_models import corpus_audio

__all__ = ["SAMPLES_PER_FRAME", "SAMPLING_RATE", "save_codec"]

SAMPLES_PER_FRAME = 64


def save_codec(path: Path) -> Path:
    """Make the codec and save it as `.nemo`: 4 codebooks of 2016 entries.

    Its layers are so small that a single frame can be reflected; NeMo's own reflect up to four frames.
    """
    small: dict[str, Any] = {"out_kernel_size": 1, "resblock_kernel_sizes": [3], "resblock_dilation_sizes": [1]}
    return make_codec(path, corpus_audio(SAMPLING_RATE)[::3], groups=4, down_sample_rates=[4, 4, 4], **small)
