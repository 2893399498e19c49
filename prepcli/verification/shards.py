"""What the checks of all kinds of sets share: the published hashes, a bar, and adding up what a shard holds."""

import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from tqdm import tqdm

from prepcli.interface.calls import shows_progress
from prepcli.verification.report import VerifyReport
from prepcli.verification.tarred import ShardReport

Report = TypeVar("Report")

Hashed = Callable[[str], str | None]
"""Returns the SHA-256 of a file below OUT as published, or None; the caller compares it."""


def with_bar(results: Iterable[Report], total: int) -> Iterable[Report]:
    """The reports of shards, with a progress bar on a terminal."""
    return tqdm(results, total=total, unit=" shards", desc="verify", disable=not _shows_bar())


def _shows_bar() -> bool:
    return shows_progress() and sys.stderr.isatty()


def add_shard(shard: ShardReport, prefix: str, report: VerifyReport) -> None:
    """Add what a shard holds, and its problems, to the report; `prefix` is the folder of the set in OUT."""
    report.shards += 1
    report.members += shard.num_members
    report.records += shard.num_lines
    report.seconds += shard.seconds
    report.problems += [prefix + problem for problem in shard.problems]
