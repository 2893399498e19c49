"""Types and functions that all checks share: the result for a part of a set, decoding of audio, repeated ids."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from prepcli.audio.check import check_decoded
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_bytes
from prepcli.commands.verify.report import VerifyReport
from prepcli.engine.publishing.hashes import OTHER_BYTES, ContentHash
from prepcli.errors import RecordRejected
from prepcli.formats.pairs import Pair, read_pairs
from prepcli.gate import RATE_FIELDS, check_rate
from prepcli.manifest.record import Record
from prepcli.planning.hashing import Hashes
from prepcli.processes.in_hand import take_in_hand
from prepcli.storage.paths import AnyPath

Hashed = Callable[[str], str | None]
"""A function that returns the published hash of a file (`ContentHash`), or None if it is not known.

Its argument is the name of the file below OUT. The function counts the file as compared, so the caller must compare the
hash with the content of the file.
"""


@dataclass(slots=True)
class ShardReport:
    """The result for a shard or another part of a set: counts, seconds of audio, and problems.

    `lines_digest`: the sum of 64-bit hashes of the lines, equal for equal lines in any order. `id_hashes`: a 64-bit
    hash of each id. `num_dropped`: records that the reader drops silently.
    """

    num_members: int = 0
    num_lines: int = 0
    seconds: float = 0.0
    lines_digest: int = 0
    num_dropped: int = 0
    id_hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    problems: list[str] = field(default_factory=list)

    def set_ids(self, ids: Iterable[str]) -> None:
        """Set `id_hashes` to the hashes of `ids`."""
        hashes = [line_hash(id.encode("utf-8", "surrogatepass")) for id in ids]
        self.id_hashes = np.array(hashes, np.uint64)

    def compare(self, where: str, content: ContentHash) -> None:
        """Add a problem if the hash of a file is not the published one."""
        if content.differs:
            self.problems.append(f"{where}: {OTHER_BYTES}")


def add_shard(shard: ShardReport, prefix: str, report: VerifyReport) -> None:
    """Add the counts of a shard, and its problems, to the report; `prefix` is the folder of the set in OUT."""
    report.shards += 1
    report.members += shard.num_members
    report.records += shard.num_lines
    report.seconds += shard.seconds
    report.problems += [prefix + problem for problem in shard.problems]


def check_audio(data: bytes, name: str, file: AnyPath, where: str, report: ShardReport) -> AudioInfo | None:
    """Decode the audio `name` in a shard or another file with soundfile, as trainers do.

    Returns:
        The properties; None, after adding a problem, if it cannot be decoded or not all of it.
    """
    try:
        take_in_hand(name, file)
        info = probe_bytes(data, name)
        check_decoded(data, info, name)
    except RecordRejected as rejected:
        report.problems.append(f"{where}: {rejected.detail}")
        return None
    return info


def check_rates(record: Record, rate: int) -> None:
    """Check the fields of a record with the sampling rate of its audio, which is `rate` (Hz).

    Raises:
        RecordRejected: a field has another value.
    """
    for name in RATE_FIELDS:
        if name in record.fields:
            check_rate(name, record.get(name), rate)


def aligned_pairs(
    where: str, tar: AnyPath, published: str | None, kind: str, ids: Sequence[str], cuts: str, report: ShardReport
) -> Iterator[tuple[Pair, int | None]]:
    """Yield the items of a tar, each with the number of its cut (from 0). Checks that item and cut have the same id.

    The number is None for an item without a cut. If an item has another id than its cut, the number is None for this
    item and all items after it.

    Args:
        where: the name of the tar in messages.
        tar: the tar.
        published: its published hash; None if that is not known.
        kind: the word for an item in messages, in the singular.
        ids: the ids of the cuts.
        cuts: the name of the file of the cuts.
        report: counts the items, and gets the problems.
    """
    count, aligned = 0, True
    for pair in read_pairs(tar, where, published, report.problems):
        has_cut = count < len(ids)
        if has_cut and aligned and pair.cut_id != ids[count]:
            aligned = False  # later items are not aligned either
            report.problems.append(f"{where}: {kind} {count + 1} is {pair.name}, but cut {count + 1} is {ids[count]}")
        yield pair, count if has_cut and aligned else None
        count += 1
    if count != len(ids):
        report.problems.append(f"{where}: {count} {kind}s, but {cuts} has {len(ids)} cuts")
    report.num_members += count


def repeated(hashes: Iterable[Hashes]) -> Hashes:
    """Return the hashes that occur more than once; a hash that occurs n times is returned n - 1 times."""
    in_order = np.sort(np.concatenate([np.empty(0, np.uint64), *hashes]))
    found: Hashes = in_order[1:][in_order[1:] == in_order[:-1]]
    return found


def line_hash(line: bytes) -> int:
    """A 64-bit hash of a line, for comparing sets of lines without keeping them."""
    return int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "little")
