"""The families of codecs in Hugging Face's transformers: how each is configured, and how it turns audio into codes."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


QWEN_CODEBOOKS = 16
"""Number of codebooks that Qwen3-TTS uses; its tokenizer has 32."""


@dataclass(frozen=True, slots=True)
class HfKind:
    """A family of codecs. All functions but `encode` take the configuration of a model.

    Attributes:
        title: the name of the family in messages.
        model_class: the name of the class in transformers.
        since: the first version of transformers that has the class; empty if all supported versions have it.
        samples_per_frame: returns the number of samples in a frame.
        num_codebooks: returns the number of codebooks of the model.
        encode: takes a model, audio (B, 1, T) of whole frames and the number of codebooks C; returns the codes of the
            first C codebooks, (B, C, F), or of a few more.
        quantize: the name of the quantizer's method that turns vectors into codes.
        sampling_rate: returns the rate of the audio to encode (Hz).
        codebook_size: returns the number of entries of a codebook.
        inner: the key of the encoder in the configuration, if `model_class` is only the encoder of a larger model.
    """

    title: str
    model_class: str
    since: str
    samples_per_frame: Callable[[Any], int]
    num_codebooks: Callable[[Any], int]
    encode: "Callable[[Any, Tensor, int], Tensor]"
    quantize: str
    sampling_rate: Callable[[Any], int] = lambda config: int(config.sampling_rate)
    codebook_size: Callable[[Any], int] = lambda config: int(config.codebook_size)
    inner: str | None = None


def _bandwidth(model: Any, num_codebooks: int) -> float:
    """Return the lowest bandwidth of the model that selects at least `num_codebooks` codebooks, else the highest."""
    count = model.quantizer.get_num_quantizers_for_bandwidth
    bandwidths = sorted(model.config.target_bandwidths)
    return float(next((bandwidth for bandwidth in bandwidths if count(bandwidth) >= num_codebooks), bandwidths[-1]))


def _encode_with_features(model: Any, audio: "Tensor", num_codebooks: int) -> "Tensor":
    """Encode audio with a model whose semantic encoder takes mel features, and return the codes.

    The feature extractor normalizes each row of the batch separately. It appends one sample to each row, so that audio
    of whole frames gets one frame more. The codes of this frame are removed.
    """
    import torch
    import transformers

    kind = KINDS[model.config.model_type]
    rate, step = kind.sampling_rate(model.config), kind.samples_per_frame(model.config)
    extractor = getattr(transformers, kind.model_class.removesuffix("Model") + "FeatureExtractor")
    extract = extractor(sampling_rate=rate, hop_length=step)
    with torch.autocast(audio.device.type, enabled=False):  # features in bfloat16 would be too coarse
        given = extract(list(audio[:, 0].cpu()), sampling_rate=rate, return_tensors="pt")
    codes: Tensor = model.encode(**{name: value.to(audio.device) for name, value in given.items()}).audio_codes
    return codes[:, :, : audio.shape[2] // step]


_XCODEC: dict[str, Any] = {
    "samples_per_frame": lambda config: config.hop_length,
    "num_codebooks": lambda config: config.num_quantizers,
    "encode": lambda model, audio, count: model.encode(audio, bandwidth=_bandwidth(model, count)).audio_codes,
    "quantize": "encode",
    "sampling_rate": lambda config: int(config.sample_rate),
}
_SCALARS: dict[str, Any] = {
    "samples_per_frame": lambda config: prod(config.downsampling_ratios),
    "num_codebooks": lambda config: 1,
    "encode": _encode_with_features,
    "quantize": "forward",
    "codebook_size": lambda config: prod(config.quantization_levels),
}
_MIMI: dict[str, Any] = {
    "model_class": "MimiModel",
    "since": "",
    "samples_per_frame": lambda config: round(config.sampling_rate / config.frame_rate),
    "encode": lambda model, audio, count: model.encode(audio, num_quantizers=count).audio_codes,
    "quantize": "encode",
}
KINDS = {
    "mimi": HfKind("Mimi", num_codebooks=lambda config: config.num_quantizers, **_MIMI),
    "qwen3_tts_tokenizer_12hz": HfKind(
        "Qwen3-TTS-Tokenizer-12Hz",
        num_codebooks=lambda config: min(config.num_quantizers, QWEN_CODEBOOKS),
        inner="encoder_config",
        **_MIMI,
    ),
    "dac": HfKind(
        "DAC",
        "DacModel",
        "",
        lambda config: prod(config.downsampling_ratios),
        lambda config: config.n_codebooks,
        lambda model, audio, count: model.encode(audio, n_quantizers=count).audio_codes,
        "forward",
    ),
    "encodec": HfKind(
        "EnCodec",
        "EncodecModel",
        "",
        lambda config: prod(config.upsampling_ratios),
        lambda config: config.num_quantizers,
        lambda model, audio, count: model.encode(audio, bandwidth=_bandwidth(model, count)).audio_codes[0],
        "encode",
    ),
    "xcodec": HfKind("X-codec", "XcodecModel", "4.56", **_XCODEC),
    "xcodec2": HfKind("X-codec2", "Xcodec2Model", "5.13", **_SCALARS),
    "higgs_audio_v2_tokenizer": HfKind("Higgs audio v2", "HiggsAudioV2TokenizerModel", "5.3", **_XCODEC),
    "neucodec": HfKind(
        "NeuCodec", "NeuCodecModel", "5.17", sampling_rate=lambda config: int(config.input_sampling_rate), **_SCALARS
    ),
}
"""The families by the `model_type` of their configurations."""
