"""`blend` from its options to its report."""

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from prepcli.commands.blend.nodes import Node, entries_of, set_weights
from prepcli.commands.blend.options import Blend
from prepcli.commands.blend.reading import find, read_set, read_sets
from prepcli.commands.blend.wenet import count_lines, draws_of, epoch_note, mixed_list, read_wenet_set
from prepcli.engine.state.workspace import replaced_file
from prepcli.errors import UsageError, cannot_write
from prepcli.interface.calls import tell
from prepcli.interface.printing import as_text
from prepcli.manifest.seconds import notes_on_seconds
from prepcli.processes.workers import available_processors
from prepcli.storage.input_files import refuse_input_as_output


class BlendedSet(msgspec.Struct):
    """A data set in the blend, or a group of them.

    `weight` is its weight in its group, where all add up to 1. `share` is its part of all draws, the product of the
    weights of its levels, and `share_of_hours` its part of the hours drawn: NeMo draws record by record, so sets with
    long records give more hours. `seen_per_1000_hours` is how often each of its records comes in 1,000 hours drawn, of
    a group on average.
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

    `status`: done, dry_run or nothing_to_do (the file was there with this content). `checked`: NeMo has read it.
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
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            yield "  " + "  ".join([row[0].ljust(widths[0]), *numbers]).rstrip()
        yield from (f"  note  {note}" for note in self.notes)

    def _in_order(self) -> Iterator[tuple[str, BlendedSet]]:
        """The data sets, and each group before its first one, with a slash after its name."""
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

    Example:
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
    if any(not 0 <= one < float("inf") for one in options.temperature):
        raise UsageError("--temperature must be a number from 0 on")
    tags = options.tags()
    if is_for_wenet and tags:
        raise UsageError("a list for WeNet has no tags: leave out --lang and --tag")
    read, num_workers = read_wenet_set if is_for_wenet else read_set, options.num_workers or available_processors()
    root = read_sets(options.sets, lambda name, path: read(name, path, num_workers))
    depth = root.depth()
    temperatures = options.temperature or (1.0,)
    if len(temperatures) not in (1, depth):
        raise UsageError(f"--temperature is given {len(temperatures)} times for {depth} levels; give one, or {depth}")
    notes = list(dict.fromkeys(set_weights(root, temperatures, options.by)))
    for name, field, value in tags:
        node = find(root, name)
        for target in [node] if name else node.children:
            target.tags[field] = value
    notes += [
        f"{name}: {note}" for name, leaf, _ in root.leaves() for note in notes_on_seconds(leaf.seconds / leaf.records)
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
    report.status = _write(options, _yaml(report, entries_of(root)), inputs)
    if options.check and report.status == "done":
        _check(report, options.out)
    return report


def _report(options: Blend, root: Node, draws: Sequence[float], notes: list[str]) -> BlendReport:
    """The table; `draws` are the shares of the data sets in all draws."""
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
    """Write the output, unless it is there or only the plan is wanted; returns the status of the report."""
    out = options.out
    if options.dry_run:
        return "dry_run"
    if out.exists() and out.read_bytes() == content:
        return "nothing_to_do"
    refuse_input_as_output("OUT", out, lambda: inputs)
    if out.exists() and not options.overwrite:
        raise UsageError(f"{out} exists with another content; give another name, or --overwrite to replace it")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(out) as file:
            file.write(content)
    except OSError as error:  # which names the draft
        raise cannot_write(error, f"cannot write {out}: {error.strerror or error}") from error
    return "done"


def _check(report: BlendReport, out: Path) -> None:
    """Have NeMo read the config, if it is installed."""
    if importlib.util.find_spec("nemo") and importlib.util.find_spec("lhotse"):
        from prepcli.models.nemo_input import open_input_cfg

        tell(f"blend: {out} is written; NeMo reads it once, to check it (--no-check leaves this out)")
        open_input_cfg(out)
        report.checked = True
