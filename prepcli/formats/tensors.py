"""Tensors in files, as `torch.load` reads them."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def tensor_bytes(tensor: "Tensor") -> bytes:
    """The content of a file with one tensor."""
    import torch

    file = io.BytesIO()
    torch.save(tensor, file)
    return file.getvalue()
