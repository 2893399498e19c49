"""Copies between the CPU and a GPU beside the computation: in two CUDA streams of their own.

In one stream everything happens in turn: the copy of a batch would wait for the computation of the one before it. Here
the computation waits for the copy of its own batch alone, and the copy of its results for the computation alone.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor
    from torch.cuda import Event, Stream

Prepare: TypeAlias = "Callable[..., tuple[Tensor, ...]]"
"""Takes the tensors of a batch, on the CPU, and returns those that the model takes, on its device."""


class Streams:
    """The streams of a GPU into which copies go; computations stay in the current one."""

    def __init__(self, device: str) -> None:
        import torch

        self._to_device: Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._to_host: Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def prepare(self, prepare: Prepare, batch: "Sequence[Tensor]") -> "tuple[Tensor, ...]":
        """Return what `prepare` makes of a batch, for computations that are started from now on."""
        import torch

        with torch.cuda.stream(self._to_device):
            tensors = prepare(*batch)
        computing = torch.cuda.current_stream()
        computing.wait_stream(self._to_device)
        _keep(tensors, computing)
        return tensors

    def copy_to_host(self, tensors: "Sequence[Tensor]") -> "tuple[Tensor, ...]":
        """Return copies of results in pinned memory; they are complete when `copied` is."""
        import torch

        self._to_host.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._to_host):
            hosts = tuple(_copy_to_host(one) for one in tensors)
        _keep(tensors, self._to_host)
        return hosts

    def copied(self) -> "Event":
        """An event behind all copies of results so far."""
        import torch

        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._to_host)
        return event


@lru_cache(maxsize=8)
def streams_of(device: str) -> Streams:
    """The streams of a device, the same in the whole process: freed memory is kept for the stream that had it."""
    return Streams(device)


def _copy_to_host(tensor: "Tensor") -> "Tensor":
    import torch

    if not tensor.is_cuda:
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)


def _keep(tensors: "Sequence[Tensor]", stream: "Stream") -> None:
    """Do not give the memory of tensors to others before the stream has used them, even if they are freed here."""
    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(stream)
