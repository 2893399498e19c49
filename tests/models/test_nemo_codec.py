"""Rows of different lengths in one batch: each row comes out as if it were alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prepcli.models.nemo_codec import EXACT_MODES, Rows, convolve
from tests.support.lazy import lazy

pytestmark = pytest.mark.torch

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

LENGTHS = [12, 40, 24, 36]


def mixed_batch(generator: int = 5) -> torch.Tensor:
    """Noise behind the ends of the rows too: nothing there may count."""
    return torch.randn(len(LENGTHS), 2, max(LENGTHS), generator=torch.Generator().manual_seed(generator))


@pytest.mark.parametrize("mode", sorted(EXACT_MODES))
@pytest.mark.parametrize(("left", "right"), [(3, 3), (0, 5), (2, 1), (4, 0)])
def test_padding_is_that_of_the_row_alone(mode: str, left: int, right: int) -> None:
    batch = mixed_batch()
    padded = Rows(torch.tensor(LENGTHS)).pad(batch, left, right, mode)
    assert padded.shape == (4, 2, 40 + left + right)
    for row, length in enumerate(LENGTHS):
        alone = torch.nn.functional.pad(
            batch[row : row + 1, :, :length], (left, right), "constant" if mode == "zeros" else mode
        )
        assert torch.equal(padded[row, :, : left + length + right], alone[0])


@pytest.mark.parametrize("mode", sorted(EXACT_MODES))
def test_two_layers_with_strides_and_dilation(mode: str) -> None:
    """The second layer sees what the first makes of a row, not what is behind its end."""
    torch.manual_seed(0)
    first = torch.nn.Conv1d(2, 3, 8, stride=4, padding=2, padding_mode=mode)  # type: ignore[arg-type]
    second = torch.nn.Conv1d(3, 2, 3, dilation=2, padding=2, padding_mode=mode)  # type: ignore[arg-type]
    batch = mixed_batch()
    with torch.inference_mode():
        rows = Rows(torch.tensor(LENGTHS))
        found = convolve(second, convolve(first, batch, rows), rows.divided(4))
        naive = second(first(batch))
        for row, length in enumerate(LENGTHS):
            alone = second(first(batch[row : row + 1, :, :length]))[0]
            torch.testing.assert_close(found[row, :, : length // 4], alone)
            assert length == 40 or not torch.allclose(naive[row, :, : length // 4], alone)


def test_full_rows_are_the_layers_own() -> None:
    layer = torch.nn.Conv1d(2, 3, 5, padding=2, padding_mode="reflect")
    rows = Rows(None)
    assert rows.divided(8) is rows
    assert torch.equal(convolve(layer, mixed_batch(), rows), layer(mixed_batch()))
