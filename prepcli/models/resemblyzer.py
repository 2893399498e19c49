"""Resemblyzer's voice encoder: three LSTM layers over mel spectra of 1.6 s, fast enough for a CPU.

The weights are those of the package `Resemblyzer` 0.1.4 (Apache-2.0), which is installed but never imported, because it
imports a voice activity detector. The network and the front end are defined here, with the training parameters of the
package (`hparams.py` and `voice_encoder.py`); a test compares with the package. As in `preprocess_wav`, the loudness is
normalized; silence is not removed.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prepcli.errors import UsageError, option
from prepcli.models.pretrained import file_of_package

if TYPE_CHECKING:
    from torch import Tensor

    from prepcli.manifest.parts import Ints

SAMPLING_RATE = 16000
WINDOW = 400
"""Number of samples in an STFT window: 25 ms."""
HOP = 160
"""Number of samples from one frame to the next: 10 ms."""
NUM_MELS = 40
PARTIAL_FRAMES = 160
"""Number of frames in one input of the network (a partial utterance): 1.6 s."""
PARTIAL_STEP = 77
"""Number of frames from one partial utterance to the next: the package's default of 1.3 per second, rounded."""
MIN_COVERAGE = 0.75
"""Minimum share of audio in the last partial utterance (the package's default). With less audio it is left out, unless
it is the only one."""
HIDDEN, LAYERS, DIM = 256, 3, 256
GROUP = 16
"""Number of partial utterances per call on a CPU: with a fixed shape, matrix products round in the same way."""
TARGET_DBFS = -30.0
"""Quieter audio is amplified to this level (dB of full scale); the spectra are linear, so the level matters."""
_INT16_MAX = 32767


def weights_file() -> Path:
    """Return the file of the weights in the installed package.

    Raises:
        UsageError: the package is not installed.
    """
    if path := file_of_package("resemblyzer", "pretrained.pt"):
        return path
    raise UsageError(
        f"{option('--speaker-model')} resemblyzer needs the package Resemblyzer: pip install {option('--no-deps')} "
        "Resemblyzer (no extra has it, because its requirements need a compiler; only its weights are used)"
    )


def num_partials(num_samples: "Ints") -> "Ints":
    """Return the number of partial utterances into which the package cuts utterances of `num_samples` samples."""
    frames = -(-(num_samples + 1) // HOP)
    count = -(-np.maximum(1, frames - PARTIAL_FRAMES + PARTIAL_STEP + 1) // PARTIAL_STEP)
    covered = num_samples - (count - 1) * PARTIAL_STEP * HOP
    return np.where((covered < MIN_COVERAGE * PARTIAL_FRAMES * HOP) & (count > 1), count - 1, count)


class ResemblyzerEncoder:
    """The encoder, on the CPU until it is moved; see `prepcli.models.protocols.SpeakerEncoder`."""

    sampling_rate = SAMPLING_RATE
    min_samples = WINDOW
    dim = DIM
    rows_on_cpu: int | None = None

    def __init__(self) -> None:
        import torch
        import torchaudio  # type: ignore[import-untyped]

        self._lstm: Any = torch.nn.LSTM(NUM_MELS, HIDDEN, LAYERS, batch_first=True)
        self._linear: Any = torch.nn.Linear(HIDDEN, DIM)
        self._mel: Any = torchaudio.transforms.MelSpectrogram(
            SAMPLING_RATE,
            WINDOW,
            hop_length=HOP,
            n_mels=NUM_MELS,
            norm="slaney",
            mel_scale="slaney",
            pad_mode="constant",
        )
        state = torch.load(weights_file(), map_location="cpu", weights_only=True)["model_state"]
        for name, module in (("lstm", self._lstm), ("linear", self._linear)):
            own = {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
            module.load_state_dict(own)
            module.eval()

    def padded_lengths(self, num_samples: "Ints") -> "Ints":
        """For each length, return the greatest length that is cut into the same number of partial utterances.

        See `SpeakerEncoder.padded_lengths`.
        """
        return num_partials(num_samples) * PARTIAL_STEP * HOP + int(MIN_COVERAGE * PARTIAL_FRAMES * HOP) - 1

    def to(self, device: str) -> None:
        """Move the model."""
        for module in (self._lstm, self._linear, self._mel):
            module.to(device)

    def embed(self, audio: "Tensor", lengths: "Tensor") -> "Tensor":
        """Return embeddings (B, 256) of audio (B, T): the normalized means of the partial utterances' embeddings.

        On a CPU their bytes do not depend on the size of the batch.
        """
        import torch

        on_cpu = audio.device.type == "cpu"
        count = int(num_partials(np.array([audio.shape[1]]))[0])
        rows = 1 if on_cpu else len(audio)
        with torch.inference_mode():
            level = audio.square().sum(1).div(lengths).sqrt()
            gain = (10 ** (TARGET_DBFS / 20) / level).clamp(min=1.0, max=_INT16_MAX)
            mels = torch.cat([self._mel(part) for part in torch.split(audio * gain[:, None], rows)]).transpose(1, 2)
            partials = mels.unfold(1, PARTIAL_FRAMES, PARTIAL_STEP)[:, :count].transpose(2, 3).flatten(0, 1)
            embedded = self._embed_in_groups(partials) if on_cpu else self._embed_partials(partials)
            mean = embedded.view(len(audio), count, DIM).mean(1)
            normalised: Tensor = mean / mean.norm(dim=1, keepdim=True)
            return normalised

    def _embed_partials(self, partials: "Tensor") -> "Tensor":
        """Return embeddings (P, 256) of partial utterances (P, 160, 40)."""
        import torch

        _, (hidden, _) = self._lstm(partials.contiguous())
        embedded = torch.relu(self._linear(hidden[-1]))
        normalised: Tensor = embedded / embedded.norm(dim=1, keepdim=True)
        return normalised

    def _embed_in_groups(self, partials: "Tensor") -> "Tensor":
        import torch

        padded = torch.nn.functional.pad(partials, (0, 0, 0, 0, 0, -len(partials) % GROUP))
        return torch.cat([self._embed_partials(group) for group in torch.split(padded, GROUP)])[: len(partials)]
