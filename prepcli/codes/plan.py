"""The shards of the input, and groups of consecutive shards as units of work."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from prepcli.engine.plan import Unit
from prepcli.errors import UsageError
from prepcli.formats.folders import numbered
from prepcli.formats.shar import AUDIO_FILE, AUDIO_NAME, CONTEXT, CUTS_FILE, TARGET, decode_json, shard_text
from prepcli.input_files import FileState, check_unchanged, state_of
from prepcli.manifest.record import MAX_SECONDS
from prepcli.worker_pools import map_in_order

MAX_SHARDS = 64
"""Maximum number of shards per unit: the files of all of them are open at once."""


class CutHead(msgspec.Struct):
    """The fields of a cut that are used; `duration` in seconds."""

    id: str
    duration: Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)] = 0.0


@dataclass(frozen=True, slots=True)
class InputShard:
    """A shard of the input: its cuts, the tar of each audio field, and the state of the cuts before they were read."""

    number: int
    cuts: Path
    tars: dict[str, Path]
    state: FileState


@dataclass(frozen=True, slots=True)
class ShardGroup(Unit):
    """Consecutive shards whose segments are batched and published together."""

    shards: Sequence[InputShard]


@dataclass(frozen=True, slots=True)
class ShardSize:
    """A shard as planning needs it: `seconds` of its cuts, and the SHA-256 of its cuts file."""

    sha256: str
    num_cuts: int
    seconds: float


def find_input(folder: Path) -> list[InputShard]:
    """The shards of a Shar set, by number; gaps between the numbers are fine.

    Raises:
        UsageError: there is no shard, or one has no audio.
    """
    cuts = numbered(folder / "cuts", CUTS_FILE)
    fields = {name: numbered(folder / name, AUDIO_FILE) for name in (TARGET, CONTEXT)}
    if not cuts:
        raise UsageError(f"{folder} is not a Lhotse Shar set: it has no cuts/cuts.<number>.jsonl.gz")
    if not fields[CONTEXT]:
        del fields[CONTEXT]
    for name, found in fields.items():
        for number in sorted(set(cuts) - set(found)):
            missing = AUDIO_NAME.format(name, shard_text(number))
            raise UsageError(f"{folder}/{missing} is missing, but {cuts[number].name} is; repair the set first")
    return [
        InputShard(number, path, {name: found[number] for name, found in fields.items()}, state_of(path))
        for number, path in sorted(cuts.items())
    ]


def cut_lines(data: bytes, name: str) -> list[bytes]:
    """The lines of a cuts file with this content and name, without line ends.

    Raises:
        UsageError: it cannot be unpacked.
    """
    try:
        return (gzip.decompress(data) if name.endswith(".gz") else data).splitlines()
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{name} cannot be read: {error}; repair the set first") from None


def read_heads(shard: InputShard, data: bytes) -> list[CutHead]:
    """Ids and durations of a shard's cuts; `data` is the content of its cuts file.

    Raises:
        UsageError: the file is damaged.
    """
    heads = []
    for number, line in enumerate(cut_lines(data, str(shard.cuts)), start=1):
        try:
            heads.append(decode_json(line, CutHead))
        except (msgspec.DecodeError, ValueError) as error:
            raise UsageError(f"{shard.cuts}:{number} is not a cut: {error}; repair the set first") from None
    return heads


def read_cuts(shard: InputShard) -> bytes:
    """The content of a shard's cuts file; raises `InputChangedError` if it was written to since it was found."""
    data = shard.cuts.read_bytes()
    # Where a doubt is left, `cuts_digest` decides at the end of the run.
    check_unchanged(shard.cuts, shard.state, same_content=lambda: True)
    return data


def cuts_digest(path: str) -> str:
    """The `sha256` of a cuts file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _measure(shard: InputShard) -> ShardSize:
    data = read_cuts(shard)
    heads = read_heads(shard, data)
    return ShardSize(hashlib.sha256(data).hexdigest(), len(heads), sum(head.duration for head in heads))


def measure(shards: Sequence[InputShard], num_workers: int) -> list[ShardSize]:
    """Read the cuts of all shards."""
    return list(map_in_order(_measure, shards, num_workers))


def audio_bytes(shards: Sequence[InputShard]) -> int:
    """Bytes of all tars; `prepcli.codes.content` detects changes of equal size."""
    return sum(path.stat().st_size for shard in shards for path in shard.tars.values())


def group_shards(shards: Sequence[InputShard], sizes: Sequence[ShardSize], seconds: float) -> Iterator[ShardGroup]:
    """Groups of consecutive shards with `seconds` of cuts or a little more.

    They depend only on the input and the settings, and so do the batches.
    """
    start = 0
    total = 0.0
    for position, size in enumerate(sizes):
        total += size.seconds
        full = total >= seconds or position + 1 - start >= MAX_SHARDS
        if full or position + 1 == len(sizes):
            here = slice(start, position + 1)
            first, last = (shard_text(shards[at].number) for at in (start, position))
            unit_id = f"shards_{first}" if first == last else f"shards_{first}-{last}"
            yield ShardGroup(unit_id, total, sum(size.num_cuts for size in sizes[here]), shards[here])
            start, total = position + 1, 0.0
