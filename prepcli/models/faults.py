"""Classifies errors of PyTorch: too little memory, a device that has failed, or a faulty computation."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from prepcli.errors import IncompleteError


class Fault(Enum):
    """The cause of an error of PyTorch."""

    MEMORY = "too little memory: smaller batches may fit"
    DEVICE = "the card or its driver: whatever runs next fails as well"
    KERNEL = "a computation that ended: because of the card, or of a batch that is too large"
    PROGRAM = "a wrong call: it fails again on every card"


_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "_ALLOC_FAILED",
    "CUFFT_INTERNAL_ERROR",  # cuFFT has no memory for its plan
    "CUFFT_NO_WORKSPACE",
    "unable to find an engine to execute this computation",  # cuDNN has no memory for the workspace of any algorithm
    "32BitIndexMath",  # kernels with indexes of 32 bits, and a larger tensor
    "32-bit index math",
)
_DEVICE = (
    "NVIDIA driver",
    "CUDA driver initialization failed",
    "CUDA unknown error",
    "cudaGetDeviceCount",
    "No CUDA GPUs are available",
    "NVML_SUCCESS",
    "busy or unavailable",
    "ECC error",
    "NVLink error",
    "over nvlink or a hardware error",
    "hardware stack error",
    "CUDA error: initialization error",
    "CUDA error: driver shutting down",
    "no CUDA-capable device",
    "invalid device ordinal",
    "insufficient for CUDA runtime",
    "in the installed CUDA driver",
    "no kernel image is available",
    "unsupported toolchain",
    "system not yet initialized",
    "unsupported display driver",
    "forward compatibility was attempted",
    "MPS server",
    "MPS client",
)
_OF_THE_DEVICE = ("CUDA error", "CUDA driver error", "HIP error", "cuDNN error", "cuFFT error", "CUSOLVER_STATUS")
"""Texts by which messages of the libraries for GPUs are recognized. If such a message has no text of `_MEMORY` or
`_DEVICE`, the cause of the error is `Fault.KERNEL` or `Fault.PROGRAM`."""
_PROGRAM = (
    "device-side assert triggered",
    "invalid argument",
    "invalid configuration argument",
    "invalid resource handle",
    "_INVALID_VALUE",
    "_BAD_PARAM",
    "_NOT_SUPPORTED",
)


def fault_of(error: BaseException) -> Fault | None:
    """Return the cause of an error; None for an error that is neither of a device nor of memory.

    PyTorch has classes for some of these errors only, so the words of the messages decide.
    """
    if isinstance(error, MemoryError):
        return Fault.MEMORY
    if not isinstance(error, RuntimeError):  # PyTorch's own classes derive from it
        return None
    text = str(error)
    for words, fault in ((_MEMORY, Fault.MEMORY), (_DEVICE, Fault.DEVICE)):
        if any(word in text for word in words):
            return fault
    if not any(word in text for word in _OF_THE_DEVICE):
        return None
    return Fault.PROGRAM if any(word in text for word in _PROGRAM) else Fault.KERNEL


def device_failure(text: str, device: str, otherwise: str = "") -> IncompleteError:
    """Return the error for a device that has failed; finished units are kept, and another device can continue.

    Args:
        text: PyTorch's message.
        device: the name of the device.
        otherwise: a further way to continue, which the message names, such as `--devices cpu`; may be empty.
    """
    import torch

    hip = getattr(torch.version, "hip", None)
    reason = text.strip().partition("\n")[0].removeprefix("CUDA error: ").rstrip()  # without hints for programmers
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {hip}" if hip else "the CPU"
    return IncompleteError(
        f"the device has failed: {device}: {reason or 'no message'} ({_driver()}, and PyTorch {torch.__version__} is "
        f"for {built}). What is finished is kept: continue with a device that works{otherwise and f', or {otherwise}'}"
    )


@contextmanager
def naming_faults(device: str, otherwise: str = "") -> Iterator[None]:
    """Within the context, replace PyTorch's errors of the device by the errors listed below.

    `otherwise` is a further way to continue, which the message names; see `device_failure`.

    Raises:
        IncompleteError: the device has failed.
        MemoryError: the device has too little memory.
    """
    try:
        yield
    except RuntimeError as error:
        fault = fault_of(error)
        if fault in (Fault.DEVICE, Fault.KERNEL):
            raise device_failure(str(error), device, otherwise) from error
        if fault is Fault.MEMORY:
            raise MemoryError(" ".join(str(error).split())) from error
        raise


def _driver() -> str:
    """Return a clause for a message: the CUDA version of the driver, or that it does not answer or is missing."""
    version = ctypes.c_int()
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return "there is no driver"
    major, rest = divmod(version.value, 1000)  # 12020 is 12.2
    return "its driver does not answer" if failed else f"its driver is for CUDA {major}.{rest // 10}"
