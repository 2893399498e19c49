"""Finds the audio of a record in a container.

The audio is a range of the container's file, or bytes in memory. It is bytes if the member or the whole container is
compressed. For a Parquet file it is bytes also at the first read of a row group, in an object store, or if the column
is encoded.

A process keeps, for the containers that it used last, the places of the members, and the audio of one row group of a
Parquet file.
"""

import os
from functools import lru_cache

from prepcli.errors import FAULTS_OF_THE_MACHINE, RecordRejected, RejectReason, UsageError
from prepcli.formats.archives import ArkEntries, Container, StreamedTar, TarMembers, ZipMembers, open_to_check
from prepcli.formats.parquet_audio import HeldRows, ParquetRows
from prepcli.interface.calls import Undo, keep_for_caller
from prepcli.storage.addresses import ByteRange, is_address
from prepcli.storage.containers import ONE_PASS_SUFFIXES, Place
from prepcli.storage.paths import path_of

_MAX_CONTAINERS = 512
"""Maximum number of containers for which a process keeps a table of the places of the members.

The table of 10,000 members takes about 2 MB for a tar, and about 6 MB for a zip archive.
"""


@lru_cache(maxsize=_MAX_CONTAINERS)
def _container(path: str, process: int) -> Container:
    keep_for_caller(_containers)
    if not is_address(path) and os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is a {'folder' if os.path.isdir(path) else 'pipe or a device'}, not a file")
    lower = path.lower()
    kind: type[Container] = TarMembers
    if lower.endswith(ONE_PASS_SUFFIXES):
        kind = StreamedTar
    elif lower.endswith(".zip"):
        kind = ZipMembers
    elif lower.endswith(".parquet"):
        kind = ParquetRows
    elif lower.endswith(".ark"):
        kind = ArkEntries
    return kind(path)


def container(path: str) -> Container:
    """The container at a path, which this process keeps open or in memory."""
    return _container(path, os.getpid())  # positions in files are shared with a forked process


def _containers() -> Undo:
    return forget


def forget() -> None:
    """Close all containers. This happens at the end of each call from Python: files may change before the next call."""
    _container.cache_clear()
    open_to_check.cache_clear()
    HeldRows.forget()


def read_member(place: Place) -> bytes:
    """The bytes of a record's audio; raises as `audio_of`, and `OSError` if they cannot be read."""
    audio = audio_of(place)
    if isinstance(audio, bytes):
        return audio
    with path_of(audio.path).open("rb") as file:
        file.seek(audio.start)
        return file.read(audio.length)


def audio_of(place: Place) -> ByteRange | bytes:
    """The audio of a record in a container: its range of the file, or its bytes if it has no known range.

    Raises:
        RecordRejected: MISSING_AUDIO if the container or the member does not exist, or if the member is a link;
            UNREADABLE_AUDIO if the container cannot be opened, or the audio cannot be read or unpacked; BAD_FIELD if
            several members have the name.
        OSError: the machine or a store is the cause, and not the container.
        InputChangedError: the container was changed since this process opened it.
    """
    try:
        return container(place.path).audio(place.member)
    except (FileNotFoundError, NotADirectoryError):
        raise RecordRejected(RejectReason.MISSING_AUDIO, f"{place.path} does not exist") from None
    except OSError as error:
        if is_address(place.path) or error.errno in FAULTS_OF_THE_MACHINE:
            raise
        why = f"{place.path} cannot be read: {error.strerror or error}"
        raise RecordRejected(RejectReason.UNREADABLE_AUDIO, why) from None
    except UsageError as error:
        raise RecordRejected(RejectReason.UNREADABLE_AUDIO, str(error)) from None
