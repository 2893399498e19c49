"""A codec of a few lines of PyTorch, for tests of the job: quick to load, and as touchy about padding as NeMo's.

    python -m tests.support.toy_codec extend-codec-codes SHAR_DIR --codec-model toy ...

is the command line with this codec in the place of NeMo's.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prepcli.models.protocols import Precision
from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

HOLD = "TOY_CODEC_HOLD"
"""Environment variable: encoding begins when the file that it names exists."""


class ToyCodec:
    """Codebooks of 1000 entries: one layer that reflects, and one code per frame and codebook of its output.

    There are four codebooks, or as many as the number at the end of the name says.
    """

    min_frames = 1
    values_per_sample = 1.0
    rows_on_cpu: int | None = 1

    def __init__(self, name: str = "toy", sampling_rate: int = 16000, codebook_size: int = 1000) -> None:
        self.sampling_rate = sampling_rate
        self.samples_per_frame = 160
        self.codebook_size = codebook_size
        self.num_encoded = 0
        self._counting = threading.Lock()
        self.num_codebooks = int(name.removeprefix("toy") or 4) if name.startswith("toy") else 4
        layer = torch.nn.Conv1d(1, self.num_codebooks, 320, stride=160, padding=80, padding_mode="reflect", bias=False)
        with torch.no_grad():
            weights = torch.randn(layer.weight.shape, generator=torch.Generator().manual_seed(3))
            layer.weight.copy_(weights if name.startswith("toy") else weights.flip(0))
        self._layer = layer

    def to(self, device: str) -> None:
        self._layer.to(device)

    def encode(
        self, audio: torch.Tensor, lengths: torch.Tensor, precision: Precision
    ) -> tuple[torch.Tensor, torch.Tensor]:
        while HOLD in os.environ and not Path(os.environ[HOLD]).exists():
            time.sleep(0.01)
        assert audio.dtype == torch.float32
        with self._counting:
            self.num_encoded += len(audio)
        frames = -(-lengths // self.samples_per_frame)
        assert audio.shape[1] == int(frames.max()) * self.samples_per_frame
        with torch.inference_mode():
            if precision == "bf16":
                audio = audio.bfloat16().float()
            out = torch.tanh(4 * self._layer(audio[:, None]))
            return ((out + 1) / 2 * (self.codebook_size - 1)).round().long(), frames


def use_toy_codec(replace: Callable[[object, str, object], None], load: Callable[[str], ToyCodec] = ToyCodec) -> None:
    """Put it in the place of NeMo's, by `setattr` or a monkeypatch's."""
    from prepcli.commands.extend_codec_codes import on_device
    from prepcli.models import codecs

    replace(codecs, "check_codec_model", lambda name, num_codebooks=None: None)
    replace(on_device, "load_codec", lambda name, num_codebooks=None: load(name))


def main() -> None:
    from prepcli.cli.app import main

    use_toy_codec(setattr)
    main()


if __name__ == "__main__":
    main()
