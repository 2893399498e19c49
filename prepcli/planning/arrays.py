"""Large arrays of a plan. One rank makes them, in files that the kernel can write back instead of in process memory."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.engine.ranks.claims import CLAIMS, Claims, begin_stage, do_together
from prepcli.engine.state.workspace import Workspace, atomic_file, read_document, write_json
from prepcli.errors import PrepcliError, naming, same_command

Values = Mapping[str, Any]
"""The content of a plan: JSON values and arrays, each with a name."""

_MIN_BYTES = 1 << 20
_DOCUMENT = "plan.json"
_FORMAT = 2
"""Version of the stored plan. It is part of the folder's name, so a plan of another version is not reused."""


class Scratch:
    """Temporary arrays for planning, in files without a name below `folder` (None: in memory)."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def empty(self, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A new array; its content is undefined."""
        size = length * np.dtype(dtype).itemsize
        if self._folder is None or size < _MIN_BYTES:
            return np.empty(length, dtype)
        with naming(self._folder), tempfile.TemporaryFile(dir=self._folder) as file:
            file.truncate(size)
            return np.asarray(np.memmap(file, dtype, "r+", shape=(length,)))

    def zeros(self, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A new array of zeros."""
        array = self.empty(length, dtype)
        array[:] = 0
        return array


class Growing:
    """An array that grows at its end, in a file without a name below `folder`."""

    def __init__(self, folder: Path, dtype: npt.DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it outlives this call

    def append(self, values: npt.ArrayLike) -> None:
        """Add values to the end."""
        with naming(self._folder):
            self._file.write(np.ascontiguousarray(values, self._dtype).data)

    def array(self) -> npt.NDArray[Any]:
        """All values, mapped into memory; it may be changed. Nothing may be added afterwards."""
        with naming(self._folder), self._file:
            self._file.flush()
            if not os.fstat(self._file.fileno()).st_size:
                return np.empty(0, self._dtype)
            return np.asarray(np.memmap(self._file, self._dtype, "r+"))


def values_of(planned: Any) -> Values:
    """The fields of a dataclass as the content of a plan."""
    return {field.name: getattr(planned, field.name) for field in fields(planned)}


def plan_once(workspace: Workspace, beside: Path | None, what: object, make: Callable[[Scratch], Values]) -> Values:
    """The values of a plan: one rank makes them, and all ranks and later starts map them into memory.

    Args:
        workspace: the workspace that the ranks share.
        beside: the folder of the index that the plan is made from. If None, this process makes the plan for itself.
        what: everything else that shapes the plan; all ranks must pass values with the same `repr`.
        make: makes the values; its argument provides large arrays.

    Raises:
        UsageError: raised by `make`.
    """
    if beside is None:
        return make(Scratch())
    name = f"plan-{hashlib.sha256(repr([_FORMAT, what]).encode(errors='surrogateescape')).hexdigest()[:16]}"
    folder = beside / name
    found = _load(folder)
    if found is not None:
        return found
    if workspace.spool is None or not os.access(beside, os.W_OK):  # nothing is written in a dry run
        return make(Scratch(workspace.root))
    claims = Claims(beside / CLAIMS, workspace.rank.rank, workspace.life)
    begin_stage(beside, "planning", 1, f"{name}/{_DOCUMENT}")
    do_together([folder], partial(_make, make=make), lambda made: _load(made) is not None, claims)
    found = _load(folder)
    if found is None:
        raise PrepcliError(f"{folder} was removed during the run, which has stopped; run {same_command()} again")
    return found


def _make(folder: Path, make: Callable[[Scratch], Values]) -> None:
    folder.mkdir(exist_ok=True)
    arrays = {}
    values = {}
    for name, value in make(Scratch(folder)).items():
        if isinstance(value, np.ndarray):
            with atomic_file(folder / f"{name}.npy") as file:
                np.save(file, value, allow_pickle=False)
            arrays[name] = len(value)
        else:
            values[name] = value
    write_json(folder / _DOCUMENT, {"arrays": arrays, "values": values})


def _load(folder: Path) -> Values | None:
    """The values of a plan that is complete; None if there is none."""
    document = read_document(folder / _DOCUMENT, dict[str, dict[str, Any]])
    if document is None:
        return None
    try:
        arrays = {name: map_array(folder / f"{name}.npy", length) for name, length in document["arrays"].items()}
    except (OSError, ValueError):  # after a power failure, or files have been removed
        return None
    return document["values"] | arrays


def map_array(path: Path, length: int) -> npt.NDArray[Any]:
    """An array in a `.npy` file, mapped into memory, read only.

    Raises:
        OSError: it is missing.
        ValueError: it has another length.
    """
    try:
        array = np.asarray(np.load(path, mmap_mode="r" if length else None, allow_pickle=False))
    except EOFError as error:
        raise ValueError(f"{path} is empty") from error
    if len(array) != length:
        raise ValueError(f"{path} has {len(array)} values, not {length}")
    return array
