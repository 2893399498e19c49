"""No rank is idle while work is left: after its own units a rank takes those that their owners have not begun.

The shares decide the start; taking units of others makes up for what they could not know: slow disks and machines,
ranks that never start or die. A rank claims each unit when it begins it (`claims`), its own as well.
Publishing a unit twice would be harmless, as the bytes are the same: claims only save work.

Only ranks that were started together, with a launch id, do this. Ranks without one may be started hours apart.
"""

import contextlib
import heapq
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from prepcli.engine.ranks.claims import BEAT, Claims, holders, owners
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.processes.owner import heartbeat
from prepcli.processes.ranks import Rank

CLAIMS_FOLDER = "claims"


class Crew:
    """The ranks of a launch, as one of them sees them: the share of each, and who has claimed what."""

    def __init__(self, workspace: Workspace, rank: Rank, shares: Sequence[Sequence[Unit]]) -> None:
        self._folder = claims_folder(workspace.root, rank.launch_id, rank.world_size)
        self.claims = Claims(self._folder, rank.rank, workspace.rank_id)
        self._shares = shares

    def takeable(self, done: Collection[str]) -> list[Unit]:
        """The units that nobody has begun, those to take first in front.

        Each comes from the end of the list of the rank that has most seconds left to begin. Who has claimed units and
        is silent has begun nothing: these are among them.
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
        """While this rank does units it gives signs of life; then it gives up what it has claimed and not done."""
        self.claims.begin()
        try:
            with heartbeat(self.claims.beat):
                yield
        finally:
            self.claims.give_up()
            self.claims.end()
            for folder in (self._folder, self._folder.parent):
                with contextlib.suppress(OSError):  # not if others have claims in it
                    folder.rmdir()

    def disband(self) -> None:
        """Remove all claims, when the run is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)


def claims_folder(root: Path, launch_id: str | None, world_size: int) -> Path:
    """Where the ranks of a launch have their claims."""
    return root / CLAIMS_FOLDER / f"{launch_id}-of-{world_size}"


def remove_dead_claims(root: Path) -> None:
    """Remove the claims of launches whose ranks have all ended, as far as this machine can tell."""
    for folder in (root / CLAIMS_FOLDER).glob("*"):
        known = [owner for _, owner in owners(folder).values()]
        beating = {path.name.removeprefix(BEAT) for path in folder.glob(f"{BEAT}*")}
        if all(owner.is_gone for owner in known) and beating <= {owner.rank_id for owner in known}:
            shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # there is none, or others have claims in it
        (root / CLAIMS_FOLDER).rmdir()


def units_in_hand(root: Path, launch_id: str | None, world_size: int) -> dict[int, list[str]]:
    """The units that each rank of a launch has claimed; empty where ranks do not claim units."""
    found: dict[int, list[str]] = {}
    for unit, rank in sorted(holders(claims_folder(root, launch_id, world_size)).items()):
        found.setdefault(rank, []).append(unit)
    return found
