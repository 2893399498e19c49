"""The layout of a tarred data set: its shards with their records, the records left out, and the names of members."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.errors import RejectReason
from prepcli.manifest.parts import Floats
from prepcli.planning.arrays import Values
from prepcli.planning.split import Indices

_ARRAYS = ("records", "bounds", "seconds")
"""The fields of `TarSet` that are arrays."""


@dataclass(slots=True)
class TarSet:
    """One data set below OUT: the whole set, or one static bucket in its own folder.

    `records`: the numbers of its records in the index, shard by shard. Shard k has the records
    `records[bounds[k]:bounds[k + 1]]`, with `seconds[k]` of audio.
    """

    folder: str
    min_duration: float | None
    max_duration: float | None
    records: Indices
    bounds: Indices
    seconds: Floats

    @property
    def num_shards(self) -> int:
        """Number of shards of this set."""
        return len(self.bounds) - 1


@dataclass(frozen=True, slots=True)
class TarredLayout:
    """All sets, the records left out with their reason, and two bits per record that determine member names.

    `ambiguous[i]`: the member of record i could have the same stem as the member of another file. `repeated[i]`: the
    audio of record i goes into more than one shard; `num_repeated` counts these records. `num_same_segment`: the number
    of records that name the same segment as an earlier one.
    """

    sets: list[TarSet]
    left_out: list[tuple[RejectReason, Indices]] = field(default_factory=list)
    ambiguous: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    repeated: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    num_same_segment: int = 0
    num_repeated: int = 0

    def to_values(self) -> dict[str, Any]:
        """The layout as named values and arrays, for a stored plan."""
        values: dict[str, Any] = {"ambiguous": self.ambiguous, "repeated": self.repeated}
        for number, bucket in enumerate(self.sets):
            values |= {f"{name}-{number}": getattr(bucket, name) for name in _ARRAYS}
        for number, (_, records) in enumerate(self.left_out):
            values[f"left_out-{number}"] = records
        values["sets"] = [[bucket.folder, bucket.min_duration, bucket.max_duration] for bucket in self.sets]
        values["reasons"] = [reason.value for reason, _ in self.left_out]
        return values | {"num_same_segment": self.num_same_segment, "num_repeated": self.num_repeated}

    @classmethod
    def from_values(cls, values: Values) -> "TarredLayout":
        """The layout from the values of `to_values`."""
        return cls(
            sets=[
                TarSet(folder, low, high, *(values[f"{name}-{number}"] for name in _ARRAYS))
                for number, (folder, low, high) in enumerate(values["sets"])
            ],
            left_out=[
                (RejectReason(reason), values[f"left_out-{number}"]) for number, reason in enumerate(values["reasons"])
            ],
            ambiguous=values["ambiguous"],
            repeated=values["repeated"],
            num_same_segment=values["num_same_segment"],
            num_repeated=values["num_repeated"],
        )
