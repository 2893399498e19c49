"""What is found in a part of an export: a shard, a file, or some lines of a list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from prepcli.commands.verify.tarred import ShardReport, line_hash
from prepcli.planning.hashing import Hashes

Hashed = Callable[[str], str | None]
"""The SHA-256 under which a file below OUT was published, None where that is not known; whoever asks compares it."""


@dataclass(slots=True)
class ExportReport(ShardReport):
    """What was found in a part; `num_lines` counts records.

    Attributes:
        id_hashes: a 64-bit hash of each record's id.
        num_dropped: records that the reader drops silently.
    """

    id_hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    num_dropped: int = 0

    def add_ids(self, ids: Sequence[str]) -> None:
        """Keep the hashes of these ids."""
        hashes = [line_hash(id.encode("utf-8", "surrogatepass")) for id in ids]
        self.id_hashes = np.concatenate([self.id_hashes, np.array(hashes, np.uint64)])
