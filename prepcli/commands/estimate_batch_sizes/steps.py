"""Training steps with a real model, on a GPU, or on the CPU with counted bytes; runs in the child process."""

import contextlib
import gc
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prepcli.commands.estimate_batch_sizes.messages import Counted, Hello, Setup, Step
from prepcli.errors import UsageError
from prepcli.models.batch_schemas import schema_of
from prepcli.models.devices import use_device
from prepcli.models.faults import Fault, device_failure, fault_of, naming_faults
from prepcli.models.training import load_for_training, make_optimizer, make_step

if TYPE_CHECKING:
    from torch import Tensor

    from prepcli.models.counted_memory import MemoryCounter

SEED = 0
OWN_CONTEXT = 2 * 2**30
"""Bytes of a GPU that a process takes at most beside those of its tensors: its context, and CUDA's libraries."""
COUNTED_SIZES = (2, 3)
"""Batches of which the bytes are counted. One example alone may take other paths, such as a dimension of length 1."""


class ModelTrainer:
    """A model, its optimizer and its synthetic batches.

    Args:
        setup: the model, and how it is trained.
        computes: whether steps on the CPU compute values; counting their bytes needs none.
    """

    def __init__(self, setup: Setup, *, computes: bool = False) -> None:
        import torch

        self._setup = setup
        self._computes = computes
        self._device = setup.device
        self._on_gpu = self._device != "cpu"
        with naming_faults(self._device):
            self._memory, self._limit = _memory_limit(setup)
            torch.manual_seed(SEED)
            self._model = load_for_training(setup.model, setup.model_class, setup.config, self._device)
            self._schema = schema_of(self._model)
            self._optimizer = make_optimizer(self._model, setup.optimizer)
            copied = sum(_bytes(one) for one in self._of_model()) if setup.ddp else 0
            self._copy_bytes = copied
            # A second copy of the model, as distributed training has one in its buckets of gradients.
            self._copy = torch.empty(copied, dtype=torch.uint8, device=self._device) if self._on_gpu else None

    def hello(self) -> Hello:
        """What this is."""
        import torch

        name = torch.cuda.get_device_name(self._device) if self._on_gpu else "cpu"
        # The state of the optimizer appears with its first step, and gradients with each.
        trained = sum(_bytes(one) for one in self._model.parameters() if one.requires_grad)
        static = sum(map(_bytes, self._of_model())) + self._copy_bytes + 3 * trained
        return Hello(name, self._memory, self._limit, static, type(self._model).__name__)

    def step(self, duration: float, tokens: int | None, size: int) -> Step:
        """Make a training step."""
        lengths = self._schema.lengths(duration, tokens, self._setup.ratio)
        started = time.monotonic()
        try:
            peak, reserved = self._gpu_step(size, lengths) if self._on_gpu else (self._cpu_step(size, lengths).peak, 0)
        except Exception as error:
            outcome = self._outcome(error)
            if outcome is None:
                raise
            self._forget()
            return outcome
        return Step("fits", peak, reserved, round(time.monotonic() - started, 4))

    def count(self, duration: float, tokens: int | None) -> Counted:
        """Count the memory of small steps."""
        lengths = self._schema.lengths(duration, tokens, self._setup.ratio)
        return Counted([(size, self._cpu_step(size, lengths, limited=False).timeline) for size in COUNTED_SIZES])

    def _gpu_step(self, size: int, lengths: tuple[int, int]) -> tuple[int, int]:
        import torch

        self._warm_up(lengths)
        torch.cuda.reset_peak_memory_stats(self._device)
        batch = self._schema.batch(size, lengths, self._device)
        make_step(self._model, self._optimizer, batch, self._setup.dtype, self._device)
        torch.cuda.synchronize(self._device)
        return torch.cuda.max_memory_allocated(self._device), torch.cuda.max_memory_reserved(self._device)

    def _cpu_step(self, size: int, lengths: tuple[int, int], *, limited: bool = True) -> "MemoryCounter":
        """A step whose bytes are counted; the optimizer's state is there before."""
        import torch

        from prepcli.models.counted_memory import MemoryCounter

        if not self._optimizer.state:  # the first step makes it
            with MemoryCounter((), computes=self._computes):
                self._warm_up(lengths)
        # Every step draws the same numbers, so that steps of two sizes differ in the size alone.
        torch.manual_seed(SEED)
        self._optimizer.zero_grad()
        known = [*self._of_model(), *_tensors_of(self._optimizer.state)]
        counter = MemoryCounter(known, self._limit if limited else None, self._copy_bytes, computes=self._computes)
        with counter, _no_garbage_collection():
            batch = self._schema.batch(size, lengths, self._device)
            make_step(self._model, self._optimizer, batch, self._setup.dtype, self._device)
        return counter

    def _warm_up(self, lengths: tuple[int, int]) -> None:
        """Make the optimizer's state, which all steps of a training but the first find."""
        if not self._optimizer.state:
            batch = self._schema.batch(1, lengths, self._device)
            make_step(self._model, self._optimizer, batch, self._setup.dtype, self._device)

    def _outcome(self, error: Exception) -> Step | None:
        """Return what the error means for the search; None for an error of the model.

        Raises:
            UsageError: other processes use the memory that was missing.
            IncompleteError: the device has failed, whatever the batch.
        """
        detail = " ".join(str(error).split())[:300]
        fault = fault_of(error)
        if fault is Fault.MEMORY:
            if self._on_gpu:
                _refuse_shared(self._device, self._limit)
            return Step("out_of_memory", detail=detail)
        if fault is Fault.DEVICE:
            raise device_failure(str(error), self._device) from error
        return Step("cuda_error", detail=detail) if self._on_gpu and fault is not None else None

    def _forget(self) -> None:
        """Free what the failed step has left. The allocator's caches stay, as they do in a training."""
        self._optimizer.zero_grad()

    def _of_model(self) -> "Iterator[Tensor]":
        yield from self._model.parameters()
        yield from self._model.buffers()


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Tensors in cycles of references would be freed at any time, and counts differ by up to a percent."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _memory_limit(setup: Setup) -> tuple[int, int]:
    """The memory of the device, and how much of it a step may use; the limit of this process is set."""
    import torch

    if setup.device == "cpu":
        memory = setup.gpu_memory or 0
        return memory, int(memory * setup.memory_fraction)
    count = torch.cuda.device_count()
    if not count:
        raise UsageError(
            f"--device {setup.device}: PyTorch finds no GPU here; for an estimate give --device cpu --gpu-memory 80GiB"
        )
    number = int(setup.device.partition(":")[2] or 0)
    if number >= count:
        raise UsageError(f"--device {setup.device}: this machine has {count} GPUs")
    use_device(setup.device)  # NeMo, and its loss of RNN-T, ask for the current one
    memory = torch.cuda.get_device_properties(setup.device).total_memory
    wanted = setup.gpu_memory or memory
    if wanted > memory:
        raise UsageError(
            f"--gpu-memory: this GPU has {memory / 2**30:.1f} GiB; for a larger one give --device cpu, an estimate"
        )
    torch.cuda.set_per_process_memory_fraction(setup.memory_fraction * wanted / memory, setup.device)
    return wanted, int(setup.memory_fraction * wanted)


def _refuse_shared(device: str, limit: int) -> None:
    """Check after a lack of memory that the memory up to the limit was this process's to use.

    Raises:
        UsageError: other processes have a part of it.
    """
    import torch

    free, total = torch.cuda.mem_get_info(device)
    others = total - free - torch.cuda.memory_reserved(device)
    if others > OWN_CONTEXT and others + limit > total:
        raise UsageError(
            f"other processes use {others / 2**30:.1f} GiB of the {total / 2**30:.1f} GiB of {device}, so the batch "
            "sizes would be too small: give each rank a GPU of its own, wait until the GPU is free, or give the memory "
            "that training will have (--gpu-memory)"
        )


def _bytes(tensor: "Tensor") -> int:
    return tensor.numel() * tensor.element_size()


def _tensors_of(state: Any) -> "Iterator[Tensor]":
    import torch

    for values in state.values():
        yield from (one for one in values.values() if isinstance(one, torch.Tensor))
