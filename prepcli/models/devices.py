"""The device that a rank computes on, and the number of ranks per machine."""

import glob
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prepcli.engine.ranks import Rank
from prepcli.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

_GPU_FILES = ("/dev/nvidia*", "/dev/nvhost*", "/dev/nvmap", "/dev/dxg", "/dev/kfd")
"""Device files of GPUs: NVIDIA's, those of its small boards, WSL's, AMD's."""
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK")
"""Environment variables of launchers: the number of this process among those that they have started on this machine."""
_COUNT = """
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
failed = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
print("" if failed else count.value)
"""
"""Prints how many devices CUDA gives to a process; in one of its own, so that this one can still be forked."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The device of this process, and the rank processes to start.

    Attributes:
        device: "cpu" or "cuda:N".
        num_ranks: rank processes to start; 1: this process does the work.
    """

    device: str
    num_ranks: int


def check_packages() -> None:
    """Check that what every model needs is installed.

    Raises:
        UsageError: PyTorch or torchaudio is not.
    """
    missing = [name for name in ("torch", "torchaudio") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"models need {' and '.join(missing)}: pip install 'prepcli[models]', or 'prepcli[nemo]' for NeMo's models"
        )


def find_devices(wanted: str, rank: Rank) -> Devices:
    """Return what `--devices` means on this machine.

    Args:
        wanted: "auto" (all GPUs, else CPU), "cpu", or a number of GPUs.
        rank: this rank; its number on the machine selects its GPU.

    Raises:
        UsageError: another choice, more GPUs than the machine has, or PyTorch is not installed.
    """
    check_packages()
    # Before PyTorch is imported: otherwise its threads wait in busy loops, and slow down the processes that decode (by
    # a factor of ten with other ranks on the same CPU).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if wanted == "cpu":
        return Devices("cpu", 1)
    if wanted != "auto" and not (wanted.isdecimal() and int(wanted) > 0):
        raise UsageError(f"--devices takes auto, cpu or a number of GPUs, not {wanted}")
    found = _num_gpus()
    if wanted == "auto" and not found:
        return Devices("cpu", 1)
    count = found if wanted == "auto" else int(wanted)
    if count > found:
        raise UsageError(f"--devices {wanted}: this machine has {found} GPUs that can be used; give cpu or auto")
    if rank.launcher == "none":
        return Devices("cuda:0", count)
    number = _number_on_machine(rank)
    device = f"cuda:{(rank.rank if number is None else number) % count}"
    if number is not None and number >= count:
        print(
            f"note: rank {rank.rank} is number {number} on this machine and shares {device}: --devices {wanted} "
            f"means {count} here; give each rank a GPU (srun --gpus-per-task=1), or start fewer",
            file=sys.stderr,
        )
    return Devices(device, 1)


def _number_on_machine(rank: Rank) -> int | None:
    """The number of this rank on its machine; None where nothing says it.

    Ranks that were started one by one (`--rank`, array tasks) may be alone on their machines or not: they take the
    GPUs in turn.
    """
    if rank.launcher not in ("command line", "Slurm array"):
        return rank.local_rank
    if rank.launcher == "Slurm array":  # a task of an array is a job of its own, in which SLURM_LOCALID is 0
        return None
    found = (os.environ.get(name, "") for name in _LOCAL_RANKS)
    return next((int(text) for text in found if text.isdecimal()), None)


def _num_gpus() -> int:
    """GPUs that PyTorch can use; where the system has no device file of one, PyTorch is not imported for this."""
    if not any(glob.glob(pattern) for pattern in _GPU_FILES):
        return 0
    import torch

    count = torch.cuda.device_count()
    return min(count, _num_exposed(count)) if count > 1 else count


def _num_exposed(otherwise: int) -> int:
    """Devices that CUDA itself gives to a process: with MIG one, where PyTorch may count several."""
    done = subprocess.run([sys.executable, "-SEc", _COUNT], capture_output=True, text=True, check=False)
    text = done.stdout.strip()
    return int(text) if text.isdecimal() else otherwise


def use_device(device: str) -> None:
    """Make a GPU the current one of this process, so that nothing takes memory of another."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.set_device(device)


def use_full_float32() -> None:
    """Switch off TF32: with its ten bits, similarities and so selections would differ between kinds of GPUs."""
    import torch

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


def use_tf32() -> None:
    """Switch on TF32 (float32 products with ten bits of mantissa) on GPUs that have it."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True


def use_same_algorithms() -> None:
    """Use deterministic algorithms for convolutions on a GPU, chosen by shapes only."""
    import torch

    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def to_device(values: "Tensor", device: str) -> "Tensor":
    """Return the values on the device; copies to a GPU go through pinned memory, while the GPU computes."""
    if not device.startswith("cuda"):
        return values
    return values.pin_memory().to(device, non_blocking=True)
