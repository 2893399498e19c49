"""The device that a rank computes on, and the number of ranks per machine."""

import glob
import importlib.util
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prepcli.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

_GPU_FILES = ("/dev/nvidia*", "/dev/nvhost*", "/dev/nvmap", "/dev/dxg", "/dev/kfd")
"""Device files of GPUs: NVIDIA's, those of its small boards, WSL's, AMD's."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The device of this process, and the rank processes to start.

    Attributes:
        device: "cpu" or "cuda:N".
        num_ranks: rank processes to start; 1: this process does the work.
    """

    device: str
    num_ranks: int


def find_devices(wanted: str, local_rank: int, has_launcher: bool) -> Devices:
    """Return what `--devices` means on this machine.

    Args:
        wanted: "auto" (all GPUs, else CPU), "cpu", or a number of GPUs.
        local_rank: number of this rank on the machine, which selects its GPU.
        has_launcher: whether a launcher has started the ranks.

    Raises:
        UsageError: another choice, more GPUs than the machine has, or PyTorch is not installed.
    """
    missing = [name for name in ("torch", "torchaudio") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"models need {' and '.join(missing)}: pip install 'prepcli[models]', or 'prepcli[nemo]' for NeMo's models"
        )
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
    return Devices(f"cuda:{local_rank % count}", 1 if has_launcher else count)


def _num_gpus() -> int:
    """GPUs that PyTorch can use; where the system has no device file of one, PyTorch is not imported for this."""
    if not any(glob.glob(pattern) for pattern in _GPU_FILES):
        return 0
    import torch

    return torch.cuda.device_count()


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
