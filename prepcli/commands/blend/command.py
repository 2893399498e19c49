"""Runs `blend`: from its options to its report."""

import contextlib
import heapq
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from prepcli.audio.probe import probe
from prepcli.commands.blend.nodes import Node, entries_of, set_weights
from prepcli.commands.blend.options import Blend
from prepcli.commands.blend.reading import find, finished_reports, read_set, read_sets, refuse_missing_audio
from prepcli.engine.state.work_folder import refuse_state
from prepcli.engine.state.workspace import replaced_file
from prepcli.errors import RecordRejected, UsageError, cannot_write, option
from prepcli.formats.audio_names import WENET_FORMATS
from prepcli.formats.set_files import refuse_file_of_set
from prepcli.formats.sets import WenetSet, sets_in
from prepcli.formats.tar import read_members
from prepcli.formats.wenet import LIST_NAME, RAW_LIST_NAME
from prepcli.interface.calls import tell
from prepcli.interface.printing import aligned, as_text
from prepcli.manifest.seconds import notes_on_seconds
from prepcli.processes.pools import map_in_order
from prepcli.processes.workers import available_processors
from prepcli.storage.input_files import refuse_input_as_output
from prepcli.storage.paths import AnyPath


class BlendedSet(msgspec.Struct):
    """A data set in the blend, or a group of them.

    `weight`: its weight in its group; the weights of a group add up to 1. `share`: its share of the records that are
    drawn; for NeMo, the product of the weights of its levels. `share_of_hours`: its share of the hours that are drawn;
    NeMo draws record by record, so sets with long records give more hours. `seen_per_1000_hours`: how often each of its
    records is drawn in 1,000 hours; for a group, the mean.
    """

    name: str
    type: str
    hours: float
    records: int
    share: float
    share_of_hours: float
    seen_per_1000_hours: float
    weight: float


class BlendReport(msgspec.Struct):
    """The config that was written, its data sets, and the groups that they are in.

    `status`: done, dry_run or nothing_to_do (the file already had this content). `checked`: NeMo has read the config.
    """

    status: str
    out: str
    hours: float
    records: int
    sets: list[BlendedSet]
    checked: bool = False
    notes: list[str] = []
    groups: list[BlendedSet] = []

    def __str__(self) -> str:
        """The table that the command line prints; one line if there was nothing to do."""
        lines = list(self._lines())
        return as_text(lines[:1] if self.status == "nothing_to_do" else lines)

    def _lines(self) -> Iterator[str]:
        title = {
            "dry_run": f"blend: the plan of {self.out} (nothing is written)",
            "nothing_to_do": f"blend: nothing to do, {self.out} is complete",
        }
        yield title.get(self.status, f"blend: done, {self.out}")
        rows = [("set", "hours", "records", "weight", "draws", "of hours", "seen per 1,000 h")]
        for name, one in self._in_order():
            shares = f"{one.share:.2%}", f"{one.share_of_hours:.2%}", _number(one.seen_per_1000_hours)
            rows.append((name, f"{one.hours:,.2f}", f"{one.records:,}", f"{one.weight:.4g}", *shares))
        rows.append(("all", f"{self.hours:,.2f}", f"{self.records:,}", "", "100.00%", "100.00%", ""))
        yield from (f"  {line}" for line in aligned(rows))
        yield from (f"  note  {note}" for note in self.notes)

    def _in_order(self) -> Iterator[tuple[str, BlendedSet]]:
        """The data sets with their names; each group, named with a slash, precedes its first data set."""
        groups = {group.name: group for group in self.groups}
        for one in self.sets:
            parts = one.name.split("/")
            for depth in range(1, len(parts)):
                group = groups.pop("/".join(parts[:depth]), None)
                if group is not None:
                    yield f"{group.name}/", group
            yield one.name, one


def _number(value: float) -> str:
    return f"{value:,.1f}" if value >= 1 else f"{value:.3g}"


