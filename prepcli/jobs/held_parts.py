"""Keeps parts of manifests on disk while a plan reads all records."""

import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy.typing as npt
from numpy.typing import NDArray

from prepcli.errors import naming
from prepcli.jobs.selection import Verdicts
from prepcli.manifest.parts import Part
from prepcli.planning.arrays import Growing


class HeldParts:
    """Parts, and columns of all records, for a plan that must have seen all records before it decides about the first.

    Parts and columns are kept in files without a name.
    """

    def __init__(self, folder: Path, **columns: npt.DTypeLike) -> None:
        """`columns`: the type of each column by its name."""
        self._folder = folder
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it outlives this call
        self._columns = {name: Growing(folder, dtype) for name, dtype in columns.items()}
        self._count = 0

    def add(self, source: int, part: Part, **columns: npt.ArrayLike) -> None:
        """Add a part of a manifest, and its values for the columns.

        The problems and gaps of the part are not kept, because the index has them.
        """
        for name, values in columns.items():
            self._columns[name].append(values)
        with naming(self._folder):
            pickle.dump((source, replace(part, problems=[], gaps=[])), self._file, pickle.HIGHEST_PROTOCOL)
        self._count += 1

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The columns of all parts by name; called once, after the last part."""
        return {name: column.array() for name, column in self._columns.items()}

    def parts(self, verdicts: Verdicts) -> Iterator[tuple[int, Part, Verdicts]]:
        """The parts in order, each with the number of its manifest and the verdicts of its records.

        `verdicts`: the verdicts of all records.
        """
        with naming(self._folder):
            self._file.seek(0)
        done = 0
        for _ in range(self._count):
            with naming(self._folder):
                source, part = pickle.load(self._file)
            yield source, part, verdicts[done : done + len(part.duration)]
            done += len(part.duration)
