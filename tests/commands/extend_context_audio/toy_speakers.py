"""A speaker encoder that is made in no time, for tests in which it only matters what is embedded, and how often."""

from typing import TYPE_CHECKING

import pytest

from prepcli.manifest.parts import Ints

if TYPE_CHECKING:
    from torch import Tensor


class ToyEncoder:
    """Energies in 32 bands of the spectrum; counts the rows that it embeds, with those of unreadable audio."""

    sampling_rate = 16000
    min_samples = 400
    dim = 32
    rows_on_cpu: int | None = 1

    def __init__(self) -> None:
        self.num_embedded = 0

    def padded_lengths(self, num_samples: Ints) -> Ints:
        """Nothing is padded."""
        return num_samples

    def to(self, device: str) -> None:
        """There is nothing to move."""

    def embed(self, audio: "Tensor", lengths: "Tensor") -> "Tensor":
        """Embeddings (B, 32) of audio (B, T)."""
        import torch

        self.num_embedded += len(audio)
        spectrum = torch.fft.rfft(audio, n=1 << 14).abs()[:, : self.dim * 64]
        bands = spectrum.view(len(audio), self.dim, -1).mean(2).log1p()
        return torch.nn.functional.normalize(bands - bands.mean(1, keepdim=True), dim=1)


def use_toy_encoder(monkeypatch: pytest.MonkeyPatch, identity: str = "toy") -> ToyEncoder:
    """Let `--speaker-model` always be a toy, which is returned."""
    pytest.importorskip("torchaudio")
    encoder = ToyEncoder()
    monkeypatch.setattr("prepcli.models.speakers.check_speaker_model", lambda name: None)
    monkeypatch.setattr("prepcli.models.speakers.identity", lambda name: f"{identity} {name}")
    monkeypatch.setattr("prepcli.jobs.embedding.load_speaker_encoder", lambda name: encoder)
    return encoder
