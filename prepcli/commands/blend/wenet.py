"""Reads sets for WeNet, and mixes their lists."""

import contextlib
import heapq
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from prepcli.audio.probe import probe
from prepcli.commands.blend.nodes import Node
from prepcli.commands.blend.reading import finished_reports
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.audio_names import WENET_FORMATS
from prepcli.formats.sets import sets_in
from prepcli.formats.tar import read_members
from prepcli.formats.wenet import LIST_NAME, RAW_LIST_NAME, WenetSet
from prepcli.processes.pools import map_in_order
from prepcli.storage.paths import AnyPath

_MAX_LINES = 10_000_000
"""Maximum number of lines of a mixed list; twice the lines of all sets together are allowed even if that is more."""
_LINES_AT_ONCE = 1000
Size = tuple[int, float]
"""Number of utterances, and their duration in seconds."""


def read_wenet_set(name: str, path: str, num_workers: int) -> Node:
    """Read a set for WeNet; `path` is a folder with `shards.list` or `data.list`, or one of these lists.

    The node's entry has `type` (the `data_type` of WeNet), `list` (the file), and `lines`, with absolute paths.

    Raises:
        UsageError: `path` is not a set for WeNet, is not finished, or cannot be read.
    """
    here = Path(path)
    listed: AnyPath = here
    if here.is_dir():
        wenet = next((stored for stored in sets_in(here) if isinstance(stored, WenetSet)), None)
        if wenet is None:
            finished_reports(here)  # raises for an unfinished set, which has no list yet
            raise UsageError(
                f"{path} has neither {LIST_NAME} nor {RAW_LIST_NAME}: an OUT.list mixes sets for WeNet; for NeMo, "
                "write OUT.yaml"
            )
        listed = wenet.list
    lines = _lines(listed)
    is_raw = bool(lines) and lines[0].startswith("{")
    whole = _absolute_items(listed, lines) if is_raw else (_absolute_tar(listed, line) for line in lines)
    node = Node(name, {"type": "raw" if is_raw else "shard", "list": str(listed), "lines": list(whole)})
    folder = Path(os.path.abspath(str(listed))).parent
    reports = finished_reports(folder) if listed.name in (LIST_NAME, RAW_LIST_NAME) else []
    node.seconds = sum(report.seconds for report in reports)
    node.records = sum(report.records_out for report in reports)
    return node if node.records and node.seconds else _measured(node, num_workers)


def _measured(node: Node, num_workers: int) -> Node:
    """Set the seconds and records of a node whose set has no report; reads the headers of all audio in its list."""
    lines = node.entry["lines"]
    if node.entry["type"] == "raw":
        parts = [lines[first : first + _LINES_AT_ONCE] for first in range(0, len(lines), _LINES_AT_ONCE)]
        sizes = list(map_in_order(_measure_items, parts, num_workers))
    else:
        sizes = list(map_in_order(_measure_tar, lines, num_workers))
    node.records, node.seconds = sum(records for records, _ in sizes), sum(seconds for _, seconds in sizes)
    return node


def count_lines(root: Node, by: str) -> list[int]:
    """The number of lines of each set in the mixed list; the set that is repeated least has each of its lines once.

    In each epoch, WeNet reads each line of its list once (wenet/dataset/datapipes.py), so a set with a larger weight
    has its lines in the list several times. The share of a set is its share of the hours in an epoch or, if `by` is
    `records`, of the utterances.

    Raises:
        UsageError: not all sets are of one `data_type`, or the list would be too long.
    """
    leaves = list(root.leaves())
    types = {leaf.entry["type"]: name for name, leaf, _ in leaves}
    if len(types) > 1:
        raise UsageError(
            f"{types['shard']} has shards and {types['raw']} a data list: WeNet reads one data_type at a time"
        )
    repeats = [share / (leaf.seconds if by == "hours" else leaf.records) for _, leaf, share in leaves]
    sizes = [len(leaf.entry["lines"]) for _, leaf, _ in leaves]
    counts = [round(times / min(repeats) * size) for times, size in zip(repeats, sizes, strict=True)]
    if sum(counts) > max(_MAX_LINES, 2 * sum(sizes)):
        name = leaves[repeats.index(max(repeats))][0]
        raise UsageError(
            f"the list would have {sum(counts):,} lines, because {name} is repeated {max(repeats) / min(repeats):,.0f} "
            "times; give it a smaller weight"
        )
    return counts


