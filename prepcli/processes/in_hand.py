"""Notes which audio a worker is about to decode; only after a decoder has crashed, because each note is a write."""

import contextlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from prepcli.errors import RecordRejected, RejectReason, naming

_END = b"\0"
"""Ends a note; no path contains it. What follows is the rest of an earlier, longer note."""


class _Notes:
    """The file for notes (None: no decoder has crashed) and its path, and the audio that is not tried again."""

    file: int | None = None
    path: Path = Path()
    refused: Collection[str] = ()


def take_in_hand(*audio: object) -> None:
    """Note the audio that is decoded or encoded next; `audio` identifies it in every run: path, offset, ...

    Raises:
        RecordRejected: CRASHED_DECODER if two processes died while decoding this audio.
    """
    if _Notes.file is None:
        return
    note = " ".join(map(str, audio)).encode(errors="surrogateescape")
    if _name(note) in _Notes.refused:
        raise RecordRejected(RejectReason.CRASHED_DECODER, f"{audio[0]} has crashed the decoder twice")
    with naming(_Notes.path):
        os.pwrite(_Notes.file, note + _END, 0)  # one write, so that a crash leaves a whole note


def read_note(file: Path) -> str | None:
    """What `take_in_hand` has noted in `file` last: "" if nothing, None if there is no file."""
    try:
        return _name(file.read_bytes().partition(_END)[0])
    except FileNotFoundError:
        return None


def _name(note: bytes) -> str:
    """A name that JSON can hold, because a path may have bytes that are not UTF-8."""
    return note.decode(errors="backslashreplace")


@contextmanager
def noting(file: Path, refused: Collection[str]) -> Iterator[None]:
    """Within the context, `take_in_hand` writes to `file` and rejects the audio in `refused`."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
    _Notes.file, _Notes.path, _Notes.refused = descriptor, file, refused
    try:
        yield
    finally:
        _Notes.file, _Notes.refused = None, ()
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
