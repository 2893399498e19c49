"""Counted bytes of tensors: of single operations here; of training steps in `test_nemo` of estimate-batch-sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prepcli.commands.estimate_batch_sizes.search import peak_of
from tests.support.lazy import lazy

pytestmark = pytest.mark.torch

if TYPE_CHECKING:
    import torch

    from prepcli.models import counted_memory
else:
    torch = lazy("torch")
    counted_memory = lazy("prepcli.models.counted_memory")


@pytest.mark.slow
def test_bytes_of_tensors_are_counted() -> None:
    weight = torch.zeros(10, 10, requires_grad=True)
    with counted_memory.MemoryCounter([weight], extra=7) as counter:
        made = torch.ones(100) * 2  # two tensors of 400 bytes at once
        view = made[:50]
        view += 1
        assert counter.in_use == 407 + 400
        (weight @ made[:10]).sum().backward()
        assert counter.in_use == 407 + 400 + 400 + 0
    assert counter.timeline[0] == 407
    assert max(counter.timeline) >= 407 + 800
    assert weight.grad is not None


@pytest.mark.slow
def test_tensors_larger_than_this_machine_are_counted() -> None:
    """The memory of the GPU in question is not that of this machine."""
    column, row = torch.zeros(1 << 19, 1), torch.zeros(1, 1 << 19)
    with counted_memory.MemoryCounter([]) as counter:
        made = column @ row
    assert max(counter.timeline) == 4 * made.numel() == 1 << 40


def test_lines_of_memory() -> None:
    """The maximum of a step is elsewhere for large batches: each event has its own line."""
    assert counted_memory.envelope(2, [1000, 120, 0], 3, [1000, 180, 0]) == [(1000, 0), (0, 60)]
    assert counted_memory.envelope(2, [10], 3, [12, 13]) == [(4, 3)]  # not comparable: the peaks alone
    assert peak_of([(1000, 0), (0, 60)], 5) == 1000
    assert peak_of([(1000, 0), (0, 60)], 20) == 1200
