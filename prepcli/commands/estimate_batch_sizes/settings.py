"""The settings of a search for batch sizes."""

import re
from dataclasses import dataclass
from pathlib import Path

from prepcli.errors import UsageError, option

_UNITS = {"": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The settings of a search; the options of `estimate-batch-sizes` with the same names explain each."""

    model: str | None
    model_class: str | None
    config: Path | None
    buckets: str | None
    buckets_from: str | None
    memory_fraction: float
    dtype: str
    start_batch_size: int
    threshold: float
    ratio: float
    optimizer: str
    ddp: bool
    device: str
    gpu_memory: str | None
    probe_timeout: float

    @property
    def is_estimate(self) -> bool:
        """Whether the sizes are extrapolated without a GPU."""
        return self.device == "cpu"

    def check(self) -> None:
        """Check that the settings go together.

        Raises:
            UsageError: they do not.
        """
        if (self.model is None) == (self.config is None):
            raise UsageError(
                f"give {option('--model')} (a .nemo file or a name), or {option('--model-class')} and "
                f"{option('--config')}"
            )
        if self.model is not None and self.model_class is not None:
            raise UsageError(
                f"{option('--model')} and {option('--model-class')} exclude each other: a model brings its class; "
                "leave one of them out"
            )
        if self.config is not None and self.model_class is None:
            raise UsageError(
                f"{option('--config')} needs {option('--model-class')}, such as "
                "nemo.collections.asr.models.EncDecCTCModelBPE"
            )
        if self.buckets is not None and self.buckets_from is not None:
            raise UsageError(f"give one of {option('--buckets')} and {option('--buckets-from')}")
        if re.fullmatch(r"cpu|cuda(:\d+)?", self.device) is None:
            raise UsageError(f"{option('--device')} takes cpu, cuda or cuda:N, not {self.device}")
        if self.is_estimate and self.gpu_memory is None:
            raise UsageError(
                f"{option('--device', 'cpu')} estimates for a GPU: give its memory, {option('--gpu-memory')} 80GiB"
            )
        if self.gpu_memory is not None:
            parse_memory(self.gpu_memory)


def parse_memory(text: str) -> int:
    """`80GiB` or `80GB` -> bytes; a number alone is bytes.

    Raises:
        UsageError: the text has another form.
    """
    match = _MEMORY.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise UsageError(f"{option('--gpu-memory')} takes a size such as 80GiB or 24000MB, not {text}")
    power = _UNITS[match[2].upper()] if match[2] else 0
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)
