"""Rejects records whose audio crashes a decoder or a model, because every further attempt would crash too.

A process that was killed (SIGKILL: for lack of memory, or by a person) has not crashed: its death does not show that a
record is bad. Notes (`prepcli.processes.in_hand`) show the audio that a process was working on:

- **A worker process**: its exit code shows the crash. The first crash shows only the unit that was being done. This
  unit is then done with notes, so that the second crash shows the audio, and the third attempt rejects its record. A
  job keeps the notes in OUT.prepcli; a command that is not a job (`map_refusing_crashes`) keeps them during its call.
- **A rank, inside its model** (`InFlight`): no process of the run remains to read an exit code, so Python's own handler
  of fatal signals, `faulthandler`, leaves a file. The notes name the segments that were in the model, perhaps many. The
  next start gives these segments to the model one by one; a segment that then crashes the model alone is a reject from
  then on.
"""

import contextlib
import faulthandler
import hashlib
import itertools
import os
import shutil
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from prepcli.engine.publishing.publish import Marker
from prepcli.engine.ranks.progress import remove_stale_tmp
from prepcli.engine.state.plan import UnitT
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.errors import PrepcliError, RecordRejected, RejectReason, option
from prepcli.interface.calls import tell
from prepcli.processes.in_hand import NoteFile, noting, read_note
from prepcli.processes.pools import Result, Task, WorkerDiedError, map_in_order

MAX_CRASHES = 20
"""Maximum number of crashes per run that are examined: if there are more, the cause is not single records."""
DECODING = "decoding"
"""Replaces the id of a unit in `crashes/<unit>.json` if workers decode batches of several units."""
_CRASHES_FOLDER = "crashes"
"""The folder in OUT.prepcli with the notes about crashes; its subfolder `model` has the notes of ranks."""
_NOTE = "in_hand"
_KEYS, _CRASHED = ".keys", ".crashed"
"""Suffixes of the two files of a rank: the keys of the segments in its model, and the output of `faulthandler`."""


class Crashes(msgspec.Struct):
    """The content of `crashes/<unit>.json`: counts of the crashes of workers that were processing a unit.

    Before a worker decodes an audio, it may write a note with the name of the audio. `deaths`: the number of crashes
    for each audio that such a note names. `unknown`: the number of crashes without a note, or with an empty note.
    """

    unknown: int = 0
    deaths: dict[str, int] = {}

    @property
    def refused(self) -> frozenset[str]:
        """The audio that has crashed workers twice.

        Workers take notes only after a first crash. That crash is added to the count of the audio that the first note
        names.
        """
        names = list(self.deaths)
        counts = {name: count + (name == names[0] and self.unknown > 0) for name, count in self.deaths.items()}
        return frozenset(name for name, count in counts.items() if count >= 2)

    def add(self, name: str | None) -> bool:
        """Count a crash. Returns True if another attempt can identify or skip the audio.

        `name`: the result of `read_note`: the audio, "" for an empty note, or None if no notes were taken.
        """
        if name:
            self.deaths[name] = self.deaths.get(name, 0) + 1
            return True
        self.unknown += 1
        return name is None


def _file(workspace: Workspace, unit: str) -> Path:
    return workspace.run / _CRASHES_FOLDER / f"{unit}.json"


@contextmanager
def with_notes(workspace: Workspace, unit: str, folder: Path | None = None) -> Iterator[None]:
    """Within the context, note each audio before it is decoded, if a worker has crashed over `unit` before.

    Called in a worker. `folder`: the folder for the notes; None: a new temporary directory of the unit.
    """
    crashes = read_document(_file(workspace, unit), Crashes)
    if crashes is None:
        yield
        return
    made = folder or workspace.make_tmp(unit)
    try:
        with noting(made / _NOTE, crashes.refused):
            yield
    finally:
        if folder is None:
            shutil.rmtree(made, ignore_errors=True)


def survive_crashes(
    workspace: Workspace,
    units: Sequence[UnitT],
    attempt: Callable[[list[UnitT]], Iterator[Marker]],
    shared_notes: str = "",
) -> Generator[Marker, None, None]:
    """Call `attempt` with `units`; after each crash of a worker, call it again with the units that are left.

    Yields the markers that `attempt` yields. An attempt that ends without a crash may have left out units that other
    ranks do. `shared_notes`: as in `note_crash`.

    Raises:
        IncompleteError: a worker was killed, no note shows why workers crash, or they have crashed `MAX_CRASHES` times.
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
    """Count the crash of workers in `crashes/<unit>.json`, for the unit and the audio that each was working on.

    The name of a worker's temporary directory shows its unit. If no dead worker has such a directory, the crash counts
    for `shared_notes`, if given, in place of a unit. If the worker was killed and has not crashed, nothing is counted.
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
        remove_stale_tmp(workspace)
    return helps


