"""Checks of exports to other toolkits: which kind a directory holds, and what concerns all of its parts."""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prepcli.audio.past_crashes import map_refusing_crashes
from prepcli.commands.verify.export_parts import Hashed
from prepcli.commands.verify.tarred import ShardReport
from prepcli.formats.mels import LIST_FILE
from prepcli.formats.parquet import DATA_FILE
from prepcli.formats.wenet import LIST_NAME, RAW_LIST_NAME
from prepcli.processes.pools import map_in_order


class Export:
    """An export in a directory: what must be checked, and what was found beside the problems of its parts."""

    def __init__(
        self, kind: str, find: Callable[[Path, Hashed], tuple[Sequence[Any], list[str]]], check: Callable[[Any], Any]
    ) -> None:
        """`find` gives the parts and what is wrong with their names; `check`, a module-level function, checks one."""
        self.kind = kind
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._find = find
        self._check = check

    def check(self, out: Path, sha256: Hashed, num_workers: int) -> Iterator[ShardReport]:
        """Check each part; then `problems` and `notes` are complete."""
        parts, problems = self._find(out, sha256)
        self.problems += problems
        ids = [np.empty(0, np.uint64)]
        num_dropped = 0
        mapped = map_in_order if self.kind == "mels" else map_refusing_crashes  # mels need no decoder
        for report in mapped(self._check, parts, num_workers):
            ids.append(report.id_hashes)
            num_dropped += report.num_dropped
            yield report
        in_order = np.sort(np.concatenate(ids))
        if num_repeated := int(np.count_nonzero(in_order[1:] == in_order[:-1])):
            self.problems.append(f"{num_repeated} records have the id of another record; ids must be unique")
        if num_dropped:
            self.notes.append(
                f"{num_dropped:,} records would be dropped by WeNet's default filter_conf (10 to 10,240 frames, 1 to "
                "200 characters)"
            )


def find_export(out: Path, published: Collection[str]) -> Export | None:
    """The export in `out`, by the files that are there or should be; None where there is none."""
    names = {path.name for path in out.iterdir()} | {name.partition("/")[0] for name in published}
    if LIST_NAME in names:
        from prepcli.commands.verify import wenet

        return Export("wenet", wenet.find_shards, wenet.check_shard)
    if RAW_LIST_NAME in names:
        from prepcli.commands.verify import wenet

        return Export("wenet", wenet.find_lines, wenet.check_lines)
    lists = out / "filelists"
    if "filelists" in names and (not lists.is_dir() or any(map(LIST_FILE.match, map(_name, lists.iterdir())))):
        from prepcli.commands.verify import mels

        return Export("mels", mels.find_lists, mels.check_list)
    if any(map(DATA_FILE.match, names)):
        from prepcli.commands.verify import parquet

        return Export("parquet", parquet.find_files, parquet.check_file)
    return None


def _name(path: Path) -> str:
    return path.name
