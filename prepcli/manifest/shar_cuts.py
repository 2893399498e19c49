"""Reads whole files of cuts of a Lhotse Shar set: their lines, ids and durations."""

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec

from prepcli.errors import UsageError, naming
from prepcli.formats.lenient_json import decode_json
from prepcli.gate import MAX_SECONDS
from prepcli.processes.pools import map_in_order
from prepcli.storage.input_files import FileState, check_unchanged
from prepcli.storage.paths import AnyPath, path_of

Cut = TypeVar("Cut", bound=msgspec.Struct)


class CutHead(msgspec.Struct):
    """The fields of a cut that planning needs: its id, and its duration in seconds."""

    id: str
    duration: Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)] = 0.0


@dataclass(frozen=True, slots=True)
class CutsFile:
    """The cuts file of a shard, and its state before it was read."""

    path: AnyPath
    state: FileState


@dataclass(frozen=True, slots=True)
class ShardSize:
    """The size of a shard: the SHA-256 of its cuts file, and the number and the total seconds of its cuts."""

    sha256: str
    num_cuts: int
    seconds: float


def cut_lines(data: bytes, name: str) -> list[bytes]:
    """The lines of a cuts file with this content and name, without line ends.

    Raises:
        UsageError: the content cannot be unpacked.
    """
    try:
        return (gzip.decompress(data) if name.endswith(".gz") else data).splitlines()
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{name} cannot be read: {error}; repair the set first") from None


def decode_cuts(data: bytes, name: str, kind: type[Cut]) -> list[Cut]:
    """The cuts in a file with this content and name, with the fields of `kind`.

    Raises:
        UsageError: the file is damaged.
    """
    cuts: list[Cut] = []
    for number, line in enumerate(cut_lines(data, name), start=1):
        try:
            cuts.append(decode_json(line, kind))
        except (msgspec.DecodeError, ValueError) as error:
            raise UsageError(f"{name}:{number} is not a cut: {error}; repair the set first") from None
    return cuts


def read_cuts(file: CutsFile) -> bytes:
    """The bytes of a cuts file as stored, perhaps compressed.

    Raises:
        InputChangedError: the file has changed since it was found.
    """
    with naming(file.path):
        data = file.path.read_bytes()
    # If the state alone is not conclusive, `cuts_digest` decides at the end of the run.
    check_unchanged(file.path, file.state, same_content=lambda: True)
    return data


def cuts_digest(path: str) -> str:
    """The SHA-256 of the bytes of a cuts file as stored, perhaps compressed: the `sha256` of its `ShardSize`."""
    with naming(path):
        return hashlib.sha256(path_of(path).read_bytes()).hexdigest()


def _measure(file: CutsFile) -> ShardSize:
    data = read_cuts(file)
    heads = decode_cuts(data, str(file.path), CutHead)
    return ShardSize(hashlib.sha256(data).hexdigest(), len(heads), sum(head.duration for head in heads))


def measure_cuts(files: Sequence[CutsFile], num_workers: int) -> list[ShardSize]:
    """Read the cuts files of all shards, and return the size of each shard in the same order."""
    return list(map_in_order(_measure, files, num_workers))
