"""Open encoded audio: bytes, a file or an object in a store."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prepcli.audio.source import ByteSource, FileSource, Source, open_file, refuse, regular_size
from prepcli.errors import RecordRejected, RejectReason
from prepcli.storage.addresses import AddressError, is_address


@contextmanager
def open_source(source: bytes | str | Path, name: str) -> Iterator[Source]:
    """Open encoded audio for a `with` block.

    Args:
        source: encoded bytes, or the path of a file.
        name: for messages.

    Raises:
        RecordRejected: MISSING_AUDIO where the file does not exist, UNREADABLE_AUDIO where it is not a regular file or
            cannot be opened.
    """
    if isinstance(source, bytes):
        yield ByteSource(source)
        return
    if is_address(source):
        with _stored(str(source), name) as stored:
            yield stored
        return
    fd = open_file(source, name)
    try:
        yield FileSource(fd, regular_size(fd, name), name)
    finally:
        os.close(fd)


def read_whole(path: str, name: str) -> bytes:
    """The bytes of a file or an object, as `open_source` reads them; a context would cost a tenth of a short file.

    Raises:
        RecordRejected: as by `open_source`; UNREADABLE_AUDIO where reading fails.
    """
    if is_address(path):
        with _stored(path, name) as stored:
            return stored.everything()
    fd = open_file(path, name)
    try:
        return FileSource(fd, regular_size(fd, name), name).everything()
    finally:
        os.close(fd)


@contextmanager
def _stored(address: str, name: str) -> Iterator[Source]:
    """Open an object; an error of the store is raised at the end at the latest, and not taken for damaged audio."""
    from prepcli.audio.stored import ObjectSource, open_stored

    try:
        source = open_stored(address)
    except OSError as error:
        refuse(error, name)
    except AddressError as error:
        raise RecordRejected(RejectReason.BAD_FIELD, f"audio_filepath: {error}") from None
    try:
        yield source
    finally:
        if isinstance(source, ObjectSource) and source.failure is not None:
            raise source.failure
