"""Checks of exports to other toolkits: the parts of each kind, and what concerns all of its parts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prepcli.audio.past_crashes import map_refusing_crashes
from prepcli.commands.verify import mels, parquet, wenet
from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.shards import Hashed, add_shard
from prepcli.formats.sets import StoredSet
from prepcli.processes.pools import map_in_order

_Parts = tuple[Sequence[Any], list[str]]
_CHECKS: dict[str, tuple[Callable[[Any, Hashed], _Parts], Callable[[Any], Any]]] = {
    "wenet": (wenet.find_parts, wenet.check_part),
    "mels": (mels.find_lists, mels.check_list),
    "parquet": (parquet.find_files, parquet.check_file),
}
"""By kind: what gives the parts, and what is wrong with their names; and what checks a part, in a worker process."""


def verify_export(one: StoredSet, sha256: Hashed, num_workers: int, report: VerifyReport) -> None:
    """Check each part of an export, and that their ids are unique."""
    report.kind = one.kind
    find, check = _CHECKS[one.kind]
    parts, problems = find(one, sha256)
    ids = [np.empty(0, np.uint64)]
    num_dropped = 0
    mapped = map_in_order if one.kind == "mels" else map_refusing_crashes  # mels need no decoder
    for part in mapped(check, parts, num_workers):
        ids.append(part.id_hashes)
        num_dropped += part.num_dropped
        add_shard(part, "", report)
    report.problems += problems
    in_order = np.sort(np.concatenate(ids))
    if num_repeated := int(np.count_nonzero(in_order[1:] == in_order[:-1])):
        report.problems.append(f"{num_repeated} records have the id of another record; ids must be unique")
    if num_dropped:
        report.notes.append(
            f"{num_dropped:,} records would be dropped by WeNet's default filter_conf (10 to 10,240 frames, 1 to "
            "200 characters)"
        )
