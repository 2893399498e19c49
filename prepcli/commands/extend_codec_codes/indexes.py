"""Codes of a Shar set with indexes have indexes too, of the same kind: in a mirror, or beside the data."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from prepcli.commands.extend_codec_codes.plan import InputShard
from prepcli.formats.indexes import MIRROR, IndexKind, make_index, mirrored


def indexes_of_set(folder: Path, shards: Sequence[InputShard]) -> Iterator[tuple[str, bytes]]:
    """The indexes of a set's own files, by their names below a folder with a mirror.

    A training run has one `indexes_root`, so codes that lie elsewhere need the indexes of the set in their mirror.
    """
    for shard in shards:
        files: list[tuple[Path, IndexKind]] = [(shard.cuts, "jsonl")]
        files += [(path, "shar_tar") for path in shard.tars.values()]
        for path, kind in files:
            name = f"{MIRROR}/{mirrored(path)}"
            known = folder / name
            yield name, known.read_bytes() if known.is_file() else make_index(path, kind)
