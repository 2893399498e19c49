"""Estimates the memory of training steps without a GPU: bytes of tensors are counted, arithmetic is left out.

Memory follows from shapes. So operations on large floating-point tensors only make results with the right shapes and
types, filled with zeros. Values that may influence shapes are computed: integers, booleans, and small tensors such as
lengths. An allocator takes slightly more memory than the counted bytes.
"""

import math
import mmap
import sys
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Literal, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

NUM_LARGE = 1 << 14
"""Minimum number of entries of a large tensor. For smaller ones, computing is as fast as finding the shapes of
results."""
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)  # new in Python 3.13
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
"""Flags of `mmap`. A tensor may be larger than the memory of this machine, because no memory is reserved for it."""
_RESHAPING = frozenset({"resize_", "resize_as_", "set_"})
"""Operations in place that change shapes but do not have PyTorch's tag for that."""


class MemoryCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within the context, counts the bytes of the storages of all tensors, each until it is freed.

    Args:
        known: tensors that exist already: the model, the optimizer's state.
        extra: further bytes to count.

    Attributes:
        timeline: bytes in use at the beginning, and after each new storage.
    """

    def __init__(self, known: Iterable[torch.Tensor], extra: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tracked: dict[int, weakref.ref[Any]] = {}
        self.in_use = extra
        for tensor in known:
            self._track(tensor)
        self.timeline: list[int] = [self.in_use]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operation, or only make results of the right shapes without computing; count the new storages."""
        made = make_without_computing(func, args, kwargs or {})
        if made is NotImplemented:
            made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor) and self._track(leaf):
                self.timeline.append(self.in_use)
        return made

    def _track(self, tensor: torch.Tensor) -> bool:
        """Count the storage of a tensor; False if it is counted already, or empty."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._tracked:
            return False
        self._tracked[key] = weakref.ref(storage, partial(self._freed, key, size))
        self.in_use += size
        return size > 0

    def _freed(self, key: int, size: int, _: object) -> None:
        if self._tracked.pop(key, None) is not None:
            self.in_use -= size


def envelope(small: int, first: Sequence[int], large: int, second: Sequence[int]) -> list[tuple[int, int]]:
    """Return lines (base, slope), in bytes: a step with n examples needs at most the greatest `base + slope * n`.

    `first` is the timeline of a step with `small` examples (see `MemoryCounter`), `second` the timeline of a step with
    `large` examples. A step makes the same tensors in the same order for every batch size, and the size of each grows
    linearly. So each pair of entries of the two timelines gives a line; which line is the highest depends on n. If the
    timelines have different lengths, the result is a single line, through their peaks.
    """
    pairs = set(zip(first, second, strict=True)) if len(first) == len(second) else {(max(first), max(second))}
    best: dict[int, int] = {}
    for before, after in pairs:
        slope = max(0, math.ceil((after - before) / (large - small)))
        best[slope] = max(before - slope * small, best.get(slope, 0))
    kept: list[tuple[int, int]] = []
    for slope, base in sorted(best.items()):
        while kept and kept[-1][0] + kept[-1][1] <= base + slope:
            kept.pop()  # lower than the new line at size 1, and less steep
        while len(kept) > 1 and _crossing(kept[-2], (base, slope)) <= _crossing(kept[-2], kept[-1]):
            kept.pop()
        kept.append((base, slope))
    return kept


def _crossing(flat: tuple[int, int], steep: tuple[int, int]) -> float:
    """The batch size above which the line `steep` is higher than the line `flat`. Both are (base, slope)."""
    return (flat[0] - steep[0]) / (steep[1] - flat[1])


def make_without_computing(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Make the results of a PyTorch operation without computing their values.

    Returns NotImplemented if the operation must be run.
    """
    kind = _kind_of(func)
    if kind == "computed" or not _has_large((*args, *kwargs.values())):
        return NotImplemented
    if kind == "in place":
        declared = func._schema.arguments
        given = {argument.name: value for argument, value in zip(declared, args, strict=False)} | dict(kwargs)
        written = [
            given.get(argument.name)
            for argument in declared
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        tensors = _tensors(tree_leaves(written))
        if not _has_large(tensors) or not all(_is_plain(tensor) and _has_fractions(tensor) for tensor in tensors):
            return NotImplemented
        return written[0] if func._schema.returns else None
    flat, spec = tree_flatten((args, kwargs))
    shapes = _shapes_made(func, spec, tuple(map(_described, flat))) if all(map(_is_plain, _tensors(flat))) else None
    if shapes is None:
        return NotImplemented
    return tree_unflatten([_zeros(leaf) if isinstance(leaf, _Shape) else leaf for leaf in shapes[0]], shapes[1])


class _Shape(NamedTuple):
    """A tensor without its values; `size`: the bytes of its storage."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    size: int


@lru_cache(maxsize=1 << 14)
def _shapes_made(func: Any, spec: Any, described: tuple[Any, ...]) -> tuple[list[Any], Any] | None:
    """Find the results of an operation from the shapes of its tensors: a flat list, and the structure to unflatten it.

    In the list, a `_Shape` stands for each tensor. None if shapes are not enough, if results are integers or booleans,
    or if they share memory with the arguments: then the operation must be run.

    Results are cached: layers repeat shapes, and finding a result takes ten times as long as a look-up.
    """
    flat = [_meta(leaf) if isinstance(leaf, _Shape) else leaf[1] for leaf in described]
    try:
        args, kwargs = tree_unflatten(flat, spec)
        leaves, structure = tree_flatten(func(*args, **kwargs))
    except Exception:
        return None  # the shape depends on values or cannot be known without computing, or the operation fails
    results = _tensors(leaves)
    if not all(map(_has_fractions, results)) or not _storages(_tensors(flat)).isdisjoint(_storages(results)):
        return None  # the second condition finds a view that is not marked as one
    return [_described(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], structure


@cache
def _kind_of(func: Any) -> Literal["new", "in place", "computed"]:
    """Return whether an operation makes new tensors, changes a tensor in place, or must be computed.

    Views are computed: they cost nothing.
    """
    schema = func._schema
    if any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments):
        reshapes = torch.Tag.inplace_view in func.tags or schema.name.partition("::")[2] in _RESHAPING
        is_simple = len(schema.returns) <= 1 and all(result.alias_info is not None for result in schema.returns)
        return "in place" if is_simple and not reshapes else "computed"
    return "computed" if any(result.alias_info is not None for result in schema.returns) else "new"


def _has_large(values: Iterable[Any]) -> bool:
    """Whether a tensor with at least `NUM_LARGE` values is among `values`, or in a list or tuple among them."""
    return any(
        value.numel() >= NUM_LARGE
        if isinstance(value, torch.Tensor)
        else isinstance(value, (list, tuple)) and _has_large(value)
        for value in values
    )


def _tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def _is_plain(tensor: torch.Tensor) -> bool:
    is_known = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return is_known and tensor.layout == torch.strided and tensor.device.type == "cpu"


def _has_fractions(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _storages(tensors: Iterable[torch.Tensor]) -> set[int]:
    return {tensor.untyped_storage()._cdata for tensor in tensors}


def _described(value: Any) -> Any:
    """A value as a key of a cache: a `_Shape` for a tensor, else the value and its type.

    The type is needed because 1, 1.0 and True are equal but give different results.
    """
    if isinstance(value, torch.Tensor):
        size = value.untyped_storage().nbytes()
        return _Shape(tuple(value.shape), value.stride(), int(value.storage_offset()), value.dtype, size)
    return type(value), torch.device("meta") if isinstance(value, torch.device) else value


def _meta(layout: _Shape) -> torch.Tensor:
    return torch.empty_strided(layout.shape, layout.strides, dtype=layout.dtype, device="meta")


def _zeros(layout: _Shape) -> torch.Tensor:
    """A tensor of zeros on the CPU, which takes no memory until something is written to it.

    Raises:
        MemoryError: the system does not allow a tensor of this size.
    """
    if not layout.size:
        return torch.empty_strided(layout.shape, layout.strides, dtype=layout.dtype)
    try:
        memory = mmap.mmap(-1, layout.size, flags=_PRIVATE)
    except OSError as error:
        raise MemoryError(f"a tensor of {layout.size:,} bytes: {error.strerror}") from None
    flat = torch.frombuffer(memory, dtype=layout.dtype)
    return flat.as_strided(layout.shape, layout.strides, layout.offset)
