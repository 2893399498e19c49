"""NeMo's speaker models (TitaNet and others), from a `.nemo` file or by name."""

import contextlib
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from prepcli.errors import UsageError, option
from prepcli.interface.calls import Undo, keep_for_caller
from prepcli.models.nemo import load_nemo

if TYPE_CHECKING:
    from torch import Tensor

    from prepcli.manifest.parts import Ints

MODEL_CLASS = "EncDecSpeakerLabelModel"
GRID_FRAMES = 16
"""NeMo's preprocessor pads by default to a multiple of this number of feature frames (`pad_to`)."""
MIN_FRAMES = 2
_MAX_HOPS = 64


def _shortest(front_end: Any) -> int:
    """Return the minimum length of the input in samples, a multiple of the hop length.

    Shorter audio has fewer than two frames, and the normalisation needs two.
    """
    import torch

    hop = int(front_end.hop_length)
    return next(
        hops * hop for hops in range(2, _MAX_HOPS) if int(front_end.get_seq_len(torch.tensor(hops * hop))) >= MIN_FRAMES
    )


def mask_of_lengths(lens: "Tensor", max_len: int, device: object = None) -> "tuple[Tensor, Tensor]":
    """Return the same as NeMo's `lens_to_mask`, without its wait for a copy from the CPU to the GPU.

    Args:
        lens: (B,), frames of each row.
        max_len: frames of the batch.
        device: not used; the mask is on the device of `lens`.

    Returns:
        A mask (B, 1, T), True for the frames within each row, and the number (B, 1, 1) of these frames.
    """
    import torch

    mask = (torch.arange(max_len, device=lens.device) < lens[:, None])[:, None]
    return mask, mask.sum(dim=2, keepdim=True)


def _mask_of_nemo() -> Undo:
    from nemo.collections.asr.parts.submodules import tdnn_attention

    mask = tdnn_attention.lens_to_mask
    return lambda: setattr(tdnn_attention, "lens_to_mask", mask)


@contextlib.contextmanager
def without_gpu_sync() -> Iterator[None]:
    """Within the context, NeMo neither checks types nor searches a batch for rows of a single frame.

    The search would wait for the GPU, and `min_samples` excludes such rows. NeMo skips the search while PyTorch
    captures a CUDA graph. So PyTorch reports within the context that it captures one.
    """
    import torch
    from nemo.core.classes.common import typecheck

    is_capturing = torch.cuda.is_current_stream_capturing
    torch.cuda.is_current_stream_capturing = lambda: True
    try:
        with typecheck.disable_checks():
            yield
    finally:
        torch.cuda.is_current_stream_capturing = is_capturing


def fold_batch_norm(model: Any) -> None:
    """Fold each batch norm of NeMo's convolutional encoder into the weights of the convolution before it.

    Embeddings change by rounding only.
    """
    import torch
    from torch.nn.utils.fusion import fuse_conv_bn_weights

    for layers in [module for module in model.encoder.modules() if isinstance(module, torch.nn.ModuleList)]:
        for position, (masked, norm) in enumerate(pairwise(list(layers)), start=1):
            conv = getattr(masked, "conv", None)
            if not isinstance(norm, torch.nn.BatchNorm1d) or type(conv) is not torch.nn.Conv1d or masked.heads != -1:
                continue
            mean, variance = norm.running_mean, norm.running_var
            assert mean is not None and variance is not None
            conv.weight, conv.bias = fuse_conv_bn_weights(
                conv.weight, conv.bias, mean, variance, norm.eps, norm.weight, norm.bias
            )
            layers[position] = torch.nn.Identity()


class NemoSpeakerEncoder:
    """A NeMo speaker model, on the CPU until it is moved; see `prepcli.models.protocols.SpeakerEncoder`."""

    rows_on_cpu: int | None = 1  # rounding depends neither on batches nor on threads

    def __init__(self, name: str, flag: str) -> None:
        """Load a model from a `.nemo` file, or a pretrained one by its name; `flag` names the option in messages.

        Raises:
            UsageError: loading fails, or the model does not use mel spectra.
        """
        self._model = load_nemo(MODEL_CLASS, name, flag, instead="a .nemo file, or resemblyzer, which is small")
        from nemo.collections.asr.parts.submodules import tdnn_attention

        keep_for_caller(_mask_of_nemo)
        tdnn_attention.lens_to_mask = mask_of_lengths
        front_end = self._model.preprocessor.featurizer
        try:
            self.sampling_rate: int = int(front_end.sample_rate)
            self._hop = int(front_end.hop_length)
            # The STFT is centred, so it has one frame more than hops, unless the front end pads "exactly".
            self._more_frames = 0 if front_end.exact_pad else 1
        except AttributeError:
            kind = type(self._model.preprocessor).__name__
            raise UsageError(f"{option(flag, name)}: its front end ({kind}) does not compute mel spectra") from None
        pad_to = front_end.pad_to
        self._grid = pad_to if isinstance(pad_to, int) and pad_to > 0 else GRID_FRAMES
        self.min_samples = _shortest(front_end)
        last = self._model.decoder.emb_layers[-1]
        sizes = [getattr(layer, "out_channels", None) or getattr(layer, "out_features", None) for layer in last]
        self.dim: int = next(int(size) for size in sizes if size)

    def padded_lengths(self, num_samples: "Ints") -> "Ints":
        """For each length, return the greatest length that NeMo pads to the same number of frames.

        See `SpeakerEncoder.padded_lengths`.
        """
        frames = num_samples // self._hop + self._more_frames
        padded = -(-frames // self._grid) * self._grid
        return (padded - self._more_frames + 1) * self._hop - 1

    def to(self, device: str) -> None:
        """Move the model. For a GPU, batch norms are folded into layers; on a CPU this would change embeddings."""
        if device != "cpu":
            fold_batch_norm(self._model)
        self._model.to(device)

    def embed(self, audio: "Tensor", lengths: "Tensor") -> "Tensor":
        """Return embeddings (B, dim) of audio (B, T), without waiting for a GPU; see `SpeakerEncoder.embed`."""
        import torch

        on_cpu = audio.device.type == "cpu"
        with torch.inference_mode(), contextlib.nullcontext() if on_cpu else without_gpu_sync():
            _, embeddings = self._model.forward(input_signal=audio, input_signal_length=lengths)
            return torch.nn.functional.normalize(embeddings.float(), dim=1)
