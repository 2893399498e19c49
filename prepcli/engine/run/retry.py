"""Rejects whose reason may be temporary: missing, unreadable or shortened audio, too little memory.

Their units are done again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from prepcli.engine.publishing.owned import retire
from prepcli.engine.publishing.publish import Marker, read_marker
from prepcli.engine.publishing.rejects import Budget, asked_for
from prepcli.engine.state.plan import FINISH_UNIT, Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import PrepcliError, RejectReason, UsageError
from prepcli.interface.printing import printable_command
from prepcli.processes.ranks import Rank

RETRYABLE = (
    RejectReason.MISSING_AUDIO.value,
    RejectReason.UNREADABLE_AUDIO.value,
    RejectReason.BEYOND_AUDIO.value,  # a file that was cut short, and is whole now
    RejectReason.OUT_OF_MEMORY.value,  # another device may have enough
)
MIN_RECORDS = 50
"""Minimum number of records before a run stops because more than half of their audio is missing."""


def num_retryable(rejects: Mapping[str, int]) -> int:
    """The number of rejects that `--retry-rejects` tries again."""
    return sum(rejects.get(reason, 0) for reason in RETRYABLE)


def retry_line(command: str, rejects: Mapping[str, int]) -> str:
    """The line of a summary that says how to try rejects again; it counts them, unless all may succeed then.

    Args:
        command: what tries them again.
        rejects: how many there are of each reason.
    """
    again, total = num_retryable(rejects), sum(count for reason, count in rejects.items() if not asked_for(reason))
    if again == rejects.get(RejectReason.OUT_OF_MEMORY.value):
        return f"  when there is more memory, retry with: {printable_command(command)}"
    audio = "audio" if again == total else f"audio of {again:,} of the {total:,} rejects"
    return f"  when the {audio} is repaired, retry with: {printable_command(command)}"


def retry_rejects(workspace: Workspace, rank: Rank, markers: dict[str, Marker], has_begun: Callable[[], bool]) -> None:
    """Remove the markers of units with such rejects, before any rank of the launch processes a unit.

    Whatever ends the run then, the units are missing, and any later run does them. `has_begun` tells whether the ranks
    of this launch have agreed on what is missing: another rank has taken the markers away then.

    Raises:
        UsageError: several ranks without a launch id; they would remove units that others have just repeated.
    """
    if rank.world_size > 1 and rank.launch_id is None:
        raise UsageError("--retry-rejects with several ranks needs --launch-id, the same for all of them")
    again = [unit for unit, marker in markers.items() if num_retryable(marker.rejects)]
    if again and not has_begun():
        drop_markers(workspace, markers, again)
    for unit in again:  # where another rank was first: they must be read again
        markers.pop(unit, None)


def drop_markers(workspace: Workspace, markers: dict[str, Marker], units: Iterable[str]) -> None:
    """Take away the markers of these units and of the finishing merge."""
    for unit in [FINISH_UNIT.id, *units]:
        markers.pop(unit, None)
        retire(workspace, unit)


class MissingAudioError(PrepcliError):
    """More than half of the audio is missing: probably an unmounted folder, not bad records."""


class MissingAudioWatch:
    """Watches the rejects of a run's units, and stops a run whose audio is mostly missing."""

    def __init__(self, workspace: Workspace, budget: Budget, records_in: int) -> None:
        self._workspace = workspace
        self._budget = budget
        self._records_in = records_in
        self._missing: dict[str, int] = {}
        self._records = 0

    def look(self, marker: Marker, markers: dict[str, Marker]) -> None:
        """Add a unit that has just been processed.

        Raises:
            MissingAudioError: more than half of the audio so far is missing, and more than `--max-rejects` allows. The
                units concerned count as not done, so that the next run does them.
        """
        reason = RejectReason.MISSING_AUDIO.value
        self._records += marker.records_out + sum(marker.rejects.values())
        if reason in marker.rejects:
            self._missing[marker.unit] = marker.rejects[reason]
        missing = sum(self._missing.values())
        if self._records < MIN_RECORDS or 2 * missing <= self._records:
            return
        if not self._budget.exceeded({reason: missing}, self._records_in):
            return
        example = self._example(marker)
        drop_markers(self._workspace, markers, self._missing)
        raise MissingAudioError(
            f"the audio of {missing:,} of the first {self._records:,} records is missing{example}: the folder is "
            "probably not mounted. Nothing is lost: run the same command again when it is back. To list the records as "
            "rejects instead, give a larger --max-rejects"
        )

    def drop_others(self, units: Iterable[Unit], digest: str, markers: dict[str, Marker]) -> None:
        """Drop the markers of those `units` as well that were processed while the run was being stopped."""
        late = {unit.id: read_marker(self._workspace, unit, digest) for unit in units if unit.id not in markers}
        reason = RejectReason.MISSING_AUDIO.value
        drop_markers(self._workspace, markers, [name for name, one in late.items() if one and reason in one.rejects])

    def _example(self, marker: Marker) -> str:
        """The detail of the first such reject of the unit."""
        for name in marker.work_files:
            if name.startswith("rejects/"):
                for line in (self._workspace.root / name).read_bytes().splitlines():
                    fields: dict[str, Any] = msgspec.json.decode(line)
                    if fields["reject_reason"] == RejectReason.MISSING_AUDIO.value:
                        return f" ({fields['reject_detail']})"
        return ""
