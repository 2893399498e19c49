"""Tiny codecs of transformers with random weights, whose codes use their whole codebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

MODELS = {
    "mimi": "MimiModel",
    "dac": "DacModel",
    "encodec": "EncodecModel",
    "xcodec": "XcodecModel",
    "higgs": "HiggsAudioV2TokenizerModel",
    "xcodec2": "Xcodec2Model",
    "neucodec": "NeuCodecModel",
}
KINDS = ("mimi", "dac", "encodec")
NEW_KINDS = ("xcodec", "higgs", "xcodec2", "neucodec")
"""Kinds that older versions of transformers lack."""
NUM_CODEBOOKS = {"mimi": 4, "dac": 3, "encodec": 4, "xcodec": 4, "higgs": 8, "xcodec2": 1, "neucodec": 1}


def tiny_codec(kind: str, audio: torch.Tensor) -> Any:
    """A model of transformers; the entries of its codebooks are drawn from what `audio` (n,) at 16 kHz gives."""
    import transformers

    torch.manual_seed(7)
    audio = audio[:160_000]
    audio = audio + torch.randn(len(audio)) / 100  # silent frames would give equal entries
    model = getattr(transformers, MODELS[kind])(_config(transformers, kind)).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        if kind == "encodec":
            _spread(model.encoder, audio[None, None])
        if kind in SCALARS:
            _spread_scalars(transformers, model, audio)
        for codebook in _codebooks(kind, model):
            _draw_entries(model, codebook, audio[None, None], generator)
    return model


def save_tiny_codec(kind: str, folder: Path, audio: torch.Tensor) -> Path:
    path = folder / f"tiny_{kind}"
    tiny_codec(kind, audio).save_pretrained(path)
    return path


SCALARS = ("xcodec2", "neucodec")
_ACOUSTIC: dict[str, Any] = {
    "model_type": "dac",
    "encoder_hidden_size": 4,
    "decoder_hidden_size": 32,
    "hidden_size": 16,
}
_TRANSFORMER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_HUBERT = {"conv_dim": [8] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}


def _config_with_semantics(transformers: Any, kind: str) -> Any:
    """Higgs audio has 8 codebooks at 24 kHz and 25 frames a second, X-codec 4 at 16 kHz and 50 frames."""
    if kind in SCALARS:
        name = {"xcodec2": "Xcodec2Config", "neucodec": "NeuCodecConfig"}[kind]
        sizes: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 16, "encoder_hidden_size": 4}
        return getattr(transformers, name)(
            **_TRANSFORMER | sizes | {"hidden_size": 32, "quantization_dim": 48, "num_hidden_layers": 1},
            semantic_model_config=_TRANSFORMER | {"model_type": "wav2vec2-bert", "feature_projection_input_dim": 160},
        )
    ratios = [8, 5, 4, 2] if kind == "xcodec" else [8, 5, 4, 3, 2]
    make = transformers.XcodecConfig if kind == "xcodec" else transformers.HiggsAudioV2TokenizerConfig
    return make(
        target_bandwidths=[0.3, 0.6, 1.2],
        codebook_size=64,
        acoustic_model_config=_ACOUSTIC | {"downsampling_ratios": ratios, "upsampling_ratios": ratios},
        semantic_model_config=_TRANSFORMER | _HUBERT | {"model_type": "hubert"},
    )


def _config(transformers: Any, kind: str) -> Any:
    if kind in NEW_KINDS:
        return _config_with_semantics(transformers, kind)
    seanet: dict[str, Any] = {"sampling_rate": 16000, "hidden_size": 16, "num_filters": 4, "codebook_size": 64}
    if kind == "mimi":  # 160 samples for two steps of the encoder, 320 a frame
        return transformers.MimiConfig(
            **seanet,
            upsampling_ratios=[8, 5, 4],
            num_quantizers=NUM_CODEBOOKS[kind],
            codebook_dim=8,
            vector_quantization_hidden_dimension=8,
            upsample_groups=16,
            num_hidden_layers=2,
            intermediate_size=32,
            num_attention_heads=2,
            num_key_value_heads=2,
            layer_scale_initial_scale=0.5,
            sliding_window=20,
        )
    if kind == "encodec":  # 50 frames a second, and so 0.3 kbit a second for each codebook of 64
        return transformers.EncodecConfig(
            **seanet, upsampling_ratios=[8, 5, 4, 2], target_bandwidths=[0.3, 0.6, 1.2], num_lstm_layers=1
        )
    return transformers.DacConfig(
        sampling_rate=16000,
        encoder_hidden_size=4,
        decoder_hidden_size=32,
        downsampling_ratios=[2, 4, 5, 8],
        n_codebooks=NUM_CODEBOOKS[kind],
        codebook_size=64,
        codebook_dim=4,
    )


def _spread(encoder: Any, audio: torch.Tensor) -> None:
    """Scale the layers: what random ones give varies so little that rounding would decide between entries."""
    for module in encoder.modules():
        if hasattr(module, "padding_total"):
            module.conv.parametrizations.weight.original0 *= 2
    raw = encoder(audio)[0]
    mean, spread = raw.mean(1), raw.std(1)
    last = encoder.layers[-1].conv
    last.parametrizations.weight.original0 /= spread[:, None, None]
    last.bias.copy_((last.bias - mean) / spread)


def _spread_scalars(transformers: Any, model: Any, audio: torch.Tensor) -> None:
    """Scale the layer before the scalars, so that all of their levels are used."""
    extract = getattr(transformers, type(model).__name__.removesuffix("Model") + "FeatureExtractor")()
    last, found = model.quantizer.project_in, []
    hook = last.register_forward_hook(lambda layer, given, returned: found.append(returned[0]))
    model.encode(**extract([audio], sampling_rate=16000, return_tensors="pt"))
    hook.remove()
    mean, spread = found[0].mean(0), found[0].std(0)
    last.weight /= spread[:, None]
    last.bias.copy_((last.bias - mean) / spread)


def _codebooks(kind: str, model: Any) -> list[Any]:
    quantizer = model.quantizer
    if kind == "dac" or kind in SCALARS:
        return []  # DAC compares directions, and those of random vectors differ enough
    if kind in ("xcodec", "higgs"):
        return [layer.codebook for layer in quantizer.quantizers]
    parts = [quantizer]
    if kind == "mimi":
        parts = [quantizer.semantic_residual_vector_quantizer, quantizer.acoustic_residual_vector_quantizer]
    return [layer.codebook for part in parts for layer in part.layers]


def _draw_entries(model: Any, codebook: Any, audio: torch.Tensor, generator: torch.Generator) -> None:
    """Vectors that reach the codebook become its entries."""
    found = []
    quantize = codebook.quantize

    def noting(vectors: torch.Tensor) -> torch.Tensor:
        found.append(vectors.reshape(-1, vectors.shape[-1]))
        codes: torch.Tensor = quantize(vectors)
        return codes

    codebook.quantize = noting
    if hasattr(model.config, "target_bandwidths"):
        model.encode(audio, bandwidth=model.config.target_bandwidths[-1])
    else:
        model.encode(audio)
    del codebook.quantize
    (vectors,) = found
    entries = vectors[torch.randperm(len(vectors), generator=generator)[: codebook.codebook_size]]
    if hasattr(codebook, "embed_sum"):
        codebook.embed_sum.copy_(entries)
        codebook._embed = None
    else:
        codebook.embed.copy_(entries)
        codebook.embed_avg.copy_(entries)
