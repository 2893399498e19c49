"""Arrays as the content of files."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray


def npy_bytes(array: NDArray[Any]) -> bytes:
    """An array as the content of a `.npy` file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
