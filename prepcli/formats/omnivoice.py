"""Codes for OmniVoice: tars with an array for each id, labels with the same ids, and the list that its reader opens.

The rules are those of the reader (omnivoice/data/dataset.py): the key of a member is its name up to the first dot, and
its labels are those with the same `id`. A line of the list has four values, separated by blanks.
"""

import re
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from prepcli.errors import UsageError
from prepcli.formats.folders import Listing, numbered
from prepcli.formats.stored_set import Shards, StoredSet
from prepcli.storage.paths import AnyPath

CODES_NAME = "audios/shard-{:06d}.tar"
CODES_FILE = re.compile(r"shard-(\d+)\.tar$")
LABELS_NAME = "txts/shard-{:06d}.jsonl"
LIST_NAME = "data.lst"
NUM_CODEBOOKS = 8
MIN_SHARDS, SHARD_SIZE = 32, 1000
"""By default: the minimum number of shards, if there are enough records, and the maximum number of records per shard.

Each worker of each GPU needs a shard of its own.
"""
PEAK = 0.9
"""The peak to which OmniVoice's program scales audio before it is encoded."""


class ShardLine(NamedTuple):
    """A line of OmniVoice's list: the paths of a tar and its labels, the number of records, and their total seconds."""

    codes: Path
    labels: Path
    num_records: int
    seconds: float


def list_line(folder: str, number: int, num_records: int, seconds: float) -> bytes:
    """The line of OmniVoice's list for shard `number` of the set in `folder`; `seconds` is the shard's duration."""
    names = (f"{folder}/{name.format(number)}" for name in (CODES_NAME, LABELS_NAME))
    return f"{' '.join(names)} {num_records} {seconds:.3f}\n".encode()


def check_folder(folder: str) -> None:
    """Raise `UsageError` if OmniVoice's list cannot name files in a folder, because its path has blanks."""
    if re.search(r"\s", folder):
        raise UsageError(f"OmniVoice divides the lines of {LIST_NAME} at blanks, and {folder!r} has some: rename it")


def read_list(path: AnyPath) -> list[ShardLine]:
    """The lines of OmniVoice's list; raises `ValueError` for a line that OmniVoice's reader refuses."""
    lines = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        try:
            codes, labels, num_records, seconds = words
            lines.append(ShardLine(Path(codes), Path(labels), int(num_records), float(seconds)))
        except ValueError:
            raise ValueError(f"line {number} must be the paths of a tar and its labels, a count and seconds") from None
    return lines


class OmnivoiceSet(StoredSet):
    """Tars with codes and their labels for OmniVoice; `list` is the file that its reader opens."""

    kind = "omnivoice"

    def __init__(self, list: AnyPath) -> None:
        super().__init__(list.parent, Listing([list.name], []))
        self.list = list

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "OmnivoiceSet | None":
        """The set in a folder with `data.lst`, or in which a run has `published` it; else None."""
        return cls(folder / LIST_NAME) if LIST_NAME in (*listed.files, *published) else None

    def title(self, *, is_file: bool = False) -> str:
        """The number of tars."""
        return f"{len(self.shards):,} tars with codes for OmniVoice"

    @cached_property
    def shards(self) -> Shards:
        """The tars in the folder `audios`, by number."""
        return numbered(self.folder / "audios", CODES_FILE)

    def files(self) -> Iterator[AnyPath]:
        """The file `list`, the tars, and for each tar its file of labels."""
        yield from (self.list, *self.shards.values())
        yield from (self.folder / LABELS_NAME.format(number) for number in self.shards)