def map_refusing_crashes(
    function: Callable[[Task], Result], tasks: Sequence[Task], num_workers: int = 1
) -> Iterator[Result]:
    """Like `map_in_order`, but always in worker processes; after a crash, it goes on without the bad audio.

    `function` must call `take_in_hand` with each audio before it reads the audio. After the first crash,
    `take_in_hand` writes notes. A note shows the audio of the next crash: from then on, `take_in_hand` raises
    `RecordRejected` for this audio.

    Raises:
        IncompleteError: a worker was killed, no note shows why workers crash, or they have crashed `MAX_CRASHES` times.
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
                if not error.is_crash or not any(helps) or num_crashes >= MAX_CRASHES:
                    raise


def _with_notes(folder: Path, refused: frozenset[str], function: Callable[[Task], Result], task: Task) -> Result:
    with noting(folder / str(os.getpid()), refused):
        return function(task)


def key_of(item: object) -> str:
    """The key of an item of a batch: a hash of its `repr`, so it is the same in every run."""
    return hashlib.blake2b(repr(item).encode(errors="surrogateescape"), digest_size=8).hexdigest()


def crashed_notes(workspace: Workspace) -> list[list[str]]:
    """The keys of the segments that were in a model when it crashed: one list for each rank that has crashed."""
    return _notes_in(_folder(workspace))


def _notes_in(folder: Path) -> list[list[str]]:
    found = []
    for crashed in sorted(folder.glob(f"*{_CRASHED}")):
        with contextlib.suppress(FileNotFoundError):
            if crashed.stat().st_size:
                found.append((read_note(crashed.with_suffix(_KEYS)) or "").split())
    return [keys for keys in found if keys]


def has_crashed(workspace: Workspace) -> bool:
    """Whether a model has crashed in a run that has begun to make the output and has not finished."""
    runs = [] if workspace.report_file.exists() else [workspace.run]
    folders = (run / _CRASHES_FOLDER / "model" for run in workspace.unfinished_runs() or runs)
    return any(map(_notes_in, folders))


class InFlight:
    """Knows which segments the model of this process is working on, and which segments have crashed a model before.

    `file`: the file in which the keys of the segments in the model are noted; None: no notes are taken. `crashes`: the
    result of `crashed_notes`.

    Attributes:
        refused: keys of segments that have crashed the model twice, the second time alone.
    """

    def __init__(self, file: NoteFile | None = None, crashes: Sequence[Sequence[str]] = ()) -> None:
        counts: dict[str, int] = {}
        for key in itertools.chain.from_iterable(crashes):
            counts[key] = counts.get(key, 0) + 1
        alone = {keys[0] for keys in crashes if len(keys) == 1}
        self.refused = frozenset(key for key in alone if counts[key] >= 2)
        self._suspects = frozenset(counts) - self.refused
        self._file = file
        self._batches: dict[int, Sequence[str]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def is_suspect(self, keys: Iterable[str]) -> bool:
        """Whether a segment with one of these keys was in the model during a crash, and is not in `refused`."""
        return not self._suspects.isdisjoint(keys)

    def reject(self, keys: Sequence[str], rejects: dict[int, RecordRejected]) -> list[int]:
        """Reject the segments of a batch that have crashed the model before: those whose key is in `refused`.

        `keys`: the keys of the segments of the batch. `rejects` receives the rejects, by the position of the segment in
        `keys`. Returns these positions.
        """
        rows = [row for row, key in enumerate(keys) if key in self.refused] if self.refused else []
        rejected = RecordRejected(RejectReason.CRASHED_DECODER, "the model has crashed twice over its audio")
        rejects |= dict.fromkeys(rows, rejected)
        return rows

    def begin(self, keys: Sequence[str]) -> int:
        """Record that a batch of segments goes into the model. Returns the number of the batch, for `end`.

        `keys`: the keys of the segments.
        """
        number = next(self._numbers)
        self._batches[number] = keys
        self._write()
        return number

    def end(self, number: int | None = None) -> None:
        """Record that batch `number` has left the model. If `number` is None, record that all batches have left it."""
        if number is None:
            self._batches.clear()
        elif self._batches.pop(number, None) is None:
            return
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            with self._lock:
                keys = " ".join(dict.fromkeys(itertools.chain.from_iterable(self._batches.values())))
                self._file.write(keys.encode())


class _Current:
    """Holds the `InFlight` of this process."""

    in_flight = InFlight()


def in_flight() -> InFlight:
    """The `InFlight` of this process: it records which segments its model is working on."""
    return _Current.in_flight


@contextmanager
def noting_in_flight(workspace: Workspace) -> Iterator[InFlight]:
    """Within the context, note in files which segments the model is working on, and whether the process crashes.

    Raises:
        PrepcliError: `MAX_CRASHES` segments have crashed the model, so the cause is not the segments.
    """
    folder = _folder(workspace)
    folder.mkdir(parents=True, exist_ok=True)
    name = uuid.uuid4().hex
    crashed_file = folder / (name + _CRASHED)
    was_enabled = faulthandler.is_enabled()
    with contextlib.closing(NoteFile(folder / (name + _KEYS))) as keys, crashed_file.open("wb") as crashed:
        try:
            _Current.in_flight = InFlight(keys, crashed_notes(workspace))
            if len(_Current.in_flight.refused) >= MAX_CRASHES:
                raise PrepcliError(
                    f"the model has crashed over {MAX_CRASHES} single segments: most likely the cause is not the audio "
                    f"but the device or the installation; try {option('--devices', 'cpu')}, then remove {folder} and "
                    "run again"
                )
            # Only this thread: the others run on while the handler writes, and walking through their frames could crash
            # again.
            faulthandler.enable(crashed, all_threads=False)
            yield _Current.in_flight
        finally:
            _Current.in_flight = InFlight()
            faulthandler.disable()
            if was_enabled and sys.__stderr__ is not None:
                with contextlib.suppress(OSError, RuntimeError, ValueError):  # the file may be closed
                    faulthandler.enable(sys.__stderr__)
            crashed_file.unlink(missing_ok=True)


def ignore_crashes_of_worker() -> None:
    """Switch `faulthandler` off in a forked worker, so that its crash does not count as a crash of the model."""
    faulthandler.disable()


def _folder(workspace: Workspace) -> Path:
    return workspace.run / _CRASHES_FOLDER / "model"
