"""NeMo's audio codecs, from a `.nemo` file or by name.

This module computes the same codes with half of the operations. In each layer, NeMo multiplies the output by a mask,
checks the types of the arguments, and computes the weights again from their norm and direction. None of this changes
the codes of rows of equal length; for other rows, `Rows.pad` replaces the mask.
"""

import copy
import sys
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from prepcli.errors import UsageError, option
from prepcli.models.devices import computing_in, to_device, use_full_float32, use_tf32
from prepcli.models.nemo import load_nemo
from prepcli.models.protocols import Precision
from prepcli.models.widths import noting_widest

if TYPE_CHECKING:
    from torch import Tensor


EXACT_MODES = frozenset({"reflect", "replicate", "zeros"})
"""Values of `Conv1d.padding_mode` for which `Rows.pad` can pad each row of a batch as if it were alone."""


class Rows:
    """The lengths of the rows of a batch, in the input or the output of a layer."""

    def __init__(self, lengths: "Tensor | None") -> None:
        """Lengths (B,) of the rows, on the device of the batch. None: all rows are as long as the batch."""
        self.lengths = lengths
        self._places: dict[tuple[int, int, str], tuple[Tensor, Tensor]] = {}

    def divided(self, by: int) -> "Rows":
        """Return the lengths after a layer with the stride `by`, which must divide the length of every row."""
        return self if by == 1 or self.lengths is None else Rows(self.lengths // by)

    def pad(self, values: "Tensor", left: int, right: int, mode: str) -> "Tensor":
        """Return values (B, C, left + T + right), each row padded as if it were alone.

        Args:
            values: (B, C, T).
            left: columns before each row.
            right: columns after the end of each row.
            mode: one of `EXACT_MODES`.
        """
        import torch

        torch_mode = "constant" if mode == "zeros" else mode
        padded = torch.nn.functional.pad(values, (left, right), torch_mode)
        if self.lengths is None or not right:
            return padded
        to, source = (place.expand(-1, values.shape[1], -1) for place in self._columns(left, right, mode))
        if mode == "zeros":
            return padded.scatter_(2, to, 0.0)
        return padded.scatter_(2, to, padded.gather(2, source))

    def _columns(self, left: int, right: int, mode: str) -> "tuple[Tensor, Tensor]":
        """Two tensors of indexes (B, 1, right): the columns after each row's end, and the columns to copy there."""
        import torch

        key = (left, right, mode)
        if key not in self._places:
            assert self.lengths is not None
            end = (self.lengths + left)[:, None, None]
            behind = torch.arange(right, device=end.device)
            source = end - 2 - behind if mode == "reflect" else (end - 1).expand(-1, -1, right)
            self._places[key] = end + behind, source
        return self._places[key]


class _Reach(Rows):
    """`Rows` that also note in `paddings` how much each layer pads, in samples of the audio.

    The sum of these numbers is an upper bound for the reach: the samples before and after a frame on which it depends.
    """

    def __init__(self, lengths: "Tensor | None", scale: int, paddings: list[int]) -> None:
        super().__init__(lengths)
        self._scale, self._found = scale, paddings

    def divided(self, by: int) -> "Rows":
        assert self.lengths is not None
        return _Reach(self.lengths // by, self._scale * by, self._found)

    def pad(self, values: "Tensor", left: int, right: int, mode: str) -> "Tensor":
        self._found.append(self._scale * max(left, right))
        return super().pad(values, left, right, mode)


def convolve(layer: Any, values: "Tensor", rows: Rows) -> "Tensor":
    """Apply a `torch.nn.Conv1d` to values (B, C, T) whose rows have the lengths of `rows`."""
    import torch

    if rows.lengths is None:
        return cast("Tensor", layer(values))
    padding = int(layer.padding[0])
    padded = rows.pad(values, padding, padding, layer.padding_mode)
    return torch.nn.functional.conv1d(padded, layer.weight, layer.bias, layer.stride, 0, layer.dilation, layer.groups)


Encode = Callable[["Tensor", Rows], "Tensor"]
"""Encodes audio (B, T) whose rows have the lengths of `Rows`, all in whole frames; returns vectors (B, D, F)."""

_PADDING_BUFFERS = ("stride", "kernel_size", "padding_total")
"""Buffers of convolutions, in NeMo and in transformers, from which Python reads numbers."""


def fold_weight_norm(model: Any) -> None:
    """Compute each layer's weights once, from their norm and direction, and keep only these weights."""
    from torch.nn.utils import parametrize

    for module in model.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")


def move(model: Any, device: str) -> None:
    """Move a model to a device, except the buffers `_PADDING_BUFFERS`, from which Python reads numbers in each call.

    If they were on a GPU, each read would wait until the GPU has done its work.
    """
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
    """Return a function that encodes audio as NeMo's `AudioCodecModel` does; None for unknown encoders."""
    encode = _ENCODERS.get(type(model.audio_encoder).__name__)
    if encode is None or model.semantic_codec is not None or not all(map(_is_known, _convolutions(model))):
        return None
    return partial(encode, model.audio_encoder)


def quantizer_of(model: Any) -> "Callable[[Tensor], Tensor] | None":
    """Return the function from the encoder's output (B, D, F), float32, to codes (B, C, F); None if it is not FSQ."""
    import torch

    quantizer = model.vector_quantizer
    if type(quantizer).__name__ != "GroupFiniteScalarQuantizer":
        return None
    first = quantizer.fsqs[0]
    if all(torch.equal(level.num_levels, first.num_levels) and level.eps == first.eps for level in quantizer.fsqs):
        return partial(_quantize, quantizer)
    return None


def _quantize(quantizer: Any, encoded: "Tensor") -> "Tensor":
    """Return the codes (B, C, F) of the encoder's output (B, D, F).

    The quantizers of all groups of channels have the same levels. So the quantizer of the first group is applied to all
    groups in one call.
    """
    quantization = quantizer.fsqs[0]
    groups = encoded.reshape(len(encoded) * quantizer.num_groups, -1, encoded.shape[-1])
    codes = quantization.round(quantization.compress(groups, None), None) / (quantization.num_levels // 2)
    indices: Tensor = quantization.codes_to_indices(codes)
    return indices.view(len(encoded), quantizer.num_groups, -1)


def _convolutions(model: Any) -> Iterator[Any]:
    return (layer for layer in model.audio_encoder.modules() if type(layer).__name__.endswith("Conv1dNorm"))


def _is_known(layer: Any) -> bool:
    if type(layer).__name__ == "CausalConv1dNorm":
        return bool(layer.extra_pad_mode == "constant")
    return layer.conv.padding_mode in EXACT_MODES


def _layer(layer: Any, values: "Tensor", rows: Rows) -> "Tensor":
    """Apply a convolution and its activation to values (B, C, T) whose rows have the lengths of `rows`."""
    if hasattr(layer, "padding_total"):  # causal: nothing after the end is read
        out = layer.conv(rows.pad(values, int(layer.padding_total), 0, "zeros"))
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
    """Return the mean of the outputs of several chains of residual blocks."""
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
    """Return the log magnitudes (B, bins, F) of an STFT over audio (B, T), which is padded at both ends."""
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
    """Encode audio by spectra at several resolutions, as NeMo's `MultiResolutionSTFTEncoder` does."""
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
"""The functions that compute NeMo's encoders, by the name of NeMo's class. Encoders of mel spectra have no function
here, because NeMo masks their last frame in each layer."""


MODEL_CLASS = "AudioCodecModel"
_MAX_FRAMES_TRIED = 64
_FRAMES_COMPARED = 4
"""A loaded codec is compared with NeMo's code on audio of the minimum length plus this number of frames."""


class NemoCodec:
    """A NeMo codec, on the CPU until it is moved; see `prepcli.models.protocols.Codec`.

    Attributes:
        mixes_lengths: whether a row keeps its codes in a batch with longer rows; false for encoders that only NeMo's
            own code can run.
        reach: a frame depends on at most this number of samples before and after it; None if it is not known.
    """

    rows_on_cpu: int | None = 1  # up to three times as fast as batches (`benchmarks/README.md`)

    def __init__(self, name: str, flag: str) -> None:
        """Load a codec from a `.nemo` file, or a pretrained one by its name; `flag` names the option in messages.

        Raises:
            UsageError: loading fails, or the codec does not have a quantizer.
        """
        model: Any = load_nemo(MODEL_CLASS, name, flag, collection="tts")
        self._model = model
        self.sampling_rate: int = int(model.sample_rate)
        self.samples_per_frame: int = int(model.samples_per_frame)
        if model.vector_quantizer is None:
            raise UsageError(f"{option(flag, name)}: this codec has no quantizer, and so no codes")
        self.codebook_size: int = int(model.codebook_size)
        fold_weight_norm(model)
        self._encoder = encoder_of(model)
        self._quantizer = quantizer_of(model)
        with noting_widest(model) as widest:
            self.min_frames: int = self._find_min_frames(option(flag, name))
        self.values_per_sample: float = widest.num_values / (self.min_frames * self.samples_per_frame)
        if self._encoder is not None and not self._is_as_nemo():
            print(f"note: {option(flag, name)} is run by NeMo's own code, which takes longer", file=sys.stderr)
            self._encoder = self._quantizer = None
        self.mixes_lengths = self._encoder is not None
        self.reach: int | None = self._find_reach()

    def _find_min_frames(self, where: str) -> int:
        """Return the minimum number of frames that can be encoded, found by trial.

        A layer with reflection padding cannot reflect more samples than its input has. A codec of mel spectra needs at
        least two frames, because NeMo leaves out the last one.
        """
        import torch

        why = "they give no codes"
        for frames in range(1, _MAX_FRAMES_TRIED + 1):
            samples = frames * self.samples_per_frame
            try:
                codes, lengths = self.encode(torch.zeros(1, samples), torch.tensor([samples]), "fp32")
            except RuntimeError as error:
                why = str(error)
            else:
                if int(lengths[0]):
                    self.num_codebooks: int = codes.shape[1]
                    return frames
        raise UsageError(f"{where} cannot encode {_MAX_FRAMES_TRIED} frames of silence: {why}")

    def _is_as_nemo(self) -> bool:
        """Whether the codes of some noise equal the codes that NeMo's own code computes."""
        import torch

        samples = (self.min_frames + _FRAMES_COMPARED) * self.samples_per_frame
        audio = torch.randn(1, samples, generator=torch.Generator().manual_seed(0)) / 10
        lengths = torch.tensor([samples])
        with torch.inference_mode():
            wanted, _ = self._model.encode(audio=audio, audio_len=lengths)
        return torch.equal(self.encode(audio, lengths, "fp32")[0], wanted)

    def _find_reach(self) -> int | None:
        """Return `reach`: the sum of the padding of all layers, in samples; None if the encoder is not known.

        The sum is an upper bound, because it also adds the padding of layers that are parallel.
        """
        import torch

        if self._encoder is None:
            return None
        paddings: list[int] = []
        samples = self.min_frames * self.samples_per_frame
        with torch.inference_mode():
            self._encoder(torch.zeros(1, samples), _Reach(torch.tensor([samples]), 1, paddings))
        return sum(paddings)

    @cached_property
    def _encoder_in_bfloat16(self) -> Encode:
        """The encoder with weights in bfloat16, so that autocast need not convert them for each batch."""
        import torch

        assert isinstance(self._encoder, partial)
        (encoder,) = self._encoder.args
        cast = copy.deepcopy(encoder)
        for layer in cast.modules():
            if isinstance(layer, torch.nn.Conv1d):
                layer.to(torch.bfloat16)
        return partial(self._encoder.func, cast)

    def to(self, device: str) -> None:
        """Move the model."""
        move(self._model, device)
        vars(self).pop("_encoder_in_bfloat16", None)

    def encode(self, audio: "Tensor", lengths: "Tensor", precision: Precision) -> "tuple[Tensor, Tensor]":
        """Return the codes (B, C, F) of audio (B, T), and the number of frames (B,) of each row; see `Codec.encode`.

        If `lengths` is on the CPU, this call does not wait for a GPU, and the numbers of frames are on the CPU as well.
        """
        import torch

        use_tf32() if precision == "tf32" and audio.is_cuda else use_full_float32()
        with torch.inference_mode():
            if self._encoder is None:
                return self._encode_by_nemo(audio, to_device(lengths, str(audio.device)), precision)
            frames = -(-lengths // self.samples_per_frame)
            num_frames = -(-audio.shape[1] // self.samples_per_frame)
            whole = num_frames * self.samples_per_frame
            audio = torch.nn.functional.pad(audio, (0, whole - audio.shape[1]))
            is_full = bool((frames == num_frames).all())
            rows = Rows(None if is_full else to_device(frames * self.samples_per_frame, str(audio.device)))
            encoder = self._encoder_in_bfloat16 if precision == "bf16" else self._encoder
            with computing_in(precision, str(audio.device)):
                encoded = encoder(audio, rows)
            return self._quantized(encoded, frames), frames

    def _quantized(self, encoded: "Tensor", frames: "Tensor") -> "Tensor":
        """Return codes (B, C, F) of the encoder's output, computed in float32: bfloat16 cannot hold every index."""
        if self._quantizer is not None:
            return self._quantizer(encoded.float())
        codes: Tensor = self._model.quantize(
            encoded=encoded.float(), encoded_len=to_device(frames, str(encoded.device))
        )
        return codes

    def _encode_by_nemo(self, audio: "Tensor", lengths: "Tensor", precision: Precision) -> "tuple[Tensor, Tensor]":

        with computing_in(precision, str(audio.device)):
            encoded, frames = self._model.encode_audio(audio=audio, audio_len=lengths)
        return self._model.quantize(encoded=encoded.float(), encoded_len=frames), frames
