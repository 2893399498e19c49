"""Running a model: on a GPU one batch at a time, on a CPU several rows of batches in parallel.

A batch that does not fit into memory is split, down to single rows.

In a single CUDA stream, the copy of a batch would wait for the computation of the batch before it. Here a computation
waits only for the copy of its own batch, and the copy of the results only for this computation.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from prepcli.engine.run.crashes import in_flight
from prepcli.errors import option
from prepcli.models.faults import Fault, fault_of
from prepcli.processes.workers import no_interruption, wait_for, wait_for_any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.cuda import Event, Stream


Prepare: TypeAlias = "Callable[..., tuple[Tensor, ...]]"
"""A function that takes the CPU tensors of a batch, and returns the input of the model, on its device."""


class Streams:
    """The streams of a GPU for copies; computations use the current stream."""

    def __init__(self, device: str) -> None:
        import torch

        self._to_device: Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._to_host: Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def prepare(self, prepare: Prepare, batch: "Sequence[Tensor]") -> "tuple[Tensor, ...]":
        """Return the result of `prepare` for a batch.

        The call returns before the copies to the GPU are complete. Later computations wait for them.
        """
        import torch

        with torch.cuda.stream(self._to_device):
            tensors = prepare(*batch)
        computing = torch.cuda.current_stream()
        computing.wait_stream(self._to_device)
        _keep(tensors, computing)
        return tensors

    def copy_to_host(self, tensors: "Sequence[Tensor]") -> "tuple[Tensor, ...]":
        """Return copies of results in pinned memory, which may still be incomplete.

        They may be read when the event that `copied` returns is complete.
        """
        import torch

        self._to_host.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._to_host):
            hosts = tuple(_copy_to_host(tensor) for tensor in tensors)
        _keep(tensors, self._to_host)
        return hosts

    def copied(self) -> "Event":
        """Return an event that is complete when all copies of results so far are complete."""
        import torch

        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._to_host)
        return event


@lru_cache(maxsize=8)
def streams_of(device: str) -> Streams:
    """The streams of a device, made once per process: new streams could not use the memory that old ones have freed."""
    return Streams(device)


def _copy_to_host(tensor: "Tensor") -> "Tensor":
    import torch

    if not tensor.is_cuda:
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)


def _keep(tensors: "Sequence[Tensor]", stream: "Stream") -> None:
    """Keep the memory of tensors until the stream has used them, even if the tensors are freed before."""
    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(stream)


Model: TypeAlias = "Callable[..., Tensor | tuple[Tensor, ...]]"
"""A function that takes and returns tensors; their first dimension is the rows of a batch."""

Pieces: TypeAlias = "list[tuple[Tensor, ...] | None]"
"""Results for the pieces of a batch, in order; None for a single row that does not fit into memory."""

GPU_DEPTH = 2
"""Number of batches to start on a GPU before a result is awaited: the GPU computes while the next batch is prepared."""
_exclusive_lock = threading.Lock()
_noted = threading.Event()


class Result(NamedTuple):
    """The result of a model for a batch.

    Attributes:
        tensors: results for the rows that fitted into memory, in order; empty if none fitted.
        too_large: the positions of the other rows in the batch, in order.
    """

    tensors: "tuple[Tensor, ...]"
    too_large: list[int]

    def fitting(self, num_rows: int) -> list[int]:
        """Return the positions of the rows that are in `tensors`; `num_rows` is the number of rows of the batch."""
        return (
            [row for row in range(num_rows) if row not in self.too_large] if self.too_large else list(range(num_rows))
        )


class Running:
    """The result for a batch: complete, or in pieces that threads compute."""

    def __init__(
        self, pieces: "list[Future[Pieces]] | Pieces", copied: "Event | None" = None, batch: int | None = None
    ) -> None:
        """Keep the pieces of the result.

        Args:
            pieces: the results, or the futures of threads that compute them.
            copied: an event to wait for before the pieces are used.
            batch: the number of the batch in `prepcli.engine.run.crashes`; None if it has none.
        """
        self._pieces = pieces
        self._copied = copied
        self._batch = batch

    def pieces(self) -> Pieces:
        """Wait for the results of the pieces, and return them in order."""
        if self._copied is not None:
            self._copied.synchronize()
        parts: Pieces = []
        for piece in self._pieces:
            if isinstance(piece, Future):
                own: Pieces = wait_for(piece)
                parts += own
            else:
                parts.append(piece)
        return parts

    def result(self) -> Result:
        """Wait for the result; errors of the model are raised, except too little memory (see `Result.too_large`)."""
        import torch

        pieces = self.pieces()
        if self._batch is not None:
            in_flight().end(self._batch)
        too_large, row = [], 0
        for piece in pieces:
            if piece is None:
                too_large.append(row)
            row += 1 if piece is None else len(piece[0])
        made = [piece for piece in pieces if piece is not None]
        if len(made) == 1:
            return Result(made[0], too_large)
        return Result(tuple(torch.cat(of_one) for of_one in zip(*made, strict=True)), too_large)


def _run_in_pieces(model: Model, batch: "Sequence[Tensor]") -> Pieces:
    """Run a batch; if it does not fit into memory, run each half in the same way."""
    made = _try(model, batch)
    if made is None:
        _free_memory()
        if not _noted.is_set():
            _noted.set()
            print(
                f"note: a batch did not fit into memory and is split; a smaller {option('--batch-duration')} fits",
                file=sys.stderr,
            )
    if made is None and len(batch[0]) > 1:
        middle = len(batch[0]) // 2
        halves = [tensor[:middle] for tensor in batch], [tensor[middle:] for tensor in batch]
        return [piece for half in halves for piece in _run_in_pieces(model, half)]
    if made is None:
        with _exclusive_lock:  # other threads that failed wait here, with their memory freed
            made = _try(model, batch)
    return [made]


def _try(model: Model, batch: "Sequence[Tensor]") -> "tuple[Tensor, ...] | None":
    """Return the result for a batch; None if it does not fit, and the memory of the attempt is freed."""
    try:
        output = model(*batch)
    except Exception as error:
        if fault_of(error) is not Fault.MEMORY:
            raise
        return None
    return output if isinstance(output, tuple) else (output,)


def _no_preparation(*batch: "Tensor") -> "tuple[Tensor, ...]":
    return batch


def _compute(model: Model, prepare: Prepare, *batch: "Tensor") -> "Tensor | tuple[Tensor, ...]":
    return model(*prepare(*batch))


def _compute_in_streams(
    model: Model, prepare: Prepare, streams: Streams, to_host: bool, *batch: "Tensor"
) -> "Tensor | tuple[Tensor, ...]":
    output = model(*streams.prepare(prepare, batch))
    return streams.copy_to_host(output if isinstance(output, tuple) else (output,)) if to_host else output


def _free_memory() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class ModelRunner:
    """Runs a model on batches; the next batches are started before the result of the first is used.

    On a CPU a batch is cut into pieces of `rows` rows (None: it stays whole). Each piece is computed by one thread,
    with as many threads as PyTorch has. Rounding then depends neither on the size of batches nor on the number of
    threads, and activations stay in the cache of a core.

    On a GPU, with `to_host`, results are copied to the CPU, so that they can be used while later batches are computed.
    To read a result from the GPU would take longer: the read would wait for all batches that were started later.
    Batches are prepared and results are copied in parallel with the computation (`prepcli.models.running`).

    Attributes:
        device: "cpu" or "cuda:N".
        depth: number of batches to pass to `run` before the first result is used.
    """

    def __init__(self, device: str, rows: int | None, *, to_host: bool = False) -> None:
        """`rows`: the rows of a piece on a CPU, see above; it has no effect on a GPU.

        `to_host`: results of a GPU are copied to the CPU; otherwise they stay on the GPU.
        """
        import torch

        self.device = device
        self._rows = rows
        self._to_host = to_host
        self._pool: ThreadPoolExecutor | None = None
        self._streams: Streams | None = None
        self._started: list[Future[Pieces]] = []
        self.depth = GPU_DEPTH
        if device == "cpu":
            num_threads = torch.get_num_threads()
            self._pool = ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,))
            self.depth = 1 + num_threads
        else:
            self._streams = streams_of(device)

    def run(
        self, model: Model, *batch: "Tensor", keys: Sequence[str] = (), prepare: Prepare = _no_preparation
    ) -> Running:
        """Start the model on the output of `prepare(*batch)`; the tensors of `batch` may be overwritten afterwards.

        `keys` are names of the rows. They are noted on disk until the result is used, in case the process crashes
        (`prepcli.engine.run.crashes`). If an earlier process crashed while it computed one of these rows, they are
        computed one by one, with no other row at the same time.
        """
        if keys and in_flight().is_suspect(keys):
            return self._run_alone(model, prepare, batch, keys)
        number = in_flight().begin(keys) if keys else None
        return self._start(model, prepare, batch, number)

    def _start(self, model: Model, prepare: Prepare, batch: "Sequence[Tensor]", number: int | None = None) -> Running:
        import torch

        if self._pool is None:
            assert self._streams is not None
            model = partial(_compute_in_streams, model, prepare, self._streams, self._to_host)
            output = _run_in_pieces(model, batch)
            return Running(output, self._streams.copied() if self._to_host else None, number)
        model = partial(_compute, model, prepare)
        rows = self._rows or len(batch[0])
        pieces = zip(*(torch.split(tensor.clone(), rows) for tensor in batch), strict=True)
        self._started = [future for future in self._started if not future.done()]
        with no_interruption():
            futures = [self._pool.submit(_run_in_pieces, model, piece) for piece in pieces]
            self._started += futures
        return Running(futures, batch=number)

    def _run_alone(self, model: Model, prepare: Prepare, batch: "Sequence[Tensor]", keys: Sequence[str]) -> Running:
        self._wait_for_others()
        pieces: Pieces = []
        for row, key in enumerate(keys):
            number = in_flight().begin([key])
            pieces += self._start(model, prepare, [tensor[row : row + 1] for tensor in batch]).pieces()
            self._wait_for_others()
            in_flight().end(number)
        return Running(pieces)

    def _wait_for_others(self) -> None:
        """Wait until the model is idle; raises the errors of `Running.result`."""
        import torch

        for future in self._started:
            while not wait_for_any([future]):
                pass
        if self._pool is None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        in_flight().end()

    def __enter__(self) -> "ModelRunner":
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the pieces that are being computed, and cancel the others."""
        if self._pool is not None:
            with no_interruption():
                self._pool.shutdown(cancel_futures=True)
