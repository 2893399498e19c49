"""The encoders of NeMo's codecs, run layer by layer: without type checks, without masks, and in mixed batches.

NeMo multiplies the output of each layer by a mask, checks the types of its arguments, and computes the weights of each
layer again from their norm and direction. None of this changes a code where all rows are equally long; with it, a batch
has twice as many operations.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from prepcli.models.ragged import EXACT_MODES, Rows, convolve

if TYPE_CHECKING:
    from torch import Tensor

Encode = Callable[["Tensor", Rows], "Tensor"]
"""Takes audio (B, T), T and all lengths whole frames, and its rows; returns what is quantized (B, D, F)."""

_PADDING_BUFFERS = ("stride", "kernel_size", "padding_total")
"""Buffers of causal convolutions from which Python reads numbers."""


def fold_weight_norm(model: Any) -> None:
    """Replace the norm and direction of each layer's weights by the weights, which keep their bits."""
    from torch.nn.utils import parametrize

    for module in model.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")


def move(model: Any, device: str) -> None:
    """Move a model, but not the numbers that Python reads in each call: on a GPU it would have to wait for them."""
    kept = [
        (module, name, module._buffers[name])
        for module in model.modules()
        for name in _PADDING_BUFFERS
        if module._buffers.get(name) is not None
    ]
    model.to(device)
    for module, name, buffer in kept:
        module._buffers[name] = buffer


def encoder_of(model: Any) -> Encode | None:
    """What encodes audio as the model does; None for encoders that are not known here.

    Args:
        model: NeMo's `AudioCodecModel`.
    """
    encode = _ENCODERS.get(type(model.audio_encoder).__name__)
    if encode is None or model.semantic_codec is not None or not all(map(_is_known, _convolutions(model))):
        return None
    return partial(encode, model.audio_encoder)


def quantizer_of(model: Any) -> "Callable[[Tensor], Tensor] | None":
    """What turns the encoder's output (B, D, F), float32, into codes (B, C, F); None for other quantizers than FSQ."""
    import torch

    quantizer = model.vector_quantizer
    if type(quantizer).__name__ != "GroupFiniteScalarQuantizer":
        return None
    first = quantizer.fsqs[0]
    if all(torch.equal(one.num_levels, first.num_levels) and one.eps == first.eps for one in quantizer.fsqs):
        return partial(_quantize, quantizer)
    return None


def _quantize(quantizer: Any, encoded: "Tensor") -> "Tensor":
    """Codes of all groups at once: each is quantized element by element, in the same way."""
    one = quantizer.fsqs[0]
    groups = encoded.reshape(len(encoded) * quantizer.num_groups, -1, encoded.shape[-1])
    codes = one.round(one.compress(groups, None), None) / (one.num_levels // 2)
    found: Tensor = one.codes_to_indices(codes)
    return found.view(len(encoded), quantizer.num_groups, -1)


def _convolutions(model: Any) -> Iterator[Any]:
    return (layer for layer in model.audio_encoder.modules() if type(layer).__name__.endswith("Conv1dNorm"))


def _is_known(layer: Any) -> bool:
    if type(layer).__name__ == "CausalConv1dNorm":
        return bool(layer.extra_pad_mode == "constant")
    return layer.conv.padding_mode in EXACT_MODES


def _layer(layer: Any, values: "Tensor", rows: Rows) -> "Tensor":
    """A convolution with its activation; `rows` are those of `values`."""
    import torch

    if hasattr(layer, "padding_total"):  # causal: nothing is read behind the end
        before = int(layer.padding_total)
        out = layer.conv(torch.nn.functional.pad(values, (before, 0)))
    else:
        out = convolve(layer.conv, values, rows)
    return cast("Tensor", layer.activation(out))


def _residual(block: Any, values: "Tensor", rows: Rows) -> "Tensor":
    within = _layer(block.input_conv, block.input_activation(values), rows)
    return values + _layer(block.skip_conv, block.skip_activation(within), rows)


def _residual_2(block: Any, values: "Tensor", rows: Rows) -> "Tensor":
    within = _layer(block.skip_conv, _layer(block.input_conv, values, rows), rows)
    return cast("Tensor", block.output_activation(values + within))


def _parallel_blocks(layer: Any, values: "Tensor", rows: Rows) -> "Tensor":
    """The mean of several chains of residual blocks."""
    outs = []
    for chain in layer.res_blocks:
        out = values
        for block in chain.res_blocks:
            out = _residual(block, out, rows)
        outs.append(out)
    return cast("Tensor", sum(outs) / len(outs))


def _hifigan(encoder: Any, audio: "Tensor", rows: Rows) -> "Tensor":
    out = _layer(encoder.pre_conv, audio[:, None], rows)
    for residuals, activation, down in zip(
        encoder.res_layers, encoder.activations, encoder.down_sample_conv_layers, strict=True
    ):
        out = _layer(down, activation(_parallel_blocks(residuals, out, rows)), rows)
        rows = rows.divided(int(down.conv.stride[0]))
    return _layer(encoder.post_conv, encoder.post_activation(out), rows)


def _log_spectrum(processor: Any, audio: "Tensor", rows: Rows) -> "Tensor":
    """Logarithms (B, bins, F) of the magnitudes of an STFT over audio (B, T) that is padded at both ends."""
    import torch

    amount = int(processor.stft_pad_amount)
    padded = rows.pad(audio[:, None], amount, amount, processor.pad_mode)[:, 0]
    spectrum = torch.stft(
        padded,
        n_fft=processor.n_fft,
        hop_length=processor.hop_length,
        win_length=processor.win_length,
        window=processor.window,
        return_complex=True,
        center=False,
    )
    return torch.log(spectrum.abs() + processor.log_guard)


def _spectra(encoder: Any, audio: "Tensor", rows: Rows) -> "Tensor":
    """An encoder of spectra at several resolutions."""
    at = rows.divided(encoder.pre_spec_processor.hop_length)
    out = _layer(encoder.pre_conv, _log_spectrum(encoder.pre_spec_processor, audio, rows), at)
    out = _residual_2(encoder.pre_res_block, out, at)
    for block in encoder.stft_blocks:
        out = _layer(block.down_sample_conv, out, at)
        at = at.divided(block.down_sample_rate)
        out = out + _layer(block.spec_conv, _log_spectrum(block.spec_processor, audio, rows), at)
        out = _residual_2(block.res_block, block.spec_act(out), at)
    for block in encoder.down_sample_blocks:
        out = _layer(block.down_sample_conv, out, at)
        at = at.divided(int(block.down_sample_conv.conv.stride[0]))
        out = _residual_2(block.res_block, out, at)
    return _layer(encoder.post_conv, out, at)


_ENCODERS: dict[str, Callable[[Any, "Tensor", Rows], "Tensor"]] = {
    "HiFiGANEncoder": _hifigan,
    "CausalHiFiGANEncoder": _hifigan,
    "MultiResolutionSTFTEncoder": _spectra,
}
"""By the name of NeMo's class. Encoders of mel spectra are not here: NeMo masks their last frame within each layer."""
