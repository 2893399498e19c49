"""Counts the bytes of tensors during a training step.

The pieces of memory that an allocator takes for them are a little larger.
"""

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from prepcli.models.shapes_only import without_arithmetic


class MemoryCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within the context, each new tensor adds the bytes of its storage, until the storage is freed.

    Args:
        known: tensors that are there already: the model, the optimizer's state.
        limit: bytes at which the next tensor raises `torch.cuda.OutOfMemoryError`, as on a GPU; None: no limit.
        extra: bytes to count beside them.
        computes: whether values are computed, which the count does not need; see `prepcli.models.shapes_only`.

    Attributes:
        static: bytes of the known tensors, and the extra.
        timeline: bytes in use after each new storage.
    """

    def __init__(
        self, known: Iterable[torch.Tensor], limit: int | None = None, extra: int = 0, *, computes: bool = False
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._limit = limit
        self._computes = computes
        self._tracked: dict[int, weakref.ref[Any]] = {}
        self.in_use = extra
        for tensor in known:
            self._track(tensor)
        self.static = self.in_use
        self.timeline: list[int] = []

    @property
    def peak(self) -> int:
        """The maximum of bytes in use."""
        return max(self.timeline, default=self.static)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation, or make its results without computing, and count them."""
        kwargs = kwargs or {}
        is_done, made = (False, None) if self._computes else without_arithmetic(func, args, kwargs)
        if not is_done:
            made = func(*args, **kwargs)
        for one in (made,) if isinstance(made, torch.Tensor) else tree_leaves(made):
            if isinstance(one, torch.Tensor) and self._track(one):
                self.timeline.append(self.in_use)
                if self._limit is not None and self.in_use > self._limit:
                    raise torch.cuda.OutOfMemoryError(
                        f"counted out of memory: {self.in_use} bytes in use, above the limit of {self._limit}"
                    )
        return made

    def _track(self, tensor: torch.Tensor) -> bool:
        """Count the storage unless it is counted already."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._tracked:
            return False
        size = storage.nbytes()
        self._tracked[key] = weakref.ref(storage, partial(self._freed, key, size))
        self.in_use += size
        return size > 0

    def _freed(self, key: int, size: int, _: object) -> None:
        if self._tracked.pop(key, None) is not None:
            self.in_use -= size
