"""The manifest over all shards of a tarred set: its lines by their shard."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from prepcli.commands.verify.tarred import line_hash
from prepcli.errors import RecordRejected
from prepcli.formats.tar import open_regular
from prepcli.manifest.record import Record


def lines_by_shard(whole: Path, prefix: str, problems: list[str]) -> tuple[Counter[int], Counter[int]]:
    """Number and summed hash of the lines of each shard in the manifest of the whole set; adds to `problems`."""
    totals: Counter[int] = Counter()
    digests: Counter[int] = Counter()
    try:
        for number, (line, shard) in enumerate(_with_shard(whole), start=1):
            if shard is None:
                problems.append(f"{prefix}{whole.name}:{number}: no usable line with a shard_id")
            else:
                totals[shard] += 1
                digests[shard] += line_hash(line)
    except OSError as error:
        problems.append(f"{prefix}{whole.name}: cannot be read: {error.strerror}")
    return totals, digests


def _with_shard(whole: Path) -> Iterator[tuple[bytes, int | None]]:
    with open_regular(whole) as file:
        for line in file:
            try:
                shard = Record.parse(line).get("shard_id")
            except RecordRejected:
                shard = None
            yield line, shard if isinstance(shard, int) else None


def split_manifest(whole: Path, scratch: Path, shards: Iterable[int]) -> dict[int, Path]:
    """Write the whole manifest's lines shard by shard, for sets without sharded manifests.

    Returns:
        The file of each shard with lines, and of each of `shards`.
    """
    files: dict[int, Path] = {}

    def file_of(shard: int) -> Path:
        return files.setdefault(shard, scratch / f"manifest_{shard}.json")

    for number in shards:
        file_of(number).touch()
    current: tuple[int, IO[bytes]] | None = None
    for line, shard in _with_shard(whole):
        if shard is None:
            continue
        if current is None or current[0] != shard:
            if current is not None:
                current[1].close()
            current = (shard, file_of(shard).open("ab"))
        current[1].write(line)
    if current is not None:
        current[1].close()
    return files
