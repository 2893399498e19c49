"""Rejects records whose audio crashes the decoder, because every further attempt would crash too.

A first crash shows only the unit that was being done. This unit is then done with notes (`prepcli.processes.in_hand`),
so that the second crash shows the audio, and the third attempt rejects its record. A job keeps the notes in
OUT.prepcli, another command (`map_refusing_crashes`) as long as the call lasts. A process that was killed (SIGKILL: by
lack of memory, or by a person) has not crashed: this does not show that a record is bad.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from prepcli.engine.publishing.publish import Marker
from prepcli.engine.state.plan import UnitT
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.interface.calls import tell
from prepcli.processes.in_hand import noting, read_note
from prepcli.processes.pools import Result, Task, WorkerDiedError, map_in_order

MAX_CRASHES = 20
"""Maximum number of crashes per run that are examined; more crashes are not caused by single records."""
DECODING = "decoding"
"""The name used instead of a unit's name if workers decode batches of several units."""
_NOTE = "in_hand"


class Crashes(msgspec.Struct):
    """The content of `crashes/<unit>.json`: crashes by the audio in hand; `unknown`: crashes without notes."""

    unknown: int = 0
    deaths: dict[str, int] = {}

    @property
    def refused(self) -> frozenset[str]:
        """The audio that has crashed twice. A crash without notes is counted for the first audio that crashed."""
        names = list(self.deaths)
        counts = {name: count + (name == names[0] and self.unknown > 0) for name, count in self.deaths.items()}
        return frozenset(name for name, count in counts.items() if count >= 2)

    def add(self, name: str | None) -> bool:
        """Count a crash. Returns True if another attempt can identify or skip the audio."""
        if name:
            self.deaths[name] = self.deaths.get(name, 0) + 1
            return True
        self.unknown += 1
        return name is None


def _file(workspace: Workspace, unit: str) -> Path:
    return crashes_folder(workspace) / f"{unit}.json"


def crashes_folder(workspace: Workspace) -> Path:
    """The folder of the notes about crashes."""
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
    shared_notes: str = "",
) -> Generator[Marker, None, None]:
    """Do `units` by calling `attempt` with those that are left, again after each crash that notes can explain.

    An attempt that ends may have left out units that other ranks do. `shared_notes`: as in `note_crash`.

    Raises:
        IncompleteError: a worker was killed, or workers crash for a reason that no note shows.
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
            if not note_crash(workspace, error, shared_notes) or num_crashes >= MAX_CRASHES:
                raise
            tell(f"note: {str(error).partition(';')[0]}; trying again, to find the record")


def note_crash(workspace: Workspace, error: WorkerDiedError, shared_notes: str = "") -> bool:
    """Write down what dead workers had in hand; if no folder tells the unit, under the name `shared_notes`.

    Returns True if another attempt can identify or skip the audio.
    """
    if not error.is_crash:
        return False
    found = [
        (folder.name.split("~")[0], read_note(folder / _NOTE)) for folder in workspace.folders_of(list(error.dead))
    ]
    if not found and shared_notes:
        found = [(shared_notes, None)]
    helps = False
    for unit, note in found:
        crashes = read_document(_file(workspace, unit), Crashes) or Crashes()
        helps = crashes.add(note) or helps
        _file(workspace, unit).parent.mkdir(exist_ok=True)
        write_json(_file(workspace, unit), crashes)
    with contextlib.suppress(OSError):
        workspace.remove_stale_tmp()
    return helps


def map_refusing_crashes(
    function: Callable[[Task], Result], tasks: Sequence[Task], num_workers: int = 1
) -> Iterator[Result]:
    """`map_in_order`, but even a single process is a worker process; `take_in_hand` rejects audio that crashed one.

    Args:
        function: a module-level function that calls `take_in_hand` with the audio before it is read.
        tasks: its arguments.
        num_workers: the maximum number of worker processes.

    Raises:
        IncompleteError: a worker was killed, or workers crash for a reason that no note shows.
    """
    done = num_crashes = 0
    crashes = Crashes()
    with tempfile.TemporaryDirectory(prefix="prepcli-notes-") as folder:
        while done < len(tasks):
            # The first crash only shows that notes are needed.
            called = partial(_with_notes, Path(folder), frozenset(crashes.deaths), function)
            try:
                for result in map_in_order(called if num_crashes else function, tasks[done:], num_workers, True):
                    done += 1
                    yield result
            except WorkerDiedError as error:
                num_crashes += 1
                helps = [crashes.add(read_note(Path(folder, str(pid)))) for pid in error.dead]
                if not error.is_crash or not any(helps) or num_crashes > MAX_CRASHES:
                    raise


def _with_notes(folder: Path, refused: frozenset[str], function: Callable[[Task], Result], task: Task) -> Result:
    with noting(folder / str(os.getpid()), refused):
        return function(task)
