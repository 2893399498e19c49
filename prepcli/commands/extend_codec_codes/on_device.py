"""A batch on the device of the codec: copy its rows, resample, pad them to the shape of the batch, encode."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prepcli.models.devices import to_device, use_full_float32
from prepcli.models.protocols import Codec, Precision
from prepcli.models.sinc import resample_sinc, resampled_length

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class BatchShape:
    """The shape of a batch on the device, and where its rows come from.

    Attributes:
        sampling_rate: of the rows as they were decoded (Hz); the codec's own where they need no resampling.
        num_frames: length of the batch; shorter rows are zero-padded.
        num_rows: the rows of the whole batch; where there are fewer, silent rows are added. A GPU prepares each new
            shape for 25 to 100 ms, so few shapes are used.
        num_given: the rows that are given; a part of a batch that did not fit into memory gets no silent rows, nor does
            a single row.
        mixes_lengths: whether the rows may have different lengths.
    """

    sampling_rate: int
    num_frames: int
    num_rows: int
    num_given: int
    mixes_lengths: bool


def move_rows(
    codec: Codec, shape: BatchShape, device: str, rows: "Tensor", lengths: "Tensor", frames: "Tensor"
) -> "tuple[Tensor, Tensor, Tensor]":
    """Copy some rows of a batch to the device, at the codec's sampling rate and in the shape of the whole batch.

    Args:
        codec: on `device`.
        shape: the shape of the whole batch.
        device: "cpu" or "cuda:N".
        rows: (B, T), on the CPU.
        lengths: (B,), samples of each row that are audio; 0 for a row that could not be decoded. It is encoded as
            silence, and its codes are dropped.
        frames: (B,), frames of each row.

    Returns:
        The arguments of `encode_rows`.
    """
    import torch

    use_full_float32()  # an earlier batch may have set TF32, which would round the products of the resampling filter
    step = codec.samples_per_frame
    audio = to_device(rows, device)
    if shape.sampling_rate != codec.sampling_rate:
        audio = resample_sinc(audio, shape.sampling_rate, codec.sampling_rate)
        lengths = resampled_length(lengths, shape.sampling_rate, codec.sampling_rate)
        # The filter writes beyond the end of a row that is shorter than others in the batch.
        within = torch.arange(audio.shape[1], device=audio.device) < to_device(lengths, device)[:, None]
        audio = audio * within
    # A single row cannot be divided if it does not fit: it is given no others.
    more = shape.num_rows - len(rows) if len(rows) == shape.num_given > 1 else 0
    audio = torch.nn.functional.pad(audio, (0, shape.num_frames * step - audio.shape[1], 0, more))
    lengths = torch.maximum(lengths, (frames - 1) * step + 1)
    lengths = torch.nn.functional.pad(lengths, (0, more), value=audio.shape[1])
    return audio, lengths if shape.mixes_lengths else to_device(lengths, device), frames


def encode_rows(
    codec: Codec, precision: Precision, audio: "Tensor", lengths: "Tensor", frames: "Tensor"
) -> "tuple[Tensor, Tensor]":
    """Return the codes (B, C, F) of the rows that were given, without the silent ones, and the frames (B,) of each.

    Args:
        codec: on the device of the audio.
        precision: of the codec.
        audio: (B or more, T), on the device, and for the others see `move_rows`.
        lengths: (B or more,), samples of each row.
        frames: (B,), of the rows that were given.
    """
    codes, found = codec.encode(audio, lengths, precision)
    return codes[: len(frames)], found[: len(frames)]
