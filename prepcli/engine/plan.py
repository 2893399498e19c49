"""The plan: which units of work there are, what they cost, and how they are shared among ranks."""

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from prepcli.input_files import FileState

PLAN_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest piece of work that is done, published and resumed as a whole.

    A job has a subclass with what the unit stands for: its shard, its records. Those fields are not part of the plan's
    digest and of `plan.json`. They are sent to worker processes, so they must be small.

    `id` names the unit in `done/` and in progress lines; `cost` is seconds of audio; `num_records` is how many records
    it must account for (records out + rejects).
    """

    id: str
    cost: float
    num_records: int


UnitT = TypeVar("UnitT", bound=Unit)
Contents = TypeVar("Contents")
"""What a job needs in order to process the units of its plan, beside the units themselves."""


FINISH_UNIT = Unit("finish", 0.0, 0)
"""The unit under which the finishing merge publishes its files; it is not among the plan's."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input whose content shapes the output: `sha256` goes into the plan's digest, the path does not.

    `state` is that of the file before it was read; None for a file that a run keeps for itself.
    """

    path: str
    sha256: str
    state: FileState | None = None


@dataclass
class Plan(Generic[UnitT, Contents]):
    """All units of a job. It follows from the inputs and the settings alone, never from ranks or workers.

    `records_in` counts the records of the inputs without those that `_skipme` skips (`num_skipped`); `planned_rejects`
    counts, by reason, the records that were found unusable while planning. Worker processes inherit `contents`.
    """

    units: Sequence[UnitT]
    records_in: int
    contents: Contents
    inputs: list[InputFile] = field(default_factory=list)
    planned_rejects: dict[str, int] = field(default_factory=dict)
    num_skipped: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def total_cost(self) -> float:
        """Seconds of audio in all units."""
        return sum(unit.cost for unit in self.units)


AnyPlan = Plan[Any, Any]
"""A plan as the engine sees it."""


class StoredPlan(msgspec.Struct):
    """`OUT.prepcli/plan.json`: what the run that made OUT has planned, and how it was called.

    `inputs` have the keys `path` and `sha256`; `run_with` is the command as it was typed, `run_in` the folder.
    """

    command: str
    digest: str
    settings: dict[str, Any]
    inputs: list[dict[str, str]]
    records_in: int
    skipped: int
    planned_rejects: dict[str, int]
    seconds: float
    run_with: str
    run_in: str
    units: list[Unit]


def plan_digest(command: str, settings: dict[str, Any], plan: AnyPlan) -> str:
    """SHA-256 (hex) over everything that shapes the output; two plans with one digest give the same bytes."""
    content = {
        "format": PLAN_FORMAT,
        "command": command,
        "settings": settings,
        "inputs": [file.sha256 for file in plan.inputs],
        "units": [[unit.id, unit.num_records] for unit in plan.units],
    }
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def differences(earlier: StoredPlan, command: str, settings: dict[str, Any], plan: AnyPlan) -> Iterator[str]:
    """In which points a run is not that of the stored plan `earlier`, each as words for a message."""
    if earlier.command != command:
        yield f"by {earlier.command}, not {command}"
        return
    before = earlier.settings
    found = False
    for name in sorted({*before, *settings}):
        if before.get(name) != settings.get(name):
            found = True
            yield f"{name} was {before.get(name, 'not given')}, now {settings.get(name, 'not given')}"
    digests = [file.get("sha256") for file in earlier.inputs]
    for file in plan.inputs:
        if file.sha256 not in digests:
            found = True
            yield f"{file.path} has another content"
    if not found:
        yield "the inputs or the version of prepcli have changed"


def pack(units: Sequence[UnitT], num_bins: int) -> list[list[UnitT]]:
    """Share units among `num_bins` by cost: the longest first, each onto the least loaded bin.

    The greedy rule (longest processing time first) is at most 4/3 - 1/(3 bins) of the best makespan (Graham, 1969,
    "Bounds on multiprocessing timing anomalies"). Ties go by id, so every rank computes the same shares. Within a
    bin the units stay longest first, which also keeps the tail of a run short.
    """
    bins: list[list[UnitT]] = [[] for _ in range(num_bins)]
    loads = [(0.0, index) for index in range(num_bins)]
    for unit in sorted(units, key=lambda unit: (-unit.cost, unit.id)):
        load, index = heapq.heappop(loads)
        bins[index].append(unit)
        heapq.heappush(loads, (load + unit.cost, index))
    return bins


@dataclass(frozen=True, slots=True)
class Spread:
    """How evenly the work lies on the ranks: seconds of audio, and the largest share over the mean share."""

    seconds: list[float]
    max_over_mean: float


def spread(shares: Iterable[Sequence[Unit]]) -> Spread:
    """Loads of the ranks' shares; a `max_over_mean` of 1.0 is perfect, 2.0 means half of the fleet waits."""
    seconds = [sum(unit.cost for unit in share) for share in shares]
    mean = sum(seconds) / len(seconds)
    return Spread(seconds, max(seconds) / mean if mean else 1.0)
