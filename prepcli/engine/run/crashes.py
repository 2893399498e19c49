"""Audio that crashes the decoder: its record becomes a reject, because every further attempt would crash too.

A first crash says only which unit was in hand. That unit is then done with notes (`prepcli.processes.in_hand`), so
that the second crash tells the audio, and the third attempt rejects its record. A process that was killed (SIGKILL: no
memory left, or a person) has not crashed: that says nothing about a record.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from prepcli.engine.publishing.publish import Marker
from prepcli.engine.state.plan import UnitT
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.interface.calls import tell
from prepcli.processes.in_hand import noting, read_note
from prepcli.processes.pools import CRASHES, WorkerDiedError

MAX_CRASHES = 20
"""Maximum number of crashes per run that are examined; more are not caused by single records."""
DECODING = "decoding"
"""The name used instead of a unit's if workers decode batches of several units."""
_NOTE = "in_hand"


class Crashes(msgspec.Struct):
    """`crashes/<unit>.json`: how often audio was in hand when a worker crashed; `unknown` where nobody took notes."""

    unknown: int = 0
    deaths: dict[str, int] = {}

    @property
    def refused(self) -> frozenset[str]:
        """What has crashed twice. The crash that nobody took notes of is that of the first audio that crashed."""
        names = list(self.deaths)
        counts = {name: count + (name == names[0] and self.unknown > 0) for name, count in self.deaths.items()}
        return frozenset(name for name, count in counts.items() if count >= 2)

    def add(self, name: str | None) -> bool:
        """Count a crash; whether the next attempt can tell more, or do better."""
        if name:
            self.deaths[name] = self.deaths.get(name, 0) + 1
            return True
        self.unknown += 1
        return name is None


def _file(workspace: Workspace, unit: str) -> Path:
    return crashes_folder(workspace) / f"{unit}.json"


def crashes_folder(workspace: Workspace) -> Path:
    """Where the notes about crashes are."""
    return workspace.root / "crashes"


@contextmanager
def with_notes(workspace: Workspace | None, unit: str, folder: Path | None = None) -> Iterator[None]:
    """In a worker process: if it has crashed over `unit` before, take notes in `folder` (None: a new one)."""
    crashes = read_document(_file(workspace, unit), Crashes) if workspace else None
    if workspace is None or crashes is None:
        yield
        return
    made = folder or workspace.make_tmp(unit)
    try:
        with noting(made / _NOTE, crashes.refused):
            yield
    finally:
        if folder is None:
            workspace.remove_tmp(made)


def survive_crashes(
    workspace: Workspace,
    units: Sequence[UnitT],
    attempt: Callable[[list[UnitT]], Iterator[Marker]],
    otherwise: str | None = None,
) -> Iterator[Marker]:
    """Do `units` by calling `attempt` with those that are left, again after each crash that notes can explain.

    An attempt that ends may have left out units that other ranks do. `otherwise`: as in `note_crash`.

    Raises:
        IncompleteError: a worker was killed, or workers crash for a reason that no note tells.
    """
    left = {unit.id: unit for unit in units}
    num_crashes = 0
    while left:
        try:
            for marker in attempt(list(left.values())):
                del left[marker.unit]
                yield marker
            return
        except WorkerDiedError as error:
            num_crashes += 1
            if not note_crash(workspace, error, otherwise) or num_crashes >= MAX_CRASHES:
                raise
            tell(f"note: {str(error).partition(';')[0]}; trying again, to find the record")


def note_crash(workspace: Workspace, error: WorkerDiedError, otherwise: str | None = None) -> bool:
    """Write down what dead workers had in hand (`otherwise`: where they have no folder that tells the unit).

    Returns whether another attempt can tell more, or do better.
    """
    if not set(error.dead.values()) <= CRASHES:
        return False
    found = [
        (folder.name.split("~")[0], read_note(folder / _NOTE)) for folder in workspace.folders_of(list(error.dead))
    ]
    if not found and otherwise:
        found = [(otherwise, None)]
    helps = False
    for unit, note in found:
        crashes = read_document(_file(workspace, unit), Crashes) or Crashes()
        helps = crashes.add(note) or helps
        _file(workspace, unit).parent.mkdir(exist_ok=True)
        write_json(_file(workspace, unit), crashes)
    with contextlib.suppress(OSError):
        workspace.remove_stale_tmp()
    return helps
