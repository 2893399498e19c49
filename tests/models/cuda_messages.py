"""Messages of PyTorch 2.11 for CUDA 13, word by word: from its libraries, and from calls without a driver.

PyTorch has a class of its own for the errors of calls of CUDA (`torch.AcceleratorError`), and one for memory; the rest
is `RuntimeError`.
"""

_HINTS = """
Search for `{name}' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""


def of_call(what: str, name: str) -> str:
    """The message of a call of CUDA that fails."""
    return f"CUDA error: {what}" + _HINTS.format(name=name)


OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver by downloading "
    "and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx Alternatively, go to: "
    "https://pytorch.org to install a PyTorch version that has been compiled with your version of the CUDA driver."
)
NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)
BUSY = of_call("CUDA-capable device(s) is/are busy or unavailable", "cudaErrorDevicesUnavailable")
ECC = of_call("uncorrectable ECC error encountered", "cudaErrorECCUncorrectable")

MEMORY = {
    "allocator": "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.81 GiB",
    "call": of_call("out of memory", "cudaErrorMemoryAllocation"),
    "cudnn": "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cublas": "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cufft": "cuFFT error: CUFFT_INTERNAL_ERROR",
    "engine": "GET was unable to find an engine to execute this computation",
    "padding": "input tensor must fit into 32-bit index math",
    "convolution": "Expected canUse32BitIndexMath(input) && canUse32BitIndexMath(output) to be true, but got false.  "
    "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)",
    "processor": "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: 12 bytes",
}
"""Messages for too little memory, by where they come from."""
DEVICE = {
    "old driver": OLD_DRIVER,
    "no driver": NO_DRIVER,
    "driver and library": "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
    "NumCudaDevices() that might have already set an error? Error 803: system has unsupported display driver / cuda "
    "driver combination",
    "no card": "No CUDA GPUs are available",
    "exclusive": BUSY,
    "ecc": ECC,
    "nvlink": of_call("uncorrectable NVLink error detected during the execution", "cudaErrorNvlinkUncorrectable"),
    "peer": of_call("Invalid access of peer GPU memory over nvlink or a hardware error", "cudaErrorContained"),
    "hardware": of_call("hardware stack error", "cudaErrorHardwareStackError"),
    "fabric": of_call("system not yet initialized", "cudaErrorSystemNotReady"),
    "another number": of_call("invalid device ordinal", "cudaErrorInvalidDevice"),
    "old card": of_call("no kernel image is available for execution on the device", "cudaErrorNoKernelImageForDevice"),
}
"""Messages for a card or a driver that no batch, however small, would run on."""
KERNEL = {
    "xid 13": of_call("unspecified launch failure", "cudaErrorLaunchFailure"),
    "xid 31": of_call("an illegal memory access was encountered", "cudaErrorIllegalAddress"),
    "xid 79": of_call("unknown error", "cudaErrorUnknown"),
    "cublas": "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`",
    "cudnn": "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
}
"""Messages for a computation that has ended the context of CUDA."""
PROGRAM = {
    "assert": of_call("device-side assert triggered", "cudaErrorAssert"),
    "argument": of_call("invalid argument", "cudaErrorInvalidValue"),
    "launch": of_call("invalid configuration argument", "cudaErrorInvalidConfiguration"),
}
OTHER = {
    "shapes": "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
    "file": "PytorchStreamReader failed reading zip archive: not a ZIP archive",
}
