"""Large arrays of a plan, which one rank makes in memory-mapped files: the kernel can move their pages to disk."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.engine.lock import Lock, do_once
from prepcli.engine.ranks.stages import LOCK_FILE, begin_stage
from prepcli.engine.state.workspace import Workspace, atomic_file, read_document, write_json
from prepcli.errors import PrepcliError, naming, same_command

Values = Mapping[str, Any]
"""The content of a plan: JSON values and arrays, each with a name."""

_MIN_BYTES = 1 << 20
_DOCUMENT = "plan.json"
_FORMAT = 2
"""Version of the format of stored plans.

It is part of the hash that names a plan's folder, so each version has its own folders.
"""


class Scratch:
    """Makes temporary arrays for planning: large ones in unnamed files in `folder`, if given; others in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def empty(self, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A new array of shape (length,); its content is undefined."""
        size = length * np.dtype(dtype).itemsize
        if self._folder is None or size < _MIN_BYTES:
            return np.empty(length, dtype)
        with naming(self._folder), tempfile.TemporaryFile(dir=self._folder) as file:
            file.truncate(size)
            return np.asarray(np.memmap(file, dtype, "r+", shape=(length,)))

    def zeros(self, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A new array of `length` zeros."""
        array = self.empty(length, dtype)
        array[:] = 0
        return array


class Growing:
    """A one-dimensional array to which values are appended; it is kept in an unnamed temporary file in `folder`."""

    def __init__(self, folder: Path, dtype: npt.DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it outlives this call

    def append(self, values: npt.ArrayLike) -> None:
        """Append `values`, converted to the type of the array."""
        with naming(self._folder):
            self._file.write(np.ascontiguousarray(values, self._dtype).data)

    def array(self) -> npt.NDArray[Any]:
        """All values as a writable array, mapped from the file. Nothing may be appended afterwards."""
        with naming(self._folder), self._file:
            self._file.flush()
            if not os.fstat(self._file.fileno()).st_size:
                return np.empty(0, self._dtype)
            return np.asarray(np.memmap(self._file, self._dtype, "r+"))


def values_of(planned: Any) -> Values:
    """The values of the fields of the dataclass object `planned`, by the name of the field."""
    return {field.name: getattr(planned, field.name) for field in fields(planned)}


def plan_once(
    workspace: Workspace, index_folder: Path | None, what: object, make: Callable[[Scratch], Values]
) -> Values:
    """The values of a plan: one rank makes them, and all ranks and later starts map them into memory.

    Args:
        workspace: the workspace that the ranks share.
        index_folder: the folder of the index that the plan is made from; the plan is stored in it. If the plan is not
            stored yet, and the folder is None or cannot be written, or in a dry run, this process makes the plan for
            itself.
        what: everything else that shapes the plan; all ranks must pass values with the same `repr`.
        make: makes the values; its argument provides large arrays.

    Raises:
        UsageError: raised by `make`.
        PrepcliError: the stored plan was removed during the run.
    """
    if index_folder is None:
        return make(Scratch())
    name = f"plan-{hashlib.sha256(repr([_FORMAT, what]).encode(errors='surrogateescape')).hexdigest()[:16]}"
    folder = index_folder / name
    stored = _load(folder)
    if stored is not None:
        return stored
    if workspace.spool is None or not os.access(index_folder, os.W_OK):  # nothing is written in a dry run
        return make(Scratch(workspace.root))

    def plan(_: Lock) -> None:
        begin_stage(index_folder, workspace, "planning", 1, f"{name}/{_DOCUMENT}")
        _make(folder, make)

    do_once(index_folder / LOCK_FILE, plan, lambda: _load(folder) is not None, "is planning")
    stored = _load(folder)
    if stored is None:
        raise PrepcliError(f"{folder} was removed during the run, which has stopped; run {same_command()} again")
    return stored


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
    """The values of the plan in `folder`; None if the plan is missing or incomplete."""
    document = read_document(folder / _DOCUMENT, dict[str, dict[str, Any]])
    if document is None:
        return None
    try:
        arrays = {name: map_array(folder / f"{name}.npy", length) for name, length in document["arrays"].items()}
    except (OSError, ValueError):  # after a power failure, or files have been removed
        return None
    return document["values"] | arrays


def map_array(path: Path, length: int) -> npt.NDArray[Any]:
    """The array of `length` values in a `.npy` file, mapped into memory read-only.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: the array has another length, or the file is damaged.
    """
    try:
        array = np.asarray(np.load(path, mmap_mode="r" if length else None, allow_pickle=False))
    except EOFError as error:
        raise ValueError(f"{path} is empty") from error
    if len(array) != length:
        raise ValueError(f"{path} has {len(array)} values, not {length}")
    return array
