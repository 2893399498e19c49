"""Notes of the audio that a decoder or a model is about to process: after a crash, they show which audio it was.

Workers note audio only after a decoder has crashed, because each note is a write. A process with a model notes each
batch (`prepcli.engine.run.crashes.InFlight`).
"""

import contextlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from prepcli.errors import RecordRejected, RejectReason, naming

_END = b"\0"
"""The byte at the end of a note; no path contains this byte. Bytes after it are left from an earlier, longer note."""


class NoteFile:
    """A file with the last note of its process; the note is complete even if the process crashes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)

    def write(self, note: bytes) -> None:
        """Replace the note in the file, with a single write."""
        with naming(self._path):
            os.pwrite(self._file, note + _END, 0)

    def close(self) -> None:
        """Close and remove the file."""
        os.close(self._file)
        self._path.unlink(missing_ok=True)


class _Notes:
    """The state of a worker process. `file`: the file for its notes; None if no notes are taken.

    `refused`: the names of audio that is rejected without another attempt to decode it.
    """

    file: NoteFile | None = None
    refused: Collection[str] = ()


def take_in_hand(*audio: object) -> None:
    """Note the audio that is decoded or encoded next; does nothing outside of `noting`.

    `audio`: the path, the offset, and whatever else identifies the audio; the same in every run.

    Raises:
        RecordRejected: CRASHED_DECODER if `noting` refuses this audio, because it has crashed earlier processes.
    """
    if _Notes.file is None:
        return
    note = " ".join(map(str, audio)).encode(errors="surrogateescape")
    if _name(note) in _Notes.refused:
        raise RecordRejected(RejectReason.CRASHED_DECODER, f"{audio[0]} has crashed the decoder twice")
    _Notes.file.write(note)


def read_note(file: Path) -> str | None:
    """The last note in `file`: "" if there is none, None if there is no file."""
    try:
        return _name(file.read_bytes().partition(_END)[0])
    except FileNotFoundError:
        return None


def _name(note: bytes) -> str:
    """The note as text for JSON; bytes that are not UTF-8, which a path may have, are escaped."""
    return note.decode(errors="backslashreplace")


@contextmanager
def noting(file: Path, refused: Collection[str]) -> Iterator[None]:
    """Within the context, `take_in_hand` writes to `file` and rejects the audio in `refused`."""
    with contextlib.closing(NoteFile(file)) as _Notes.file:
        _Notes.refused = refused
        try:
            yield
        finally:
            _Notes.file, _Notes.refused = None, ()
