"""Open encoded audio: a file, an object in a store, a range of either, or bytes in memory."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import TypeVar

from prepcli.audio.source import (
    ByteSource,
    FileSource,
    RangeSource,
    Source,
    WatchedSource,
    intact,
    open_file,
    refuse,
    regular_size,
)
from prepcli.errors import RecordRejected, RejectReason
from prepcli.storage.addresses import AddressError, ByteRange, is_address
from prepcli.storage.containers import SEPARATOR, place_of
from prepcli.storage.paths import AnyPath

ResultT = TypeVar("ResultT")
AudioSource = str | AnyPath | ByteRange | bytes
"""Encoded audio: a file or object, `FILE::MEMBER` in a container, a range of a file, or bytes."""


def name_of(source: AudioSource) -> str:
    """Return a name for a source in messages, for callers that do not have a better name."""
    if isinstance(source, ByteRange):
        return f"audio at {source.start} in {source.path}"
    return "audio" if isinstance(source, bytes) else str(source)


def resolved(source: AudioSource) -> AudioSource:
    """Replace `FILE::MEMBER` by the bytes of the member, or by their range in the file; return other sources unchanged.

    Raises:
        RecordRejected: for the reasons of `prepcli.formats.members.audio_of`.
    """
    if isinstance(source, str) and SEPARATOR in source and (place := place_of(source)) is not None:
        from prepcli.formats.members import audio_of  # imported when a container is read

        return audio_of(place)
    return source


def in_store(path: str) -> list[str | ByteRange]:
    """Return the object or range to request ahead from an object store for the audio at `path`.

    Returns:
        An empty list for a local file, and for a row of a Parquet file, which is read with its row group.
    """
    if not is_address(path) or ((place := place_of(path)) is not None and place.row is not None):
        return []
    try:
        source = resolved(path)
    except RecordRejected:  # raised again when the audio is read
        return []
    return [source] if isinstance(source, (str, ByteRange)) else []


def open_source(source: AudioSource, name: str) -> AbstractContextManager[Source]:
    """Open encoded audio for a `with` block; a range in a store is read as a whole.

    Raises:
        RecordRejected: MISSING_AUDIO if the file does not exist, UNREADABLE_AUDIO if it is not a regular file or
            cannot be opened.
    """
    source = resolved(source)
    if isinstance(source, (bytes, ByteRange)) or is_address(source):
        return _opened(source, name)
    return _opened_file(source, name)


def _opened_file(path: str | AnyPath, name: str) -> FileSource:
    fd = open_file(path, name)
    try:
        return FileSource(fd, regular_size(fd, name), name)
    except BaseException:
        os.close(fd)
        raise


@contextmanager
def _opened(source: AudioSource, name: str) -> Iterator[Source]:
    if isinstance(source, bytes) or (isinstance(source, ByteRange) and is_address(source.path)):
        yield ByteSource(read_whole(source, name))
    elif isinstance(source, ByteRange):
        fd = open_file(source.path, name)
        part = RangeSource(fd, source, name)
        try:
            yield part
        finally:
            os.close(fd)
            if part.failure is not None:
                raise part.failure
    else:
        with _stored(str(source), name) as stored:
            yield stored


def used(source: Source, use: Callable[[Source], ResultT]) -> ResultT:
    """Return `use(source)`; raises as `used_in_turn`."""
    [result] = used_in_turn(source, lambda source: (use(source),))
    return result


def used_in_turn(source: Source, use: Callable[[Source], Iterable[ResultT]]) -> Iterator[ResultT]:
    """Yield what `use(source)` yields; if it rejects a file that libsndfile or a program has read, call it once more.

    libsndfile and programs take a read error for the end of the file or for damage. In the second call the file is read
    through Python, so that a read error is known and raised instead of the reject. No result is yielded twice.

    Raises:
        RecordRejected: raised by `use` in both calls.
        OSError: the file could not be read the second time, and the machine is the cause.
    """
    done = 0
    try:
        for result in use(source):
            yield result
            done += 1
        return
    except RecordRejected:
        if not isinstance(source, FileSource) or not source.is_decoded:
            raise
    watched = WatchedSource(source)
    try:
        yield from islice(use(watched), done, None)
    finally:
        if isinstance(watched.failure, OSError):
            refuse(watched.failure, source.name)


def read_whole(source: AudioSource, name: str) -> bytes:
    """Return all bytes of a source.

    Raises:
        RecordRejected: for the reasons of `open_source`, and UNREADABLE_AUDIO if reading fails.
    """
    source = resolved(source)
    if isinstance(source, bytes):
        return source
    if isinstance(source, ByteRange):
        return _read_part(source, name)
    if is_address(source):
        with _stored(str(source), name) as stored:
            return stored.everything()
    fd = open_file(source, name)
    try:
        return FileSource(fd, regular_size(fd, name), name).everything()
    finally:
        os.close(fd)


def _read_part(source: ByteRange, name: str) -> bytes:
    if not is_address(source.path):
        with open_source(source.path, name) as file:
            return intact(file.read(source.start, source.length), source, name)
    from prepcli.storage.ahead import piece_of

    try:
        return intact(piece_of(source), source, name)
    except OSError as error:
        refuse(error, name)


@contextmanager
def _stored(address: str, name: str) -> Iterator[Source]:
    """Open an object in a store for a `with` block.

    An error of the store cannot be raised while libsndfile reads. The end of the block raises it, so that it is not
    taken for damage of the audio.
    """
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
