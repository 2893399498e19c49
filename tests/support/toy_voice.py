"""A speaker encoder of a few lines of PyTorch, for tests of the job: quick, and as touchy about padding as real ones.

    python -m tests.support.toy_voice extend-context-audio MANIFEST OUT --speaker-model toy ...

is the command line with this encoder in the place of the others.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from prepcli.manifest.parts import Ints

GRID = 1600


class ToyVoice:
    """How loud sixteen bands of frequency are: similar enough for the same voice, and nothing for digital silence."""

    sampling_rate = 16000
    min_samples = 400
    dim = 16
    rows_on_cpu: int | None = 1

    def __init__(self) -> None:
        import torch

        frequencies = torch.linspace(100, 4000, self.dim)[:, None]
        seconds = torch.arange(self.min_samples) / self.sampling_rate
        waves = torch.cos(2 * np.pi * frequencies * seconds)
        self._filters = (torch.hann_window(self.min_samples) * waves)[:, None]

    def padded_lengths(self, num_samples: "Ints") -> "Ints":
        return -(-num_samples // GRID) * GRID

    def to(self, device: str) -> None:
        self._filters = self._filters.to(device)

    def embed(self, audio: "Tensor", lengths: "Tensor") -> "Tensor":
        import torch

        assert audio.dtype == torch.float32
        assert audio.shape[1] % GRID == 0
        with torch.inference_mode():
            bands = torch.nn.functional.conv1d(audio[:, None], self._filters, stride=160).abs().mean(2) ** 2
            embedded: Tensor = bands / bands.norm(dim=1, keepdim=True)
            return embedded


def use_toy_voice(replace: Callable[[object, str, object], None]) -> None:
    """Put it in the place of all speaker models, by `setattr` or a monkeypatch's."""
    from prepcli.jobs import embedding
    from prepcli.models import speakers

    replace(speakers, "check_speaker_model", lambda name: None)
    replace(embedding, "load_speaker_encoder", lambda name: ToyVoice())


def main() -> None:
    from prepcli.cli.app import main

    use_toy_voice(setattr)
    main()


if __name__ == "__main__":
    main()
