"""Which processor or GPU a rank computes on, and how many ranks one machine should have."""

import importlib.util
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prepcli.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Devices:
    """`device` of this process, and how many rank processes to start; 1: this process is the only one, or a rank."""

    device: str
    num_ranks: int


def find_devices(wanted: str, local_rank: int, has_launcher: bool) -> Devices:
    """What `--devices` means here. A rank that a launcher started takes the GPU of its number on the machine.

    Raises:
        UsageError: `wanted` is no choice, there are not so many GPUs, or PyTorch is not installed.
    """
    missing = [name for name in ("torch", "torchaudio") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"models need {' and '.join(missing)}: pip install 'prepcli[models]', or 'prepcli[nemo]' for NeMo's models"
        )
    # Before PyTorch is first imported: its threads would else wait for each other in busy loops, against whom the
    # processes that decode have to compete (with other ranks on the same processors, ten times the time).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if wanted == "cpu":
        return Devices("cpu", 1)
    if wanted != "auto" and not (wanted.isdecimal() and int(wanted) > 0):
        raise UsageError(f"--devices takes auto, cpu or a number of GPUs, not {wanted}")
    import torch

    found = torch.cuda.device_count()
    if wanted == "auto" and not found:
        return Devices("cpu", 1)
    count = found if wanted == "auto" else int(wanted)
    if count > found:
        raise UsageError(f"--devices {wanted}: this machine has {found} GPUs that can be used; give cpu or auto")
    return Devices(f"cuda:{local_rank % count}", 1 if has_launcher else count)


def use_full_float32() -> None:
    """No TF32: its ten bits would show in a similarity, and GPUs of different kinds would choose differently."""
    import torch

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


def use_tf32() -> None:
    """Products of float32 with ten bits of mantissa, on GPUs that can; elsewhere nothing changes."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True


def use_same_algorithms() -> None:
    """Convolutions on a GPU by algorithms that depend on shapes alone and give the same bits at every run."""
    import torch

    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def to_device(values: "Tensor", device: str) -> "Tensor":
    """The values on the device. To a GPU they go through pinned memory, beside whatever the GPU is doing."""
    if not device.startswith("cuda"):
        return values
    return values.pin_memory().to(device, non_blocking=True)
