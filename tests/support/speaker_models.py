"""A small NeMo speaker model with random weights whose embeddings differ from voice to voice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import soundfile

from prepcli.audio.resample import resample
from tests.conftest import MINI_CORPUS, read_lines
from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

DIM = 32


def block(filters: int, repeat: int, kernel: int, **more: Any) -> dict[str, Any]:
    settings = {"stride": [1], "dilation": [1], "dropout": 0.0, "residual": False, "separable": True}
    return {"filters": filters, "repeat": repeat, "kernel": [kernel], **settings, **more}


CONFIG: dict[str, Any] = {
    "sample_rate": 16000,
    "train_ds": None,
    "validation_ds": None,
    "preprocessor": {
        "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
        "sample_rate": 16000,
        "normalize": "per_feature",
        "window_size": 0.025,
        "window_stride": 0.01,
        "window": "hann",
        "features": 40,
        "n_fft": 512,
        "frame_splicing": 1,
        "dither": 1e-5,
        "pad_to": 16,
    },
    "encoder": {
        "_target_": "nemo.collections.asr.modules.ConvASREncoder",
        "feat_in": 40,
        "activation": "relu",
        "conv_mask": False,
        "jasper": [block(48, 1, 3), block(48, 1, 15), block(96, 1, 1)],
    },
    "decoder": {
        "_target_": "nemo.collections.asr.modules.SpeakerDecoder",
        "feat_in": 96,
        "num_classes": 8,
        "pool_mode": "attention",
        "emb_sizes": [DIM],
        "attention_channels": 16,
    },
    "optim": {"name": "sgd", "lr": 0.1},
}


def corpus_audio(rate: int = 16000) -> list[np.ndarray]:
    """The mini corpus' utterances, float32 at `rate`."""
    audio = []
    for record in read_lines(MINI_CORPUS / "manifest.json"):
        samples, own_rate = soundfile.read(MINI_CORPUS / record["audio_filepath"], dtype="float32")
        audio.append(resample(samples, own_rate, rate))
    return audio


def save_speaker_model(path: Path) -> Path:
    """Make the model and save it as `.nemo`.

    Left as it is, a random model gives every voice nearly the same embedding, and a test of a choice could not fail: so
    the last layer is centred and scaled over the mini corpus. Its convolutions are not masked, and so an embedding
    depends on how far the utterance is padded.
    """
    from nemo.collections.asr.models import EncDecSpeakerLabelModel
    from omegaconf import OmegaConf

    torch.manual_seed(7)
    model = EncDecSpeakerLabelModel(cfg=OmegaConf.create(CONFIG))
    model.eval()
    # Trained models have offsets, which turn padding into something: with zeros the padding would stay zero.
    for layer in model.encoder.modules():
        if isinstance(layer, torch.nn.BatchNorm1d):
            torch.nn.init.normal_(layer.bias, std=0.5)
    with torch.inference_mode():
        raw = torch.cat(
            [
                model.forward(
                    input_signal=torch.from_numpy(samples)[None], input_signal_length=torch.tensor([len(samples)])
                )[1]
                for samples in corpus_audio()
            ]
        )
    mean, spread = raw.mean(0), raw.std(0)
    last = model.decoder.emb_layers[-1][1]
    with torch.no_grad():
        last.weight.div_(spread[:, None, None])
        last.bias.copy_((last.bias - mean) / spread)
    model.save_to(str(path))
    return path
