"""Small NeMo audio codecs with random weights whose codes use their whole codebooks."""

from pathlib import Path
from typing import Any

from prepcli.models.nemo import quiet
from recipes.demo.make_codec import MODULES, SAMPLING_RATE, config, make_codec
from tests.support.speaker_models import corpus_audio

__all__ = ["CODECS", "SAMPLES_PER_FRAME", "SAMPLING_RATE", "save_codec", "small_codec"]

SAMPLES_PER_FRAME = 64


def save_codec(path: Path) -> Path:
    """Make the codec and save it as `.nemo`: 4 codebooks of 2016 entries.

    Its layers are so small that a single frame can be reflected; NeMo's own reflect up to four frames.
    """
    small: dict[str, Any] = {"out_kernel_size": 1, "resblock_kernel_sizes": [3], "resblock_dilation_sizes": [1]}
    return make_codec(path, corpus_audio(SAMPLING_RATE)[::3], groups=4, down_sample_rates=[4, 4, 4], **small)


def small_codec(kind: str) -> Any:
    """A codec of NeMo's in memory: 64 samples per frame, codes that use all entries; `kind` is in `CODECS`."""
    import torch
    from omegaconf import OmegaConf

    with quiet():
        from nemo.collections.tts.models import AudioCodecModel
    small = {"down_sample_rates": [4, 4, 4], "base_channels": 4}
    encoder, settings = CODECS[kind]
    settings = {"_target_": f"{MODULES}.{encoder}", **settings}
    torch.manual_seed(1)
    parts = config(4, (8, 7, 6, 6), small) | {"audio_encoder": settings, "samples_per_frame": SAMPLES_PER_FRAME}
    with quiet():
        model = AudioCodecModel(cfg=OmegaConf.create(parts))
    model.freeze()
    audio = torch.randn(1, 120 * SAMPLES_PER_FRAME, generator=torch.Generator().manual_seed(3)) / 10
    with torch.inference_mode():
        raw = model.encode_audio(audio=audio, audio_len=torch.tensor([audio.shape[1]]))[0][0]
    last = getattr(model.audio_encoder, "encoder", model.audio_encoder).post_conv.conv
    with torch.no_grad():
        last.parametrizations.weight.original0.div_(raw.std(1)[:, None, None])
        last.bias.copy_((last.bias - raw.mean(1)) / raw.std(1))
    return model


_HIFIGAN: dict[str, Any] = {
    "encoded_dim": 16,
    "down_sample_rates": [4, 4, 4],
    "base_channels": 4,
    "out_kernel_size": 3,
    "resblock_kernel_sizes": [3, 5],
    "resblock_dilation_sizes": [1, 3],
}
_STFT: dict[str, Any] = {
    "out_dim": 16,
    "resolutions": [[64, 16, 64], [128, 32, 128]],
    "resolution_filter_list": [16, 16],
    "down_sample_filter_list": [16],
    "down_sample_rate_list": [2],
}
_MEL: dict[str, Any] = {
    "mel_processor": {
        "_target_": f"{MODULES}.MelSpectrogramProcessor",
        "sample_rate": SAMPLING_RATE,
        "win_length": 256,
        "hop_length": 64,
        "mel_dim": 20,
    },
    "encoder": {
        "_target_": f"{MODULES}.ResNetEncoder",
        "in_channels": 20,
        "out_channels": 16,
        "num_layers": 2,
        "hidden_channels": 8,
        "filters": 8,
    },
}
CODECS: dict[str, tuple[str, dict[str, Any]]] = {
    "reflect": ("HiFiGANEncoder", _HIFIGAN | {"pad_mode": "reflect"}),
    "replicate": ("HiFiGANEncoder", _HIFIGAN | {"pad_mode": "replicate"}),
    "zeros": ("HiFiGANEncoder", _HIFIGAN | {"pad_mode": "zeros"}),
    "circular": ("HiFiGANEncoder", _HIFIGAN | {"pad_mode": "circular"}),
    "causal": ("CausalHiFiGANEncoder", _HIFIGAN),
    "stft": ("MultiResolutionSTFTEncoder", _STFT | {"pad_mode": "replicate"}),
    "stft reflect": ("MultiResolutionSTFTEncoder", _STFT | {"pad_mode": "reflect"}),
    "mel": ("FullBandMelEncoder", _MEL),
    "mel zeros": ("FullBandMelEncoder", _MEL | {"encoder": _MEL["encoder"] | {"pad_mode": "zeros"}}),
}
"""The kinds of encoders that NeMo has, and how they pad: the name of the class, and its arguments."""
