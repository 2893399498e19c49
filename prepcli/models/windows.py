"""Encodes long audio in windows that overlap by as much as a frame depends on, so memory does not limit its length."""

from typing import TYPE_CHECKING

from prepcli.models.protocols import Codec, Precision

if TYPE_CHECKING:
    from torch import Tensor


def reach_of(codec: Codec) -> int | None:
    """Return the frames before and after a frame that its codes depend on; None if that is not known."""
    samples = getattr(codec, "reach", None)
    return None if samples is None else -(-samples // codec.samples_per_frame)


def encode_in_windows(
    codec: Codec, precision: Precision, audio: "Tensor", num_frames: int, max_frames: int
) -> "Tensor":
    """Return the codes (1, C, num_frames) of one row, which are those of the row as a whole, apart from rounding.

    Args:
        codec: a codec whose `reach_of` is known, on the device of the audio.
        precision: of the computation.
        audio: (1, T), zero after the end of the row.
        num_frames: frames of the row.
        max_frames: maximum frames to encode at once, if they are more than the overlap.
    """
    import torch

    step, reach = codec.samples_per_frame, reach_of(codec)
    assert reach is not None
    size = max(max_frames - 2 * reach, reach, 1)
    found = []
    for start in range(0, num_frames, size):
        stop = min(start + size, num_frames)
        before, after = max(0, start - reach), min(num_frames, stop + reach)
        window = audio[:, before * step : after * step]
        codes, _ = codec.encode(window, torch.tensor([window.shape[1]]), precision)
        found.append(codes[:, :, start - before : stop - before])
    return torch.cat(found, 2)
