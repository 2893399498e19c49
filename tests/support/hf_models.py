"""Tiny Mimi, DAC and EnCodec models with random weights, whose codes use their whole codebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

KINDS = ("mimi", "dac", "encodec")
NUM_CODEBOOKS = {"mimi": 4, "dac": 3, "encodec": 4}


def tiny_codec(kind: str, audio: torch.Tensor) -> Any:
    """A model of transformers at 16 kHz; the entries of its codebooks are drawn from what `audio` (n,) gives."""
    import transformers

    torch.manual_seed(7)
    audio = audio[:160_000] + torch.randn(160_000) / 100  # silent frames would give equal entries
    models = {"mimi": "MimiModel", "dac": "DacModel", "encodec": "EncodecModel"}
    model = getattr(transformers, models[kind])(_config(transformers, kind)).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        if kind == "encodec":
            _spread(model.encoder, audio[None, None])
        for codebook in _codebooks(kind, model):
            _draw_entries(model, codebook, audio[None, None], generator)
    return model


def save_tiny_codec(kind: str, folder: Path, audio: torch.Tensor) -> Path:
    path = folder / f"tiny_{kind}"
    tiny_codec(kind, audio).save_pretrained(path)
    return path


def _config(transformers: Any, kind: str) -> Any:
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


def _codebooks(kind: str, model: Any) -> list[Any]:
    quantizer = model.quantizer
    if kind == "dac":
        return []  # it compares directions, and those of random vectors differ enough
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
