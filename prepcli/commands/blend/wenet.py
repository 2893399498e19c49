"""Sets for WeNet, and the list that mixes them.

WeNet reads one list. In each epoch it shuffles the lines and reads each of them once (wenet/dataset/datapipes.py), so
the lines of a set with a larger weight stand in the list several times.
"""

import contextlib
import heapq
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from prepcli.audio.probe import probe_bytes, probe_file
from prepcli.commands.blend.nodes import Node
from prepcli.commands.blend.reading import finished_reports
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.sets import WenetSet, sets_in
from prepcli.formats.tar import read_members
from prepcli.formats.wenet import AUDIO_FORMATS, LIST_NAME, RAW_LIST_NAME
from prepcli.processes.pools import map_in_order

_MAX_LINES = 10_000_000
"""A longer list is probably a mistake, unless those of the sets are that long already."""
_LINES_AT_ONCE = 1000
Size = tuple[int, float]
"""Number of utterances, and their seconds."""


def read_wenet_set(name: str, path: str, num_workers: int) -> Node:
    """A set for WeNet: the folder with its `shards.list` or `data.list`, or such a list.

    Its entry has `type` (the `data_type` of WeNet), `list` (the file), and `lines`, in which paths are absolute.

    Raises:
        UsageError: it has another form, is not finished, or cannot be read.
    """
    here = Path(path)
    listed = here
    if here.is_dir():
        found = next((one for one in sets_in(here) if isinstance(one, WenetSet)), None)
        if found is None:
            finished_reports(here)  # it may only be unfinished
            raise UsageError(
                f"{path} has neither {LIST_NAME} nor {RAW_LIST_NAME}: an OUT.list mixes sets for WeNet; for NeMo, "
                "write OUT.yaml"
            )
        listed = found.list
    lines = _lines(listed)
    is_raw = bool(lines) and lines[0].startswith("{")
    whole = _absolute_items(listed, lines) if is_raw else (_absolute_tar(listed, line) for line in lines)
    node = Node(name, {"type": "raw" if is_raw else "shard", "list": str(listed), "lines": list(whole)})
    folder = Path(os.path.abspath(listed)).parent
    reports = finished_reports(folder) if listed.name in (LIST_NAME, RAW_LIST_NAME) else []
    node.seconds = sum(report.seconds for report in reports)
    node.records = sum(report.records_out for report in reports)
    return node if node.records and node.seconds else _measured(node, num_workers)


def _measured(node: Node, num_workers: int) -> Node:
    """Read the headers of all audio, for a list without the report of a run."""
    lines = node.entry["lines"]
    if node.entry["type"] == "raw":
        parts = [lines[first : first + _LINES_AT_ONCE] for first in range(0, len(lines), _LINES_AT_ONCE)]
        sizes = list(map_in_order(_measure_items, parts, num_workers))
    else:
        sizes = list(map_in_order(_measure_tar, lines, num_workers))
    node.records, node.seconds = sum(records for records, _ in sizes), sum(seconds for _, seconds in sizes)
    return node


def count_lines(root: Node, by: str) -> list[int]:
    """The number of lines of each set in the list; of the set that is repeated least, each line is there once.

    The shares of the sets are those of the hours in an epoch, or with `by` records those of the utterances.

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
    """The share of each set in the utterances of an epoch."""
    leaves = [leaf for _, leaf, _ in root.leaves()]
    drawn = [count / len(leaf.entry["lines"]) * leaf.records for count, leaf in zip(counts, leaves, strict=True)]
    return [one / sum(drawn) for one in drawn]


def epoch_note(root: Node, counts: Sequence[int]) -> str:
    """The length of an epoch, and the sets that are in it more than once."""
    repeats = {
        name: count / len(leaf.entry["lines"]) for (name, leaf, _), count in zip(root.leaves(), counts, strict=True)
    }
    hours = sum(leaf.seconds * repeats[name] for name, leaf, _ in root.leaves()) / 3600
    repeated = [f"{name} {times:,.2f} times" for name, times in repeats.items() if times > 1]
    return f"an epoch of the list has {hours:,.2f} hours{', with ' if repeated else ''}{', '.join(repeated)}"


def mixed_list(root: Node, counts: Sequence[int]) -> bytes:
    """The lines of all sets, evenly mixed, so that WeNet reads them mixed without `list_shuffle`, too."""
    leaves = [leaf.entry["lines"] for _, leaf, _ in root.leaves()]
    queues = [_spread(number, lines, count) for number, (lines, count) in enumerate(zip(leaves, counts, strict=True))]
    content = "".join(f"{line}\n" for _, _, line in heapq.merge(*queues, key=lambda one: one[:2]))
    return content.encode("utf-8", "surrogateescape")


def _spread(number: int, lines: Sequence[str], count: int) -> Iterator[tuple[float, int, str]]:
    """`count` lines of a set, with their places in the list from 0 to 1; each line equally often, or once more."""
    rest = count % len(lines)
    for place in range(count):
        left = place - (count - rest)
        line = lines[place % len(lines) if left < 0 else left * len(lines) // rest]
        yield (place + 0.5) / count, number, line


def _lines(listed: Path) -> list[str]:
    """The lines that are not blank."""
    try:
        text = listed.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise UsageError(f"{listed} cannot be read: {error.strerror}") from None
    return [line for line in text.split("\n") if line.strip()]


def _absolute_tar(listed: Path, line: str) -> str:
    """The path of a shard from any folder; a set that was moved has it beside the list."""
    for path in (Path(line), listed.parent / Path(line).name):
        if path.is_file():
            return str(path.absolute())
    raise UsageError(f"{listed} names {line}, which is not there; run this in the folder in which you train")


def _absolute_items(listed: Path, lines: Sequence[str]) -> Iterator[str]:
    """The lines of a data list, with paths from any folder; only the first relative one is looked for."""
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
    """The utterances of a shard."""
    problems: list[str] = []
    records, seconds = 0, 0.0
    for member, data in read_members(Path(tar), tar, None, problems):
        if member.name.rpartition(".")[2] in AUDIO_FORMATS:
            with contextlib.suppress(RecordRejected):  # WeNet leaves out what it cannot read
                seconds += probe_bytes(data, member.name).duration
                records += 1
    if problems:
        raise UsageError(problems[0])
    return records, seconds


def _measure_items(lines: Sequence[str]) -> Size:
    """The utterances of lines of a data list."""
    records, seconds = 0, 0.0
    for item in map(json.loads, lines):
        with contextlib.suppress(RecordRejected):
            seconds += item["end"] - item.get("start", 0.0) if "end" in item else probe_file(item["wav"]).duration
            records += 1
    return records, seconds
