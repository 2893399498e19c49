"""Encodes long audio in overlapping windows, so that memory does not limit its length.

The windows overlap by the number of frames on which the codes of a frame depend (the reach of the codec).
"""

from typing import TYPE_CHECKING

from prepcli.models.protocols import Codec, Precision

if TYPE_CHECKING:
    from torch import Tensor


def reach_of(codec: Codec) -> int | None:
    """Return the number of frames on each side of a frame that influence its codes; None if it is not known."""
    samples = getattr(codec, "reach", None)
    return None if samples is None else -(-samples // codec.samples_per_frame)


def encode_in_windows(
    codec: Codec, precision: Precision, audio: "Tensor", num_frames: int, max_frames: int
) -> "Tensor":
    """Return the codes (1, C, num_frames) of one row; they equal the codes of the unsplit row, apart from rounding.

    Args:
        codec: a codec whose `reach_of` is known, on the device of the audio.
        precision: the precision of the computation.
        audio: (1, T), zero after the end of the row.
        num_frames: number of frames in the row.
        max_frames: maximum number of frames to encode at once; a number below three times the reach is raised to that.
    """
    import torch

    step, reach = codec.samples_per_frame, reach_of(codec)
    assert reach is not None
    size = max(max_frames - 2 * reach, reach, 1)
    pieces = []
    for start in range(0, num_frames, size):
        stop = min(start + size, num_frames)
        before, after = max(0, start - reach), min(num_frames, stop + reach)
        window = audio[:, before * step : after * step]
        codes, _ = codec.encode(window, torch.tensor([window.shape[1]]), precision)
        pieces.append(codes[:, :, start - before : stop - before])
    return torch.cat(pieces, 2)
