"""Convolutions over rows of different lengths whose results are those of each row alone.

Zeros behind a short row are not what a layer sees that pads by reflection or by repetition. So the columns behind each
row's end are overwritten before each layer, at the layer's own resolution, with what padding the row alone would have
put there. What a layer computes further behind is never read by a result within the row: no masks are needed.
"""

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from torch import Tensor

EXACT_MODES = frozenset({"reflect", "replicate", "zeros"})
"""Values of `Conv1d.padding_mode` for which the columns behind a row's end are known."""


class Rows:
    """The lengths of the rows of a batch, at one resolution."""

    def __init__(self, lengths: "Tensor | None") -> None:
        """`lengths`: (B,), on the device of the batch; None: every row is as long as the batch, and nothing is done."""
        self.lengths = lengths
        self._places: dict[tuple[int, int, str], tuple[Tensor, Tensor]] = {}

    def divided(self, by: int) -> "Rows":
        """The rows after a layer of this stride, which divides every length."""
        return self if by == 1 or self.lengths is None else Rows(self.lengths // by)

    def pad(self, values: "Tensor", left: int, right: int, mode: str) -> "Tensor":
        """Return values (B, C, left + T + right), each row padded as if it were alone.

        Args:
            values: (B, C, T).
            left: columns before each row.
            right: columns behind the end of each row.
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
        """The columns (B, 1, right) behind each row's end, and those that are copied to them."""
        import torch

        key = (left, right, mode)
        if key not in self._places:
            assert self.lengths is not None
            end = (self.lengths + left)[:, None, None]
            behind = torch.arange(right, device=end.device)
            source = end - 2 - behind if mode == "reflect" else (end - 1).expand(-1, -1, right)
            self._places[key] = end + behind, source
        return self._places[key]


def convolve(layer: Any, values: "Tensor", rows: Rows) -> "Tensor":
    """Apply a `torch.nn.Conv1d` to values (B, C, T) whose rows have the lengths of `rows`."""
    import torch

    if rows.lengths is None:
        return cast("Tensor", layer(values))
    padding = int(layer.padding[0])
    padded = rows.pad(values, padding, padding, layer.padding_mode)
    return torch.nn.functional.conv1d(padded, layer.weight, layer.bias, layer.stride, 0, layer.dilation, layer.groups)
