"""Converts arrays and tensors to the content of files, and reads arrays from it."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


def npy_bytes(array: NDArray[Any]) -> bytes:
    """An array as the content of a `.npy` file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def read_npy(data: bytes) -> NDArray[Any]:
    """The array in the content of a `.npy` file.

    Raises `ValueError` for any other content, whatever error NumPy raises: NumPy parses the header as Python code.
    """
    try:
        array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except Exception as error:
        raise ValueError(f"not what numpy saves: {error}") from error
    return array


def tensor_bytes(tensor: "Tensor") -> bytes:
    """The content of a file with one tensor, as `torch.load` reads it."""
    import torch

    file = io.BytesIO()
    torch.save(tensor, file)
    return file.getvalue()
