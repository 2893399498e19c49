"""Running a model: on a GPU batch after batch, on a processor several rows of batches at once.

A batch that does not fit into memory is split, down to single rows.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from prepcli.processes import no_interruption, wait_for

if TYPE_CHECKING:
    from torch import Tensor

Model: TypeAlias = "Callable[..., Tensor | tuple[Tensor, ...]]"
"""Tensors with a first dimension of rows in, and out."""

Pieces: TypeAlias = "list[tuple[Tensor, ...] | None]"
"""What a model has made of pieces of a batch, in order; None for a row that does not fit into memory even alone."""

_ALLOCATION_FAILED = ("can't allocate memory", "not enough memory", "_ALLOC_FAILED")
"""What PyTorch's other errors say for want of memory: on processors, and in the libraries of CUDA."""
_exclusive_lock = threading.Lock()
_noted = threading.Event()


class Result(NamedTuple):
    """What a model has made of a batch: `tensors` of the rows that fitted into memory, none where no row did.

    `too_large`: the other rows.
    """

    tensors: "tuple[Tensor, ...]"
    too_large: list[int]

    def fitting(self, num_rows: int) -> list[int]:
        """The rows of `tensors`, of a batch of `num_rows`."""
        return (
            [row for row in range(num_rows) if row not in self.too_large] if self.too_large else list(range(num_rows))
        )


class Running:
    """What a model makes of a batch: there already, or in pieces that threads are computing."""

    def __init__(self, pieces: "list[Future[Pieces]] | Pieces") -> None:
        self._pieces = pieces

    def result(self) -> Result:
        """Wait for the model; raises what it raised, but for want of memory."""
        import torch

        found: Pieces = []
        for piece in self._pieces:
            if isinstance(piece, Future):
                own: Pieces = wait_for(piece)
                found += own
            else:
                found.append(piece)
        too_large, row = [], 0
        for one in found:
            if one is None:
                too_large.append(row)
            row += 1 if one is None else len(one[0])
        made = [one for one in found if one is not None]
        if len(made) == 1:
            return Result(made[0], too_large)
        return Result(tuple(torch.cat(of_one) for of_one in zip(*made, strict=True)), too_large)


def is_out_of_memory(error: Exception) -> bool:
    """Whether a model, or anything else of PyTorch's, failed for want of memory."""
    import torch

    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _ALLOCATION_FAILED)


def _run_in_pieces(model: Model, batch: "Sequence[Tensor]") -> Pieces:
    """Run a batch, in halves if it does not fit, and in halves of these."""
    made = _try(model, batch)
    if made is None:
        _free_memory()
        if not _noted.is_set():
            _noted.set()
            print(
                "note: a batch did not fit into memory and is split; a smaller --batch-duration fits", file=sys.stderr
            )
    if made is None and len(batch[0]) > 1:
        middle = len(batch[0]) // 2
        halves = [tensor[:middle] for tensor in batch], [tensor[middle:] for tensor in batch]
        return [piece for half in halves for piece in _run_in_pieces(model, half)]
    if made is None:
        with _exclusive_lock:  # other threads that failed wait, and what they held is free
            made = _try(model, batch)
    return [made]


def _try(model: Model, batch: "Sequence[Tensor]") -> "tuple[Tensor, ...] | None":
    """What the model makes of a batch, None where that does not fit; then nothing is left of the attempt."""
    try:
        found = model(*batch)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return None
    return found if isinstance(found, tuple) else (found,)


def _free_memory() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


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
            return Running(_run_in_pieces(model, batch))
        rows = self._rows or len(batch[0])
        pieces = zip(*(torch.split(tensor.clone(), rows) for tensor in batch), strict=True)
        with no_interruption():
            return Running([self._pool.submit(_run_in_pieces, model, piece) for piece in pieces])

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
