"""Open encoded audio: bytes, a file or an object in a store."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from prepcli.audio.source import ByteSource, FileSource, Source, WatchedSource, open_file, refuse, regular_size
from prepcli.errors import RecordRejected, RejectReason
from prepcli.storage.addresses import AddressError, is_address

ResultT = TypeVar("ResultT")


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


def used(source: Source, use: Callable[[Source], ResultT]) -> ResultT:
    """What `use` makes of audio. After a reject of what libsndfile or a program has read, `use` is called again.

    They take an error of reading for the end of the file or for damage; the second time it is known.

    Raises:
        RecordRejected: `use` does, also the second time.
        OSError: the file could not be read the second time, and the machine is the cause.
    """
    try:
        return use(source)
    except RecordRejected:
        if not isinstance(source, FileSource) or not source.is_decoded:
            raise
    watched = WatchedSource(source)
    try:
        return use(watched)
    finally:
        if isinstance(watched.failure, OSError):
            refuse(watched.failure, source.name)


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