def blend(options: Blend) -> BlendReport:
    """Mix finished data sets in one input_cfg, or in one list for WeNet.

    Returns:
        The table of the data sets: hours, shares, and how often their records are seen.

    Raises:
        UsageError: a data set is not there or not finished, or options do not go together.

    Examples:
        >>> import prepcli
        >>> report = prepcli.blend(["a=manifest.json:0.7", "b=segments.json:0.3"], "mix.yaml", check=False)
        >>> [(one.name, one.records, one.share) for one in report.sets]
        [('a', 48, 0.7), ('b', 6, 0.3)]
    """
    is_for_wenet = options.out.suffix == ".list"
    if not is_for_wenet and options.out.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{options.out}: the config must be a file whose name ends in .yaml, or in .list for WeNet")
    if options.out.is_dir():
        raise UsageError(f"{options.out} is a folder; name the config to write")
    refuse_state(options.out)
    tags = options.tags()
    if is_for_wenet and tags:
        raise UsageError(f"a list for WeNet has no tags: leave out {option('--lang')} and {option('--tag')}")
    if is_for_wenet and options.keep:
        raise UsageError(f"{option('--keep')} reads NeMo manifests, which a list for WeNet does not have")
    num_workers = options.num_workers or available_processors()
    read = read_wenet_set if is_for_wenet else partial(read_set, keep=options.keep)
    root = read_sets(options.sets, lambda name, path: read(name, path, num_workers))
    depth = root.depth()
    temperatures = options.temperature or (1.0,)
    if len(temperatures) not in (1, depth):
        raise UsageError(
            f"{option('--temperature')} is given {len(temperatures)} times for {depth} levels; give one, or {depth}"
        )
    notes = list(dict.fromkeys(set_weights(root, temperatures, options.by)))
    for name, field, value in tags:
        node = find(root, name)
        for target in [node] if name else node.children:
            target.tags[field] = value
    notes += [
        f"{name}: {note}"
        for name, leaf, _ in root.leaves()
        for note in (*leaf.notes, *notes_on_seconds(leaf.seconds / leaf.records))
    ]
    inputs = [one.partition("=")[2] for one in options.sets]
    inputs += [path.rpartition(":")[0] for path in inputs]
    if is_for_wenet:
        counts = count_lines(root, options.by)
        report = _report(options, root, draws_of(root, counts), [*notes, epoch_note(root, counts)])
        inputs += [leaf.entry["list"] for _, leaf, _ in root.leaves()]
        report.status = _write(options, mixed_list(root, counts), inputs)
        return report
    if len({leaf.is_tarred for _, leaf, _ in root.leaves()}) > 1:
        notes.append(
            "plain manifests are mixed with tarred or Shar sets: NeMo needs force_iterable_dataset: true in the "
            "config, or turn them into tarred sets with manifest-to-tarred"
        )
    report = _report(options, root, [share for _, _, share in root.leaves()], notes)
    if options.check:
        for name, leaf, _ in root.leaves():
            refuse_missing_audio(name, leaf)
    report.status = _write(options, _yaml(report, entries_of(root)), inputs)
    if options.check and report.status == "done":
        _check(report, options.out)
    return report


def _report(options: Blend, root: Node, draws: Sequence[float], notes: list[str]) -> BlendReport:
    """The report with all rows of its table; `draws`: for each data set, its share of the utterances, from 0 to 1."""
    leaves = [(name, leaf) for name, leaf, _ in root.leaves()]
    hours = [share * leaf.seconds / leaf.records for (_, leaf), share in zip(leaves, draws, strict=True)]
    sets = [
        _row(name, leaf, share, of_hours / sum(hours))
        for (name, leaf), share, of_hours in zip(leaves, draws, hours, strict=True)
    ]
    groups = []
    for name, group, _ in root.below():
        if group.children:
            within = [one for one in sets if one.name.startswith(f"{name}/")]
            groups.append(
                _row(name, group, sum(one.share for one in within), sum(one.share_of_hours for one in within))
            )
    total = round(root.seconds / 3600, 4)
    return BlendReport("done", str(options.out), total, root.records, sets, notes=notes, groups=groups)


def _row(name: str, node: Node, share: float, of_hours: float) -> BlendedSet:
    hours = node.seconds / 3600
    shares = round(share, 6), round(of_hours, 6), 1000 * of_hours / hours
    return BlendedSet(name, node.entry["type"], round(hours, 4), node.records, *shares, round(node.weight, 6))


def _yaml(report: BlendReport, entries: list[dict[str, Any]]) -> bytes:
    import yaml

    lines = [f"# {line.strip()}" for line in str(report).splitlines()[1:]]
    head = ["# Made by prepcli blend; use it as `input_cfg` of train_ds.", *lines]
    body = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=10**6)
    return ("\n".join(head) + "\n" + body).encode()


def _write(options: Blend, content: bytes, inputs: Sequence[str]) -> str:
    """Write the output; returns the status of the report.

    Nothing is written in a dry run, or if the file exists with this content.

    Raises:
        UsageError: the file exists with another content, and `--overwrite` is not given; or it cannot be written.
    """
    out = options.out
    if options.dry_run:
        return "dry_run"
    if out.exists() and out.read_bytes() == content:
        return "nothing_to_do"
    refuse_input_as_output("OUT", out, lambda: inputs)
    refuse_file_of_set("OUT", out)
    if out.exists() and not options.overwrite:
        raise UsageError(
            f"{out} exists with another content; give another name, or {option('--overwrite')} to replace it"
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(out) as file:
            file.write(content)
    except OSError as error:
        raise cannot_write(error, f"cannot write {out}: {error.strerror or error}") from error
    return "done"


def _check(report: BlendReport, out: Path) -> None:
    """Have NeMo read the config, if it is installed."""
    if importlib.util.find_spec("nemo") and importlib.util.find_spec("lhotse"):
        from prepcli.models.nemo_input import open_input_cfg

        tell(f"blend: {out} is written; NeMo reads it once, to check it ({option('--no-check')} leaves this out)")
        open_input_cfg(out)
        report.checked = True


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
        found = next((one for one in sets_in(here) if isinstance(one, WenetSet)), None)
        if found is None:
            finished_reports(here)  # raises for an unfinished set, which has no list yet
            raise UsageError(
                f"{path} has neither {LIST_NAME} nor {RAW_LIST_NAME}: an OUT.list mixes sets for WeNet; for NeMo, "
                "write OUT.yaml"
            )
        listed = found.list
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
    return [one / sum(drawn) for one in drawn]


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
    content = "".join(f"{line}\n" for _, _, line in heapq.merge(*queues, key=lambda one: one[:2]))
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
