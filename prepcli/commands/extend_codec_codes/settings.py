"""The settings of codecs."""

from dataclasses import dataclass
from pathlib import Path

from prepcli.models.protocols import Precision


@dataclass(frozen=True)
class CodecSettings:
    """How audio becomes codes; the options of `extend-codec-codes` with the same names explain each."""

    codec_model: str
    codec_name: str
    num_codebooks: int | None = None
    peak: float | None = None
    batch_duration: float = 120.0
    pool_duration: float = 7200.0
    precision: Precision = "fp32"
    shard_size: int | None = None
    ref_audio: Path | None = None
