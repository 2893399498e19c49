"""Notes which audio a worker is about to decode; only after a decoder has crashed, because each note is a write."""

import contextlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from prepcli.errors import RecordRejected, RejectReason


class _Notes:
    """The file for notes (None: no decoder has crashed), and the audio that is no longer tried."""

    file: int | None = None
    refused: Collection[str] = ()


def take_in_hand(*audio: object) -> None:
    """Note the audio that is decoded or encoded next; `audio` identifies it in every run: path, offset, ...

    Raises:
        RecordRejected: CRASHED_DECODER, two processes have died of this audio.
    """
    if _Notes.file is None:
        return
    name = " ".join(map(str, audio))
    if name in _Notes.refused:
        raise RecordRejected(RejectReason.CRASHED_DECODER, f"{audio[0]} has crashed the decoder twice")
    os.ftruncate(_Notes.file, 0)
    os.pwrite(_Notes.file, name.encode(errors="surrogateescape"), 0)


@contextmanager
def noting(file: Path, refused: Collection[str]) -> Iterator[None]:
    """Within the context, `take_in_hand` writes to `file` and rejects the audio in `refused`."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
    _Notes.file, _Notes.refused = descriptor, refused
    try:
        yield
    finally:
        _Notes.file, _Notes.refused = None, ()
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
