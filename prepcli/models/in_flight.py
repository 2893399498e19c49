"""Notes of the audio that a model is computing: after a crash of the whole process they name the audio in question.

A process that crashes inside a model leaves notes of the segments that were in flight, perhaps many. The next start
computes these segments one by one; a segment that then crashes the model alone is a reject from then on. A process that
was killed (SIGKILL) has not crashed: only Python's own handler of fatal signals, `faulthandler`, shows a crash.
"""

import contextlib
import faulthandler
import hashlib
import itertools
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from prepcli.engine.run.crashes import MAX_CRASHES, crashes_folder
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import PrepcliError, RecordRejected, RejectReason, option
from prepcli.processes.in_hand import NoteFile, read_note
from prepcli.processes.owner import Owner

_KEYS, _CRASHED = ".keys", ".crashed"
"""Suffixes of the two files of a process: the keys in flight, and the output of `faulthandler`."""


def key_of(item: object) -> str:
    """A short name for an item of a batch, the same in every run."""
    return hashlib.blake2b(repr(item).encode(errors="surrogateescape"), digest_size=8).hexdigest()


def crashed_notes(workspace: Workspace) -> list[list[str]]:
    """The keys in flight of each process that has crashed on this output while its model was computing."""
    found = []
    for crashed in sorted(_folder(workspace).glob(f"*{_CRASHED}")):
        with contextlib.suppress(FileNotFoundError):
            if crashed.stat().st_size:
                found.append((read_note(crashed.with_suffix(_KEYS)) or "").split())
    return [keys for keys in found if keys]


class InFlight:
    """The segments that are in the model. `noting_in_flight` makes it for a rank; without a file, nothing is noted."""

    def __init__(self, file: NoteFile | None = None, crashes: Sequence[Sequence[str]] = ()) -> None:
        counts: dict[str, int] = {}
        for key in itertools.chain.from_iterable(crashes):
            counts[key] = counts.get(key, 0) + 1
        alone = {keys[0] for keys in crashes if len(keys) == 1}
        self._refused = frozenset(key for key in alone if counts[key] >= 2)
        self._suspects = frozenset(counts) - self._refused
        self._file = file
        self._batches: dict[int, Sequence[str]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @property
    def refused(self) -> frozenset[str]:
        """Keys of segments that have crashed the model twice, the second time alone."""
        return self._refused

    def is_suspect(self, keys: Iterable[str]) -> bool:
        """Whether one of the segments was in flight when a process crashed."""
        return not self._suspects.isdisjoint(keys)

    def reject(self, keys: Sequence[str], rejects: dict[int, RecordRejected]) -> list[int]:
        """Add the rows of a batch that are refused to `rejects`, and return them."""
        rows = [row for row, key in enumerate(keys) if key in self._refused] if self._refused else []
        rejected = RecordRejected(RejectReason.CRASHED_DECODER, "the model has crashed twice over its audio")
        rejects |= dict.fromkeys(rows, rejected)
        return rows

    def begin(self, keys: Sequence[str]) -> int:
        """Note that a batch goes into the model; returns a number for `end`."""
        number = next(self._numbers)
        self._batches[number] = keys
        self._write()
        return number

    def end(self, number: int | None = None) -> None:
        """Note that a batch, or without a number every batch, has left the model."""
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
    """The notes of the rank that this process is."""

    in_flight = InFlight()


def in_flight() -> InFlight:
    """The segments that are in the model of this process."""
    return _Current.in_flight


@contextmanager
def noting_in_flight(workspace: Workspace) -> Iterator[InFlight]:
    """Note, within the context, the segments in the model of this process, and whether the process crashes.

    Raises:
        PrepcliError: so many segments have crashed the model that they are not the cause.
    """
    folder = _folder(workspace)
    folder.mkdir(parents=True, exist_ok=True)
    _remove_ended(folder)
    name = f"{Owner.of_this_process(uuid.uuid4().hex[:16])}"
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


def crash_is_a_workers() -> None:
    """Note in a forked worker that its crash is not a crash of the process with the model."""
    faulthandler.disable()


def _folder(workspace: Workspace) -> Path:
    return crashes_folder(workspace) / "model"


def _remove_ended(folder: Path) -> None:
    """Remove files of killed processes."""
    for crashed in folder.glob(f"*{_CRASHED}"):
        owner = Owner.parse(crashed.stem)
        with contextlib.suppress(OSError):
            if owner is not None and owner.is_gone and not crashed.stat().st_size:
                crashed.with_suffix(_KEYS).unlink(missing_ok=True)
                crashed.unlink()
