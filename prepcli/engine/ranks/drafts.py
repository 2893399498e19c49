"""The units that ranks are making now, from their temporary folders: by these, helping ranks choose different units.

They are a hint. No rank waits for another, and a unit that two ranks make at once is harmless.
"""

import heapq
from collections.abc import Sequence

from prepcli.engine.ranks.progress import RankProgress, signs_of_life
from prepcli.engine.state.plan import UnitT
from prepcli.engine.state.workspace import Workspace, children_of
from prepcli.processes.owner import REPEAT_SECONDS, has_ended, last_change, owner_of

TASKS = "tasks"
"""Replaces the id of a unit in the name of the temporary folder with the work that is sent to an executor."""


def drafts_of_others(workspace: Workspace, unit: str = "") -> list[str]:
    """The names of the temporary folders of other ranks, for all units or only for `unit`."""
    names = []
    for entry in children_of(workspace.tmp):
        owner = None if unit and not entry.name.startswith(f"{unit}~") else owner_of(entry)
        if owner is not None and owner.rank_id != workspace.rank_id:
            names.append(entry.name)
    return sorted(names)


def from_the_ends(shares: Sequence[list[UnitT]], rank: int) -> list[UnitT]:
    """The missing units, from the ends of the shares, those of the largest remaining share first.

    Each rank begins at another place of this list. The `shares` are the missing units of each rank; they are emptied.
    """
    loads = [(-sum(unit.cost for unit in units), number) for number, units in enumerate(shares) if units]
    heapq.heapify(loads)
    units = []
    while loads:
        load, number = heapq.heappop(loads)
        units.append(shares[number].pop())
        if shares[number]:
            heapq.heappush(loads, (load + units[-1].cost, number))
    begin = rank * len(units) // len(shares)
    return units[begin:] + units[:begin]


def units_to_help_with(workspace: Workspace, units: Sequence[UnitT], drafts: Sequence[str]) -> list[UnitT]:
    """Those of the missing `units` that a rank makes next, when its share is done.

    They are the units that no rank is making. If ranks are making all of them, it is one unit: that which a single rank
    is making and has begun first, because its rank is probably slow. There is none if two ranks are making each.
    Folders of ranks that seem to have ended do not count.

    Args:
        workspace: the workspace of the run.
        units: the missing units, in the order to make them.
        drafts: the names of the temporary folders of other ranks.
    """
    makers: dict[str, list[str]] = {}
    signs, now = signs_of_life(workspace), workspace.clock()
    for name in drafts:
        folder = workspace.tmp / name
        owner = owner_of(folder)
        last_sign = max(last_change(folder), signs.get(owner.rank_id, 0.0) if owner is not None else 0.0)
        if not has_ended(owner, REPEAT_SECONDS, last_sign, now):
            makers.setdefault(name.split("~")[0], []).append(name)
    if free := [unit for unit in units if unit.id not in makers]:
        return free
    alone = [unit for unit in units if len(makers[unit.id]) == 1]
    return sorted(alone, key=lambda unit: last_change(workspace.tmp / makers[unit.id][0]))[:1]


def units_at_work(workspace: Workspace, ranks: Sequence[RankProgress]) -> dict[int, list[str]]:
    """The ids of the units that each rank is making, by its number."""
    numbers = {rank.rank_id: rank.rank for rank in ranks}
    at_work: dict[int, set[str]] = {}
    for entry in children_of(workspace.tmp):
        owner = owner_of(entry)
        if owner is not None and owner.rank_id in numbers and not entry.name.startswith(f"{TASKS}~"):
            at_work.setdefault(numbers[owner.rank_id], set()).add(entry.name.split("~")[0])
    return {rank: sorted(units) for rank, units in at_work.items()}
