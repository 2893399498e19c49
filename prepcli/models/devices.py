"""The device that a rank computes on, and the number of ranks per machine."""

import glob
import importlib.util
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prepcli.errors import UsageError, option
from prepcli.interface.calls import Undo, keep_for_caller, set_environ_default
from prepcli.interface.printing import number_of
from prepcli.models.faults import device_failure
from prepcli.models.protocols import Precision
from prepcli.processes.ranks import Rank

if TYPE_CHECKING:
    from torch import Tensor

_GPU_FILES = ("/dev/nvidia*", "/dev/nvhost*", "/dev/nvmap", "/dev/dxg", "/dev/kfd")
"""Device files of GPUs: NVIDIA, NVIDIA Jetson, WSL, AMD."""
_COUNT = """
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
failed = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
print("" if failed else count.value)
"""
"""Program that prints the number of CUDA devices.

It runs in a new process: a process that has initialized CUDA cannot be forked.
"""

_FAILURE = "CUDA initialization: "
"""Beginning of PyTorch's warning that the driver fails."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The device of this process, and the rank processes to start.

    Attributes:
        device: "cpu" or "cuda:N".
        num_ranks: rank processes to start; 1: this process does the work.
        sharing: the reason why another rank of this machine computes on the same GPU; empty if none does.
    """

    device: str
    num_ranks: int
    sharing: str = ""


def check_packages() -> None:
    """Check that the packages that every model needs are installed.

    Raises:
        UsageError: PyTorch or torchaudio is not installed.
    """
    missing = [name for name in ("torch", "torchaudio") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"models need {' and '.join(missing)}: pip install 'prepcli[models]', or 'prepcli[nemo]' for NeMo's models"
        )


def find_devices(wanted: str, rank: Rank) -> Devices:
    """Return the device and the number of ranks for a value of `--devices`.

    Args:
        wanted: "auto" (all GPUs, else CPU), "cpu", or a number of GPUs.
        rank: this rank; its number on the machine selects its GPU.

    Raises:
        UsageError: `wanted` has another value, or more GPUs than the machine has; or PyTorch is not installed.
        IncompleteError: the machine has GPUs, and their driver fails.
    """
    check_packages()
    # Before PyTorch is imported: otherwise its threads wait in busy loops and slow down the decoding processes (by a
    # factor of ten if other ranks use the same CPU).
    set_environ_default("OMP_WAIT_POLICY", "PASSIVE")
    if wanted == "cpu":
        return Devices("cpu", 1)
    if wanted != "auto" and not (wanted.isdecimal() and int(wanted) > 0):
        raise UsageError(f"{option('--devices')} takes auto, cpu or a number of GPUs, not {wanted}")
    num_gpus = _num_gpus()
    if wanted == "auto" and not num_gpus:
        return Devices("cpu", 1)
    count = num_gpus if wanted == "auto" else int(wanted)
    if count > num_gpus:
        raise UsageError(
            f"{option('--devices', wanted)}: this machine has {number_of(num_gpus, 'GPU')} that can be used; give cpu "
            "or auto"
        )
    if rank.launcher == "none":
        return Devices("cuda:0", count)
    number = rank.local_rank
    # Ranks that were started one by one (`--rank`, array tasks) may share a machine: they take the GPUs in turn.
    device = f"cuda:{(rank.rank if number is None else number) % count}"
    if number is None or number < _num_gpus_of_ranks(num_gpus, count):
        return Devices(device, 1)
    those = "those of the machine" if wanted == "auto" else option("--devices", wanted)
    sharing = (
        f"rank {rank.rank} is number {number} on this machine and shares {device}, because "
        f"{number_of(count, 'GPU', 'are')} used ({those}); give each rank a GPU (srun {option('--gpus-per-task')}=1), "
        "or start fewer"
    )
    return Devices(device, 1, sharing)


def check_gpu(device: str, instead: str) -> None:
    """Check that this machine has the GPU `device`, such as `cuda:0`, before work begins on it.

    `instead`: words for what to do without a GPU.

    Raises:
        UsageError: it has not.
        IncompleteError: the machine has GPUs, and their driver fails.
    """
    count = _num_gpus()
    if not count:
        raise UsageError(f"{option('--device', device)}: PyTorch finds no GPU here; {instead}")
    if int(device.partition(":")[2] or 0) >= count:
        raise UsageError(f"{option('--device', device)}: this machine has {number_of(count, 'GPU')}")


def _num_gpus_of_ranks(num_gpus: int, count: int) -> int:
    """The number of GPUs that all ranks of this machine use together.

    Args:
        num_gpus: number of GPUs that this rank can see.
        count: number of GPUs that `--devices` asks for.

    Returns:
        The number of GPUs of the Slurm step if it is greater than `num_gpus`: Slurm then shows each rank only its own
        GPUs (`--gpus-per-task`, `--gpu-bind`). Otherwise `count`.
    """
    text = os.environ.get("SLURM_GPUS_ON_NODE", "")
    of_step = int(text) if text.isdecimal() else 0
    return of_step if num_gpus < of_step else count


