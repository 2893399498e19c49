"""Running a model: on a GPU batch after batch, on a processor several rows of batches at once."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from prepcli.processes import no_interruption, wait_for

if TYPE_CHECKING:
    from torch import Tensor

Model: TypeAlias = "Callable[..., Tensor | tuple[Tensor, ...]]"
"""Tensors with a first dimension of rows in, and out."""


class Running:
    """What a model makes of a batch: there already, or in pieces that threads are computing."""

    def __init__(self, pieces: "list[Future[Tensor | tuple[Tensor, ...]]] | Tensor | tuple[Tensor, ...]") -> None:
        self._pieces = pieces

    def result(self) -> "tuple[Tensor, ...]":
        """Wait for the model; raises what it raised."""
        import torch

        if not isinstance(self._pieces, list):
            return _as_tuple(self._pieces)
        pieces = [_as_tuple(wait_for(piece)) for piece in self._pieces]
        return tuple(torch.cat(of_one) for of_one in zip(*pieces, strict=True))


def _as_tuple(found: "Tensor | tuple[Tensor, ...]") -> "tuple[Tensor, ...]":
    return found if isinstance(found, tuple) else (found,)


class ModelRunner:
    """Gives batches to a model on `device`, a few ahead of their results.

    On a processor a batch is cut into pieces of `rows` rows (None: it stays whole), and as many of them are computed at
    once as PyTorch has threads, each by one thread. Rounding then depends neither on the size of batches nor on the
    number of threads, and what passes from layer to layer stays in a core's cache.

    `depth`: so many batches should be under way.
    """

    def __init__(self, device: str, rows: int | None) -> None:
        import torch

        self._rows = rows
        self._pool: ThreadPoolExecutor | None = None
        self.depth = 1
        if device == "cpu":
            num_threads = torch.get_num_threads()
            self._pool = ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,))
            self.depth += num_threads

    def run(self, model: Model, *batch: "Tensor") -> Running:
        """Have the model compute a batch, whose tensors may be written over as soon as this returns."""
        import torch

        if self._pool is None:
            return Running(model(*batch))
        rows = self._rows or len(batch[0])
        pieces = zip(*(torch.split(tensor.clone(), rows) for tensor in batch), strict=True)
        with no_interruption():
            return Running([self._pool.submit(model, *piece) for piece in pieces])

    def __enter__(self) -> "ModelRunner":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for the pieces that are being computed; the others are given up."""
        if self._pool is not None:
            with no_interruption():
                self._pool.shutdown(cancel_futures=True)
