"""Notes the state of the audio that codes were made from, so that a later change of the audio is found."""

import contextlib
import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.errors import RecordRejected
from prepcli.formats.members import read_member
from prepcli.formats.shar_audio import content_digest
from prepcli.storage.addresses import is_absolute, is_address, join
from prepcli.storage.containers import place_of
from prepcli.storage.input_files import FileState, state_of
from prepcli.storage.paths import path_of

AUDIO_RECORD = "parts/{}.audio.json"
"""The part of a unit that holds the `States` of its audio, for a run that makes codes."""
_BLOCK = 1 << 20


class AudioState(msgspec.Struct, frozen=True):
    """The size, time and inode number of a file when it was read, and a digest (hex) of its content at that time."""

    num_bytes: int
    mtime_ns: int
    inode: int
    digest: str

    @classmethod
    def of(cls, state: FileState, digest: str) -> "AudioState":
        """Join the state of a file and the digest of its content."""
        return cls(state.num_bytes, state.mtime_ns, state.inode, digest)

    def is_of(self, state: FileState) -> bool:
        """Whether a file whose current state is `state` is unchanged, by its size, time and inode."""
        return (self.num_bytes, self.mtime_ns, self.inode) == (state.num_bytes, state.mtime_ns, state.inode)


States = dict[str, AudioState]
"""States of audio files by path. The paths of tars are relative to their Shar set, all others are absolute."""


def file_digest(path: str, state: FileState) -> str:
    """The SHA-256 (hex) of an audio file, or of the audio in a container; `state` is the state of the file.

    For an object in a store, the result is `found.inode` (hex), a number that was made from the ETag of the object.

    Raises:
        OSError: the file cannot be read.
        RecordRejected: the container cannot be read, or does not hold the audio.
    """
    if is_address(path):
        return f"{state.inode:x}"
    place = place_of(path)
    return _digest_of_bytes(path, state) if place is None else hashlib.sha256(read_member(place)).hexdigest()


def audio_state(path: str) -> FileState:
    """The state of an audio file, or of the container with the audio."""
    place = place_of(path)
    return state_of(path if place is None else place.path)


@lru_cache(1024)
def _digest_of_bytes(path: str, state: FileState) -> str:
    """The digest of a file's bytes, cached so that a long recording is read once for all of its segments."""
    digest = hashlib.sha256()  # twice as fast as BLAKE2 with the instructions of current processors
    with Path(path).open("rb", buffering=0) as file:
        while block := file.read(min(state.num_bytes + 1, _BLOCK)):
            digest.update(block)
    return digest.hexdigest()


def audio_records(workspace: Workspace, units: Iterable[Unit]) -> list[Path]:
    """The `AUDIO_RECORD`s of those of the units that have one."""
    paths = (workspace.part_file(unit.id, AUDIO_RECORD.format(unit.id)) for unit in units)
    return [path for path in paths if path.exists()]


class Compared(NamedTuple):
    """The result of `compare_audio` for a unit: the paths of changed files, and the number of missing files."""

    changed: list[str]
    num_missing: int


def compare_audio(record: Path, folder: str, is_noted: bool = False) -> Compared:
    """Compare the current audio files with the states that they had when a unit was made from them.

    A file with the same size, time and inode is unchanged. Other files are read: a copy, or a file with another date,
    may hold the same bytes.

    Args:
        record: the `AUDIO_RECORD` of the unit. An earlier version of prepcli wrote none; then nothing is compared.
        folder: the Shar set.
        is_noted: whether to write the current states to a file next to `record` if no content has changed. The next
            call then does not read the files again.
    """
    noted = record.with_suffix(".seen.json")
    states = read_document(record, States) or {}
    later = (read_document(noted, States) or {}).items()
    states |= {path: state for path, state in later if path in states and states[path].digest == state.digest}
    touched: States = {}
    num_missing = 0
    for path, before in states.items():
        place = join(folder, path)
        try:
            current = audio_state(place)
            if not before.is_of(current):
                digest = file_digest(path, current) if is_absolute(path) else content_digest(path_of(place))
                touched[path] = AudioState.of(current, digest)
        except (OSError, RecordRejected):  # the latter: a container that was written again, without the audio
            num_missing += 1
    changed = [path for path, now in touched.items() if now.digest != states[path].digest]
    if is_noted and touched and not changed:
        with contextlib.suppress(OSError):
            write_json(noted, states | touched)
    return Compared([join(folder, path) for path in changed], num_missing)
