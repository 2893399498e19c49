"""Measures the largest output of a codec's layers. It limits batches, because GPU kernels count with 32 bits."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAX_VALUES = 2**31 - 1
"""Maximum number of values of a tensor in PyTorch's padding kernels."""


class Widest:
    """The largest tensor that a layer has returned so far."""

    num_values = 0

    def note(self, layer: Any, given: Any, returned: Any) -> None:
        """Note the size of a layer's output; a forward hook."""
        import torch

        if isinstance(returned, torch.Tensor):
            self.num_values = max(self.num_values, returned.numel())


@contextmanager
def noting_widest(model: Any) -> Iterator[Widest]:
    """Within the context, note the size of the largest output of a model's layers in the yielded `Widest`.

    Modules that only compute weights (parametrizations) are left out.
    """
    widest = Widest()
    layers = [layer for name, layer in model.named_modules() if "parametrizations" not in name]
    hooks = [layer.register_forward_hook(widest.note) for layer in layers]
    try:
        yield widest
    finally:
        for hook in hooks:
            hook.remove()
