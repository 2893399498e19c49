"""A small NeMo audio codec with random weights whose codes use their whole codebooks."""

from pathlib import Path
from typing import Any

import torch

from tests.speaker_models import corpus_audio

SAMPLING_RATE = 22050
SAMPLES_PER_FRAME = 64
LEVELS = [8, 7, 6, 6]
GROUPS = 4

MODULES = "nemo.collections.tts.modules.audio_codec_modules"
LOSSES = "nemo.collections.tts.losses.audio_codec_loss"

CONFIG: dict[str, Any] = {
    "sample_rate": SAMPLING_RATE,
    "samples_per_frame": SAMPLES_PER_FRAME,
    "train_ds": None,
    "validation_ds": None,
    "loss_resolutions": [[64, 16, 64]],
    "mel_loss_dims": [8],
    "commit_loss_scale": 0.0,
    "generator_loss": {"_target_": f"{LOSSES}.GeneratorSquaredLoss"},
    "discriminator_loss": {"_target_": f"{LOSSES}.DiscriminatorSquaredLoss"},
    "audio_encoder": {
        "_target_": f"{MODULES}.HiFiGANEncoder",
        "encoded_dim": GROUPS * len(LEVELS),
        "down_sample_rates": [4, 4, 4],
        "base_channels": 8,
        "in_kernel_size": 7,
        # So small that a single frame can be reflected: NeMo's own layers reflect up to four frames.
        "out_kernel_size": 1,
        "resblock_kernel_sizes": [3],
        "resblock_dilation_sizes": [1],
    },
    "vector_quantizer": {
        "_target_": f"{MODULES}.GroupFiniteScalarQuantizer",
        "num_groups": GROUPS,
        "num_levels_per_group": LEVELS,
    },
    "audio_decoder": {
        "_target_": f"{MODULES}.HiFiGANDecoder",
        "input_dim": GROUPS * len(LEVELS),
        "up_sample_rates": [4, 4, 4],
        "base_channels": 16,
        "resblock_kernel_sizes": [3],
        "resblock_dilation_sizes": [1],
    },
}


def save_codec(path: Path, **changes: Any) -> Path:
    """Make the codec and save it as `.nemo`; `changes` are for its encoder.

    Left as they are, the outputs of a random encoder hardly move, all codes are nearly the same, and no test of codes
    could fail: its last layer is centred and scaled to unit spread over the mini corpus.
    """
    from nemo.collections.tts.models import AudioCodecModel
    from omegaconf import OmegaConf

    torch.manual_seed(11)
    config = CONFIG | {"audio_encoder": CONFIG["audio_encoder"] | changes}
    model = AudioCodecModel(cfg=OmegaConf.create(config))
    model.eval()
    with torch.inference_mode():
        raw = torch.cat(
            [
                model.encode_audio(audio=torch.from_numpy(samples)[None], audio_len=torch.tensor([len(samples)]))[0][0]
                for samples in corpus_audio(SAMPLING_RATE)
            ],
            dim=1,
        )
    mean, spread = raw.mean(1), raw.std(1)
    last = model.audio_encoder.post_conv.conv
    with torch.no_grad():
        # Weight norm keeps a layer's magnitudes apart from its directions.
        last.parametrizations.weight.original0.div_(spread[:, None, None])
        last.bias.copy_((last.bias - mean) / spread)
    model.save_to(str(path))
    return path
