"""Common parts of the checks of all kinds of sets: published hashes, and totals over shards."""

from collections.abc import Callable

from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.tarred import ShardReport

Hashed = Callable[[str], str | None]
"""Returns the published SHA-256 of a file below OUT, or None; the caller compares it."""


def add_shard(shard: ShardReport, prefix: str, report: VerifyReport) -> None:
    """Add the counts of a shard, and its problems, to the report; `prefix` is the folder of the set in OUT."""
    report.shards += 1
    report.members += shard.num_members
    report.records += shard.num_lines
    report.seconds += shard.seconds
    report.problems += [prefix + problem for problem in shard.problems]
