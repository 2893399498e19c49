"""Shared by all checks: the check of a folder, the result for a part of a set, decoding of audio, repeated ids."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np

from prepcli.audio.check import check_decoded
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_bytes
from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.runs import PublishedRun, published_files
from prepcli.engine.publishing.hashes import OTHER_BYTES, ContentHash
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.engine.state.store_output import OutputFiles
from prepcli.errors import RecordRejected
from prepcli.gate import RATE_FIELDS, check_rate
from prepcli.interface.bars import with_bar
from prepcli.manifest.record import Record
from prepcli.planning.hashing import Hashes
from prepcli.processes.in_hand import take_in_hand
from prepcli.processes.pools import map_in_order
from prepcli.storage.paths import AnyPath

Part = TypeVar("Part")


class CheckedFile(NamedTuple):
    """A file to check, and its published hash (`ContentHash`) if that is known."""

    path: AnyPath
    published: str | None = None


@dataclass(slots=True)
class ShardReport:
    """The result for a shard or another part of a set: counts, seconds of audio, and problems.

    `lines_digest`: the sum of 64-bit hashes of the lines, equal for equal lines in any order. `id_hashes`: a 64-bit
    hash of each id. `num_dropped`: records that the reader drops silently. `num_outside`: supervisions whose span is
    not in their cut.
    """

    num_members: int = 0
    num_lines: int = 0
    seconds: float = 0.0
    lines_digest: int = 0
    num_dropped: int = 0
    num_outside: int = 0
    id_hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    problems: list[str] = field(default_factory=list)

    def count_ids(self, ids: Sequence[str]) -> None:
        """Set `num_lines` to the number of `ids`, and `id_hashes` to their hashes."""
        self.num_lines = len(ids)
        hashes = [line_hash(id.encode("utf-8", "surrogatepass")) for id in ids]
        self.id_hashes = np.array(hashes, np.uint64)

    def compare(self, where: str, content: ContentHash) -> None:
        """Add a problem if the hash of a file is not the published one."""
        if content.differs:
            self.problems.append(f"{where}: {OTHER_BYTES}")


@dataclass
class Verification:
    """The state of one check of `out`, which the checks of all its sets and manifests share.

    Attributes:
        out: the folder.
        runs: the runs that made its content.
        report: gets the counts and the problems.
        num_workers: maximum number of worker processes.
        audio_base_dir: the folder of relative audio paths in manifests; None for the default.
        published: the files that the runs have published, by name.
        coded: the folder of the Shar set from which codes were made; `out`, unless `out` holds only codes.
    """

    out: AnyPath
    runs: Sequence[PublishedRun]
    report: VerifyReport
    num_workers: int = 1
    audio_base_dir: AnyPath | None = None

    def __post_init__(self) -> None:
        self.published = published_files(self.runs, self.report)
        self.coded = self.out
        self.files = OutputFiles(self.out)
        self.is_finished = all(run.is_finished for run in self.runs)
        self.compared: set[str] = set()
        self.unknown: set[str] = set()  # files of another command, for example, whose OUT.prepcli was removed

    def file(self, name: str) -> CheckedFile:
        """A file below `out`. It counts as compared, so the caller must compare its bytes with the published hash."""
        self.compared.add(name)
        if name not in self.published and self.files.has(name):
            self.unknown.add(name)
        return CheckedFile(self.out / name, self.published[name].hash if name in self.published else None)

    def check(
        self, check: Callable[[Part], ShardReport], parts: Sequence[Part], prefix: str = "", *, decodes: bool = True
    ) -> Iterator[ShardReport]:
        """Yield the result of `check` for each of the parts, after adding its counts and problems to the report.

        `prefix`: the folder of the set in OUT, for its problems. `decodes`: whether `check` may crash a decoder.
        """
        results = (map_refusing_crashes if decodes else map_in_order)(check, parts, self.num_workers)
        report = self.report
        for shard in with_bar(results, len(parts), "verify", "shards"):
            report.shards += 1
            report.members += shard.num_members
            report.records += shard.num_lines
            report.seconds += shard.seconds
            report.problems += [prefix + problem for problem in shard.problems]
            yield shard


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


def repeated(hashes: Iterable[Hashes]) -> Hashes:
    """Return the hashes that occur more than once; a hash that occurs n times is returned n - 1 times."""
    in_order = np.sort(np.concatenate([np.empty(0, np.uint64), *hashes]))
    again: Hashes = in_order[1:][in_order[1:] == in_order[:-1]]
    return again


def line_hash(line: bytes) -> int:
    """A 64-bit hash of a line, for comparing sets of lines without keeping them."""
    return int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "little")
