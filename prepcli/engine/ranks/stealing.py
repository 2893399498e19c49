"""Ranks take units from each other: after its own units, a rank does units that their owners have not begun.

At the start each rank has a share. Taking units compensates for facts that shares cannot know: slow disks and machines,
ranks that die or never start. A rank claims (`claims`) each unit before it begins the unit, also a unit of its own
share. Publishing a unit twice would be harmless, as the bytes are the same: claims only save work.

Only ranks that were started together, with a launch id, take units. Ranks without one may be started hours apart.
"""

import contextlib
import heapq
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from prepcli.engine.ranks.claims import CLAIMS, Claims, owners
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.processes.owner import DELETE_SECONDS
from prepcli.processes.ranks import Rank


class Crew:
    """The shares of all ranks of a launch, and the claims by which this rank takes units of any share."""

    def __init__(self, workspace: Workspace, rank: Rank, shares: Sequence[Sequence[Unit]]) -> None:
        self._folder = claims_folder(workspace.root, rank.launch_id, rank.world_size)
        self.claims = Claims(self._folder, rank.rank, workspace.life)
        self._shares = shares

    def takeable(self, done: Collection[str]) -> list[Unit]:
        """The units that no rank has begun, in the order in which to take them.

        Each next unit is taken from the end of the share with the highest remaining cost. Units claimed by a rank that
        gives no sign of life are included. `done`: the ids of units that are done.
        """
        left = [
            [unit for unit in share if unit.id not in done and self.claims.is_free(unit.id)] for share in self._shares
        ]
        loads = [(-sum(unit.cost for unit in units), number) for number, units in enumerate(left) if units]
        heapq.heapify(loads)
        found = []
        while loads:
            load, number = heapq.heappop(loads)
            unit = left[number].pop()
            found.append(unit)
            if left[number]:
                heapq.heappush(loads, (load + unit.cost, number))
        return found

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Within the context, this rank gives signs of life; at the end, it gives up its claims of units."""
        with self.claims.at_work():
            yield
        with contextlib.suppress(OSError):  # the folder stays if other ranks have claims in it
            self._folder.rmdir()

    def disband(self) -> None:
        """Remove the claims of all ranks of the launch; called when the run is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)


def claims_folder(root: Path, launch_id: str | None, world_size: int) -> Path:
    """The folder in which the ranks of a launch claim units."""
    return root / CLAIMS / f"{launch_id}-of-{world_size}"


def remove_dead_claims(workspace: Workspace) -> None:
    """Remove the claims of launches whose ranks have all ended."""
    for folder in (workspace.root / CLAIMS).glob("*/"):
        if all(workspace.life.has_ended(owner, DELETE_SECONDS) for _, owner in owners(folder).values()):
            shutil.rmtree(folder, ignore_errors=True)


def units_in_hand(root: Path, launch_id: str | None, world_size: int) -> dict[int, list[str]]:
    """The ids of the units that the ranks of a launch have claimed, by rank; empty if ranks do not claim units."""
    found: dict[int, list[str]] = {}
    for unit, (rank, _) in sorted(owners(claims_folder(root, launch_id, world_size)).items()):
        found.setdefault(rank, []).append(unit)
    return found