def draws_of(root: Node, counts: Sequence[int]) -> list[float]:
    """The share of each set in the utterances of an epoch, from 0 to 1.

    `counts`: for each set, the number of its lines in the mixed list.
    """
    leaves = [leaf for _, leaf, _ in root.leaves()]
    drawn = [count / len(leaf.entry["lines"]) * leaf.records for count, leaf in zip(counts, leaves, strict=True)]
    return [count / sum(drawn) for count in drawn]


def epoch_note(root: Node, counts: Sequence[int]) -> str:
    """A note that names the hours of an epoch, and the sets that are in it more than once."""
    repeats = {
        name: count / len(leaf.entry["lines"]) for (name, leaf, _), count in zip(root.leaves(), counts, strict=True)
    }
    hours = sum(leaf.seconds * repeats[name] for name, leaf, _ in root.leaves()) / 3600
    repeated = [f"{name} {times:,.2f} times" for name, times in repeats.items() if times > 1]
    return f"an epoch of the list has {hours:,.2f} hours{', with ' if repeated else ''}{', '.join(repeated)}"


def mixed_list(root: Node, counts: Sequence[int]) -> bytes:
    """The lines of all sets, evenly mixed, so that WeNet reads them mixed even without `list_shuffle`."""
    leaves = [leaf.entry["lines"] for _, leaf, _ in root.leaves()]
    queues = [_spread(number, lines, count) for number, (lines, count) in enumerate(zip(leaves, counts, strict=True))]
    content = "".join(f"{line}\n" for _, _, line in heapq.merge(*queues, key=lambda entry: entry[:2]))
    return content.encode("utf-8", "surrogateescape")


def _spread(number: int, lines: Sequence[str], count: int) -> Iterator[tuple[float, int, str]]:
    """Yield `count` lines of set `number`: (place in the list from 0 to 1, `number`, line).

    If the set has fewer than `count` lines, its lines are repeated; some occur once more often than others.
    """
    rest = count % len(lines)
    for place in range(count):
        left = place - (count - rest)
        line = lines[place % len(lines) if left < 0 else left * len(lines) // rest]
        yield (place + 0.5) / count, number, line


def _lines(listed: AnyPath) -> list[str]:
    """The lines of a list that are not blank; raises `UsageError` if the list cannot be read."""
    try:
        text = listed.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise UsageError(f"{listed} cannot be read: {error.strerror}") from None
    return [line for line in text.split("\n") if line.strip()]


def _absolute_tar(listed: AnyPath, line: str) -> str:
    """The absolute path of a shard that a line of the list `listed` names.

    If the named path does not exist, the shard is looked for in the folder of the list.

    Raises:
        UsageError: the shard is in neither place.
    """
    for path in (Path(line), listed.parent / Path(line).name):
        if path.is_file():
            return str(path.absolute())
    raise UsageError(f"{listed} names {line}, which is not there; run this in the folder in which you train")


def _absolute_items(listed: AnyPath, lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a data list with absolute paths.

    Raises:
        UsageError: a line is not valid, or the first relative path does not exist; further ones are not checked.
    """
    is_checked = False
    for number, line in enumerate(lines, start=1):
        try:
            item = json.loads(line)
            path = item["wav"]
            is_absolute = os.path.isabs(path)
        except (ValueError, TypeError, KeyError):
            raise UsageError(f"{listed}:{number} is not a line of a data list with key, wav and txt") from None
        if not (is_absolute or is_checked or os.path.exists(path)):
            raise UsageError(f"{listed} names {path}, which is not there; run this in the folder in which you train")
        is_checked |= not is_absolute
        yield line if is_absolute else json.dumps(item | {"wav": os.path.abspath(path)}, ensure_ascii=False)


def _measure_tar(tar: str) -> Size:
    """The number of the utterances in a shard, and their duration."""
    problems: list[str] = []
    records, seconds = 0, 0.0
    for member, data in read_members(Path(tar), tar, None, problems):
        if member.name.rpartition(".")[2] in WENET_FORMATS:
            with contextlib.suppress(RecordRejected):  # WeNet leaves out utterances that it cannot read
                seconds += probe(data, member.name).duration
                records += 1
    if problems:
        raise UsageError(problems[0])
    return records, seconds


def _measure_items(lines: Sequence[str]) -> Size:
    """The number of the utterances in lines of a data list, and their duration."""
    records, seconds = 0, 0.0
    for item in map(json.loads, lines):
        with contextlib.suppress(RecordRejected):
            seconds += item["end"] - item.get("start", 0.0) if "end" in item else probe(item["wav"]).duration
            records += 1
    return records, seconds
