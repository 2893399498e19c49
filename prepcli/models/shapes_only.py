"""Operations of PyTorch without their arithmetic: tensors of the right shapes and types, filled with zeros.

Memory is decided by shapes, so a training step whose memory is counted needs no matrix products. Only operations on
large floating-point tensors are left out. What may decide about shapes is computed: integers, booleans, and small
tensors such as lengths.
"""

import mmap
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

NUM_LARGE = 1 << 14
"""Entries of a large tensor. Computing with fewer takes no longer than finding out their shapes."""
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)  # in Python from 3.13 on
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
"""Without a reserve: a tensor may be larger than the memory of this machine, as that of the GPU in question may be."""
_RESHAPING = frozenset({"resize_", "resize_as_", "set_"})
"""Operations in place that change shapes, beside those that have the tag for it."""


def without_arithmetic(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[bool, Any]:
    """Make what an operation makes, without computing its values.

    Args:
        func: the operation, as `__torch_dispatch__` has it.
        args: its arguments.
        kwargs: its arguments by name.

    Returns:
        Whether it was done, and what was made. If it was not done, the operation must be called.
    """
    kind = _kind_of(func)
    if kind == "computed" or not _has_large((*args, *kwargs.values())):
        return False, None
    if kind == "in place":
        return _in_place(func, args, kwargs)
    flat, spec = tree_flatten((args, kwargs))
    if not all(_is_plain(one) for one in flat if isinstance(one, torch.Tensor)):
        return False, None
    found = _shapes_made(func, spec, tuple(map(_described, flat)))
    if found is None:
        return False, None
    leaves, structure = found
    return True, tree_unflatten([_zeros(one) if isinstance(one, _Shape) else one for one in leaves], structure)


class _Shape(NamedTuple):
    """A tensor without its values; `size` is the bytes of its storage."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    size: int


@lru_cache(maxsize=1 << 14)
def _shapes_made(func: Any, spec: Any, described: tuple[Any, ...]) -> tuple[list[Any], Any] | None:
    """What an operation makes of tensors of these shapes; None where it must be computed.

    Layers repeat each other's shapes, and finding out a result takes ten times as long as remembering it.
    """
    flat = [_meta(one) if isinstance(one, _Shape) else one[1] for one in described]
    try:
        args, kwargs = tree_unflatten(flat, spec)
        leaves, structure = tree_flatten(func(*args, **kwargs))
    except Exception:
        return None  # its shape depends on values, or is unknown without computing; or it fails when computed as well
    results = [one for one in leaves if isinstance(one, torch.Tensor)]
    if not all(map(_has_fractions, results)) or not _storages(flat).isdisjoint(_storages(results)):
        return None  # the second: a view that does not say so
    return [_described(one) if isinstance(one, torch.Tensor) else one for one in leaves], structure


@cache
def _kind_of(func: Any) -> Literal["new", "in place", "computed"]:
    """Whether an operation makes new tensors, changes one, or must be computed: a view of a tensor costs nothing."""
    schema = func._schema
    if any(one.alias_info is not None and one.alias_info.is_write for one in schema.arguments):
        reshapes = torch.Tag.inplace_view in func.tags or schema.name.partition("::")[2] in _RESHAPING
        is_simple = len(schema.returns) <= 1 and all(one.alias_info is not None for one in schema.returns)
        return "in place" if is_simple and not reshapes else "computed"
    return "computed" if any(one.alias_info is not None for one in schema.returns) else "new"


def _in_place(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[bool, Any]:
    declared = func._schema.arguments
    given = {one.name: value for one, value in zip(declared, args, strict=False)} | dict(kwargs)
    written = [given.get(one.name) for one in declared if one.alias_info is not None and one.alias_info.is_write]
    tensors = [one for one in tree_leaves(written) if isinstance(one, torch.Tensor)]
    if not _has_large(tensors) or not all(_is_plain(one) and _has_fractions(one) for one in tensors):
        return False, None
    return True, written[0] if func._schema.returns else None


def _has_large(values: Iterable[Any]) -> bool:
    """Whether there is a large tensor among them, or in a list among them."""
    for one in values:
        if isinstance(one, torch.Tensor):
            if one.numel() >= NUM_LARGE:
                return True
        elif isinstance(one, (list, tuple)) and _has_large(one):
            return True
    return False


def _is_plain(tensor: torch.Tensor) -> bool:
    is_known = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return is_known and tensor.layout == torch.strided and tensor.device.type == "cpu"


def _has_fractions(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _storages(values: Sequence[Any]) -> set[int]:
    return {one.untyped_storage()._cdata for one in values if isinstance(one, torch.Tensor)}


def _described(value: Any) -> Any:
    """Its shape, or a value with its type: 1, 1.0 and True are equal, and give different results."""
    if isinstance(value, torch.Tensor):
        size = value.untyped_storage().nbytes()
        return _Shape(tuple(value.shape), value.stride(), int(value.storage_offset()), value.dtype, size)
    return type(value), torch.device("meta") if isinstance(value, torch.device) else value


def _meta(one: _Shape) -> torch.Tensor:
    return torch.empty_strided(one.shape, one.strides, dtype=one.dtype, device="meta")


def _zeros(one: _Shape) -> torch.Tensor:
    """A tensor on the CPU; its memory is not taken from the machine before something is written.

    Raises:
        MemoryError: the system does not allow so much.
    """
    if not one.size:
        return torch.empty_strided(one.shape, one.strides, dtype=one.dtype)
    try:
        memory = mmap.mmap(-1, one.size, flags=_PRIVATE)
    except OSError as error:
        raise MemoryError(f"a tensor of {one.size:,} bytes: {error.strerror}") from None
    flat = torch.frombuffer(memory, dtype=one.dtype)
    return flat.as_strided(one.shape, one.strides, one.offset)