def _num_gpus() -> int:
    """The number of GPUs that PyTorch can use; PyTorch is not imported if there is no device file of a GPU.

    Raises:
        IncompleteError: the driver fails. PyTorch itself only warns and counts no GPU.
    """
    if not any(glob.glob(pattern) for pattern in _GPU_FILES):
        return 0
    import torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count = torch.cuda.device_count()
    failure = next((text for warning in caught if _FAILURE in (text := str(warning.message))), None)
    if failure is not None and not count:
        text = failure.partition(_FAILURE)[2].partition(" (Triggered internally")[0]
        raise device_failure(text, "the GPUs of this machine", option("--devices", "cpu"))
    return min(count, _num_exposed(count)) if count > 1 else count


def _num_exposed(otherwise: int) -> int:
    """The number of devices that CUDA shows to a process: one if MIG divides the GPU, even if PyTorch counts several.

    Returns `otherwise` if CUDA does not answer.
    """
    done = subprocess.run([sys.executable, "-SEc", _COUNT], capture_output=True, text=True, check=False)
    text = done.stdout.strip()
    return int(text) if text.isdecimal() else otherwise


def use_device(device: str) -> None:
    """Make a GPU the current device of this process, so that no memory of another GPU is used."""
    if device.startswith("cuda"):
        import torch

        keep_for_caller(_device)
        torch.cuda.set_device(device)


def _device() -> Undo:
    import torch

    # Called here, it shows whether the program has used a GPU; called in `undo`, whether this call of prepcli has.
    is_in_use = torch.cuda.is_initialized
    device = torch.cuda.current_device() if is_in_use() else 0  # type: ignore[no-untyped-call]

    def undo() -> None:
        if is_in_use():  # type: ignore[no-untyped-call]  # a driver that fails would fail once more
            torch.cuda.set_device(device)

    return undo


def _settings() -> Undo:
    """Read the settings of PyTorch that jobs change, and return a function that restores them."""
    import torch

    precision, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn
    names = ("allow_tf32", "benchmark", "deterministic")
    values = [getattr(cudnn, name) for name in names]

    def undo() -> None:
        torch.set_float32_matmul_precision(precision)
        for name, value in zip(names, values, strict=True):
            setattr(cudnn, name, value)

    return undo


@contextmanager
def keeping_generators() -> Iterator[None]:
    """Restore the caller's random generators at the end of the context, in which a model is made.

    A new model draws random weights, before it loads those of its file.
    """
    import numpy as np

    was_there = "torch" in sys.modules
    states = random.getstate(), np.random.get_state(), _torch_states() if was_there else None
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        if "torch" in sys.modules:
            _set_torch_states(states[2])


def _torch_states() -> "tuple[Tensor, list[Tensor]]":
    import torch

    is_in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if is_in_use else []


def _set_torch_states(states: "tuple[Tensor, list[Tensor]] | None") -> None:
    """Set the states of PyTorch's random generators, on the CPU and on the GPUs.

    With None, the generator of the CPU gets the state that it has in a new process; the GPUs keep theirs.
    """
    import torch

    on_cpu, on_gpus = states or (torch.Generator().get_state(), [])
    torch.set_rng_state(on_cpu)
    if on_gpus:
        torch.cuda.set_rng_state_all(on_gpus)


def use_full_float32() -> None:
    """Switch off TF32: its 10-bit mantissa would make results differ between GPUs that support it and other GPUs."""
    import torch

    keep_for_caller(_settings)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


def use_tf32() -> None:
    """Switch on TF32 (float32 products with a 10-bit mantissa) on GPUs that support it."""
    import torch

    keep_for_caller(_settings)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True


def use_same_algorithms() -> None:
    """Use deterministic algorithms for convolutions on a GPU, selected by shape only."""
    import torch

    keep_for_caller(_settings)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def to_device(values: "Tensor", device: str) -> "Tensor":
    """Return the values on the device; a copy to a GPU uses pinned memory, and runs while the GPU computes."""
    if not device.startswith("cuda"):
        return values
    return values.pin_memory().to(device, non_blocking=True)


@contextmanager
def computing_in(precision: Precision, device: str) -> Iterator[None]:
    """Within the context, PyTorch computes in bfloat16 if `precision` is "bf16"; otherwise this changes nothing."""
    import torch

    if precision != "bf16":
        yield
        return
    onednn: Any = torch.backends.mkldnn
    was_enabled = onednn.enabled
    if torch.device(device).type == "cpu":
        onednn.enabled = False  # oneDNN's convolutions for AMX return wrong numbers (PyTorch 2.11)
    try:
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            yield
    finally:
        onednn.enabled = was_enabled
