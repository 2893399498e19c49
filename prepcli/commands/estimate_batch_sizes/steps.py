"""Training steps with a real model, on a GPU, or on the CPU with counted bytes; runs in the child process."""

import contextlib
import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prepcli.commands.estimate_batch_sizes.search import BucketResults, DeviceFacts, Step
from prepcli.commands.estimate_batch_sizes.settings import SearchSettings, parse_memory
from prepcli.errors import UsageError, option
from prepcli.models.batch_schemas import schema_of
from prepcli.models.devices import use_device
from prepcli.models.faults import Fault, device_failure, fault_of, naming_faults
from prepcli.models.training import load_for_training, make_optimizer, make_step

if TYPE_CHECKING:
    from torch import Tensor

SEED = 0
OWN_CONTEXT = 2 * 2**30
"""Maximum bytes of GPU memory that a process takes in addition to its tensors: CUDA's context and libraries."""
COUNTED_SIZES = (2, 3)
"""Sizes of the batches whose bytes are counted for an estimate. Models may run other code for a batch of size 1."""


class ModelTrainer:
    """A model, its optimizer and its synthetic batches, on "cpu" or "cuda:N"."""

    def __init__(self, settings: SearchSettings, device: str) -> None:
        import torch

        self._settings, self._device, self._on_gpu = settings, device, device != "cpu"
        with naming_faults(device):
            self._memory, self._limit = _memory_limit(settings, device)
            torch.manual_seed(SEED)
            self._model = load_for_training(settings.model, settings.model_class, settings.config, device)
            self._schema = schema_of(self._model)
            self._optimizer = make_optimizer(self._model, settings.optimizer)
            # A second copy of the model: distributed training keeps one in its gradient buckets.
            self._copy_bytes = sum(tensor.nbytes for tensor in self._of_model()) if settings.ddp else 0
            self._copy = torch.empty(self._copy_bytes, dtype=torch.uint8, device=device) if self._on_gpu else None

    def device_facts(self) -> DeviceFacts:
        """The description of the model and its device."""
        import torch

        name = torch.cuda.get_device_name(self._device) if self._on_gpu else "cpu"
        return DeviceFacts(name, self._memory, self._limit, type(self._model).__name__)

    def step(self, duration: float, tokens: int | None, size: int) -> Step:
        """Make a training step with `size` examples of `duration` seconds and `tokens` output tokens.

        If `tokens` is None, the number of output tokens is `--ratio` times the duration. If the batch needs too much
        memory, the returned step has the outcome `out_of_memory`.
        """
        lengths = self._schema.lengths(duration, tokens, self._settings.ratio)
        try:
            peak = self._gpu_step(size, lengths) if self._on_gpu else max(self._counted(size, lengths))
        except Exception as error:
            outcome = self._outcome(error, size)
            if outcome is None:
                raise
            # Free the gradients of the failed step. The allocator's caches stay, as in a training run.
            self._optimizer.zero_grad()
            return outcome
        return Step(size, "fits", peak) if self._on_gpu or peak <= self._limit else Step(size, "out_of_memory")

    def count(self, duration: float, tokens: int | None) -> BucketResults:
        """Count the bytes of two steps, with 2 and with 3 examples.

        The result has both steps, and the lines by which `peak_of` extrapolates to other batch sizes.
        """
        from prepcli.models.counted_memory import envelope

        lengths = self._schema.lengths(duration, tokens, self._settings.ratio)
        (small, first), (large, second) = ((size, self._counted(size, lengths)) for size in COUNTED_SIZES)
        steps = [Step(small, "fits", max(first)), Step(large, "fits", max(second))]
        return BucketResults(steps, envelope(small, first, large, second))

    def _gpu_step(self, size: int, lengths: tuple[int, int]) -> int:
        import torch

        self._warm_up(lengths)
        torch.cuda.reset_peak_memory_stats(self._device)
        self._make_step(size, lengths)
        torch.cuda.synchronize(self._device)
        return torch.cuda.max_memory_allocated(self._device)

    def _counted(self, size: int, lengths: tuple[int, int]) -> list[int]:
        """The bytes in use at the start of a step, and after each allocation of a tensor.

        The optimizer's state exists already, as in all but the first step of a training run.
        """
        import torch

        from prepcli.models.counted_memory import MemoryCounter

        with MemoryCounter(()):
            self._warm_up(lengths)
        # Every step draws the same random numbers, so that steps differ in batch size only.
        torch.manual_seed(SEED)
        self._optimizer.zero_grad()
        states = (value for values in self._optimizer.state.values() for value in values.values())
        known = [*self._of_model(), *(value for value in states if isinstance(value, torch.Tensor))]
        with MemoryCounter(known, self._copy_bytes) as counter, _no_garbage_collection():
            self._make_step(size, lengths)
        timeline: list[int] = counter.timeline
        return timeline

    def _make_step(self, size: int, lengths: tuple[int, int]) -> None:
        batch = self._schema.batch(size, lengths, self._device)
        make_step(self._model, self._optimizer, batch, self._settings.dtype, self._device)

    def _warm_up(self, lengths: tuple[int, int]) -> None:
        """Make a step if the optimizer has no state yet. In training, the state exists from the second step on."""
        if not self._optimizer.state:
            self._make_step(1, lengths)

    def _outcome(self, error: Exception, size: int) -> Step | None:
        """Return the result of a step that raised this error; None if the error is in the model's own code.

        Raises:
            UsageError: memory is missing because other processes use it.
            IncompleteError: the device has failed; the size of the batch is not the cause.
        """
        detail = " ".join(str(error).split())[:300]
        fault = fault_of(error)
        if fault is Fault.MEMORY:
            if self._on_gpu:
                _refuse_shared(self._device, self._limit)
            return Step(size, "out_of_memory", detail=detail)
        if fault is Fault.DEVICE:
            raise device_failure(str(error), self._device) from error
        return Step(size, "cuda_error", detail=detail) if self._on_gpu and fault is not None else None

    def _of_model(self) -> "Iterator[Tensor]":
        yield from self._model.parameters()
        yield from self._model.buffers()


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: it frees tensors in reference cycles at any time, and changes counts by up to 1 %."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _memory_limit(settings: SearchSettings, device: str) -> tuple[int, int]:
    """The memory for which batch sizes are searched, and the part of it that a step may use; in bytes.

    The memory is that of `--gpu-memory`, by default all memory of the GPU. On a GPU, PyTorch lets this process allocate
    no more than the second number from now on.
    """
    import torch

    given = 0 if settings.gpu_memory is None else parse_memory(settings.gpu_memory)
    if device == "cpu":
        return given, int(given * settings.memory_fraction)
    use_device(device)  # NeMo and its RNN-T loss use the current GPU
    memory = torch.cuda.get_device_properties(device).total_memory
    wanted = given or memory
    if wanted > memory:
        raise UsageError(
            f"{option('--gpu-memory')}: this GPU has {memory / 2**30:.1f} GiB; for a larger one give "
            f"{option('--device', 'cpu')}, an estimate"
        )
    torch.cuda.set_per_process_memory_fraction(settings.memory_fraction * wanted / memory, device)
    return wanted, int(settings.memory_fraction * wanted)


def _refuse_shared(device: str, limit: int) -> None:
    """Called when a step ran out of memory: check that no other process was the cause.

    Raises:
        UsageError: other processes use so much memory that this process could not use `limit` bytes.
    """
    import torch

    free, total = torch.cuda.mem_get_info(device)
    others = total - free - torch.cuda.memory_reserved(device)
    if others > OWN_CONTEXT and others + limit > total:
        raise UsageError(
            f"other processes use {others / 2**30:.1f} GiB of the {total / 2**30:.1f} GiB of {device}, so the batch "
            "sizes would be too small: give each rank a GPU of its own, wait until the GPU is free, or give the memory "
            f"that training will have ({option('--gpu-memory')})"
        )
