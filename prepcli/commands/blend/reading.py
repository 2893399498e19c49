"""Reads `NAME=SET[:WEIGHT]` arguments into entries of an `input_cfg` with their hours."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from prepcli.audio.seconds import seconds_of
from prepcli.commands.blend.nodes import Node
from prepcli.engine.publishing.publish import read_marker
from prepcli.engine.run.report import Report
from prepcli.engine.run.unfinished import refuse_unfinished_run
from prepcli.engine.state.plan import FINISH_UNIT
from prepcli.engine.state.work_folder import version_roots
from prepcli.engine.state.workspace import Workspace, read_document, workspace_of
from prepcli.errors import UsageError, option
from prepcli.formats.folders import advice_on_audio
from prepcli.formats.names import check_loadable
from prepcli.formats.sets import open_set
from prepcli.formats.shar import is_for_magpie
from prepcli.formats.stored_set import StoredSet
from prepcli.formats.tarred import MARKS_FILE
from prepcli.interface.calls import tell
from prepcli.interface.printing import number_of
from prepcli.manifest.datasets import DataSet, EntrySettings, Mix, parse_paths
from prepcli.manifest.durations import read_input
from prepcli.manifest.input_cfg import AUDIO_TYPES, config_entries, in_file, parse_input_cfg
from prepcli.manifest.loader_keys import INHERITED_KEYS
from prepcli.manifest.sources import refuse_if_nemo_differs

_NAME = re.compile(r"[^\s=:/]+(/[^\s=:/]+)*")


def read_sets(sets: Sequence[str], read: Callable[[str, str], Node]) -> Node:
    """Read all data sets, and return the root of the tree of groups and data sets.

    Args:
        sets: arguments of two forms: `NAME=SET[:WEIGHT]` adds a data set, `NAME=:WEIGHT` gives a weight to a group or
            to a part of a set, such as an entry of a config.
        read: a function that returns the node of a data set; its arguments are the name in the group, and the path.

    Raises:
        UsageError: an argument has another form, a name or weight contradicts an earlier one, or a set does not exist,
            is not finished, or has no records.
    """
    root = Node("", {})
    weights: dict[str, float] = {}
    for spec in sets:
        name, path, weight = _parse(spec)
        if weight is not None and weights.setdefault(name, weight) != weight:
            raise UsageError(f"{name} has two weights, {weights[name]:g} and {weight:g}; give one")
        if not path:
            continue
        group = root
        *groups, leaf = name.split("/")
        for part in groups:
            subgroup = next((child for child in group.children if child.name == part), None)
            if subgroup is None:
                subgroup = Node(part, {"type": "group"})
                group.children.append(subgroup)
            elif subgroup.entry != {"type": "group"}:
                raise UsageError(f"{part} is a data set and a group; give one of them another name")
            group = subgroup
        if any(child.name == leaf for child in group.children):
            raise UsageError(f"the name {name} stands for two data sets; give one of them another name")
        group.children.append(read(leaf, path))
    for name, weight in weights.items():
        node = find(root, name)
        node.given, node.by_user = weight, True
    root.total()
    for name, leaf_node, _ in root.leaves():
        if not leaf_node.records:
            raise UsageError(f"{name} has no records")
    _refuse_two_loaders(root)
    return root


def _refuse_two_loaders(root: Node) -> None:
    """Refuse a Shar that only Magpie-TTS reads, mixed with sets that Magpie-TTS does not read."""
    of_magpie = {name: is_for_magpie(node.entry.get("shar_path")) for name, node, _ in root.leaves()}
    if len({*of_magpie.values()}) > 1:
        name = next(name for name, is_one in of_magpie.items() if is_one)
        other = next(name for name, is_one in of_magpie.items() if not is_one)
        raise UsageError(
            f"no loader reads both {name} and {other}: the Shar {name} has the audio of its cuts in target_audio, for "
            f"Magpie-TTS alone; make it with prepcli manifest-to-shar {option('--audio-field', 'recording')}"
        )


def find(root: Node, name: str) -> Node:
    """The data set or group with a name; "" is the root.

    Raises:
        UsageError: no set and no group has this name.
    """
    node = root
    for part in name.split("/") if name else ():
        match = next((child for child in node.children if child.name == part), None)
        if match is None:
            raise UsageError(f"there is no set or group {name}")
        node = match
    return node


def _parse(text: str) -> tuple[str, str, float | None]:
    """The name, the path of the set ("" if only a weight is given), and the weight (None if only a path is given)."""
    name, equals, path = text.partition("=")
    if not equals or not _NAME.fullmatch(name) or not path:
        raise UsageError(f"{text}: give NAME=SET or NAME=SET:WEIGHT, such as en/books=books.json:0.7, or GROUP=:WEIGHT")
    if os.path.exists(path):
        return name, path, None
    path, colon, weight = path.rpartition(":")
    try:
        number = float(weight)
    except ValueError:
        number = 0.0
    if not colon or (path and not os.path.exists(path)):
        shown = path if colon and number else text.partition("=")[2]
        raise UsageError(f"{name}: there is no file or directory {shown}")
    if not 0 < number < float("inf"):
        raise UsageError(f"{name}: the weight must be a number above 0, not {weight or 'nothing'}")
    return name, path, number


def read_set(name: str, path: str, num_workers: int, keep: Sequence[str] = ()) -> Node:
    """Read a data set for NeMo as a node with hours and records; `keep`: expressions that select the counted records.

    Raises:
        UsageError: `path` is not a set for NeMo, is not finished, or cannot be read.
    """
    here = Path(path)
    if path.endswith((".yaml", ".yml")):
        group = Node(name, {"type": "group"})
        group.children = [_config_entry(*entry, num_workers, keep) for entry in _entries(path, ())]
        return group
    reports = finished_reports(here)  # first, because tars of an unfinished run may be missing
    if here.is_dir():
        stored = open_set(here)
        if stored is not None and stored.parts and not stored.shards:
            stored.check_parts()
            check_loadable(here)
            group = Node(name, {"type": "group"})
            sets = [Node(bucket.folder.name, _entry(bucket), is_tarred=True) for bucket in stored.parts.values()]
            group.children = [_measured(node, num_workers, keep) for node in sets]
            return group
        if stored is None or not stored.is_for_nemo:
            advice = advice_on_audio(here) or "; to mix sets for WeNet, write OUT.list"
            raise UsageError(
                f"{path} holds neither a tarred set (audio_0.tar, ...) nor Shar (cuts/cuts.*) nor Parquet files{advice}"
            )
        node = Node(name, _entry(stored), is_tarred=True)
        check_loadable(here)
    elif path.endswith(".parquet"):
        node = Node(name, {"type": "parquet", "manifest_filepath": str(here.absolute())}, is_tarred=True)
    else:
        data = parse_paths({"manifest_filepath": path})
        is_cuts = isinstance(data, DataSet) and data.cuts
        kind, key = ("lhotse", "cuts_path") if is_cuts else ("nemo", "manifest_filepath")
        node = Node(name, {"type": kind, key: str(here.absolute())}, is_tarred=False)
        _refuse_if_nemo_differs(node.entry)
    node.seconds = sum(report.seconds for report in reports)
    node.records = sum(report.records_out for report in reports)
    return node if node.records and node.seconds and not keep else _measured(node, num_workers, keep)


def _entry(stored: StoredSet) -> dict[str, Any]:
    """The `input_cfg` entry of a set; it names no codes if the set has codes of several codecs.

    Raises:
        UsageError: the numbers of the shards have gaps, so that NeMo cannot load the set, or a tarred set has no tars.
    """
    stored.check_loadable()
    entry = stored.entry()
    assert entry is not None
    for name in stored.ambiguous_fields:
        entry["shar_path"].pop(name, None)
    return entry


def _entries(value: Any, seen: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any], str, tuple[str, ...]]]:
    """Yield the entries of an `input_cfg`: name, keys and values, type, and the chain of files that leads to the entry.

    NeMo passes some keys of a config to all of its entries (`INHERITED_KEYS`); these are copied into each entry. Other
    keys are left out, and a note names them for the training config.
    """
    for number, (entry, kind, within, notes) in enumerate(config_entries(value, AUDIO_TYPES, seen, EntrySettings())):
        loader = {key: value for key, value in vars(notes.loader).items() if value is not None}
        inherited = {key: getattr(notes, key) for key in INHERITED_KEYS if getattr(notes, key) is not None}
        handed_down = {key: loader.pop(key) for key in INHERITED_KEYS if key in loader} | inherited
        others = list(loader)
        if others and not number:
            tell(
                f"note: {within[-1]}: {', '.join(others)} are not part of the blend; put them into the training config"
            )
        yield f"entry{number}", handed_down | entry, kind, within


def _config_entry(
    name: str, entry: dict[str, Any], kind: str, seen: tuple[str, ...], num_workers: int, keep: Sequence[str]
) -> Node:
    node = Node(name, entry, given=entry.get("weight"))
    if kind != "group":
        _refuse_if_nemo_differs(entry)
        node.is_tarred = kind in ("nemo_tarred", "parquet") or entry.get("shar_path") is not None
        return _measured(node, num_workers, keep)
    if entry.get("reweight_temperature") is not None:
        raise UsageError(
            f"a group{in_file(seen)} has a reweight_temperature, with which NeMo would change the weights of the "
            f"table; take it out, and give {option('--temperature')}"
        )
    node.children = [_config_entry(*below, num_workers, keep) for below in _entries(entry.get("input_cfg"), seen)]
    return node


def _refuse_if_nemo_differs(entry: dict[str, Any]) -> None:
    """Raise `UsageError` if NeMo would read other files for an entry than `_measured`.

    NeMo expands the manifests of the types `nemo` and `nemo_tarred`, and each field of a Shar set that is one text.
    """
    manifests, fields = entry.get("manifest_filepath"), entry.get("shar_path")
    specs = manifests if isinstance(manifests, list) else [manifests]
    if entry["type"] == "parquet":
        specs = []
    if isinstance(fields, dict):
        specs = [fields.get("cuts")]
    for spec in specs:
        path = spec[0] if isinstance(spec, list) and spec else spec
        if isinstance(path, str):
            refuse_if_nemo_differs(path)


def finished_reports(path: Path) -> list[Report]:
    """The reports of the runs that made a set, with hours and records; empty if the reports cannot be used.

    They cannot be used if no run is known, if files have changed since, or if `filter --skipme` has marked records.

    Raises:
        UsageError: a run has not finished.
    """
    own = workspace_of(path)
    if not own.plan_file.is_file():
        return []
    versions = [Workspace(path, root) for root in version_roots(own.root)]
    runs = [own, *(version for version in versions if version.is_committed)]
    reports = []
    for workspace in runs:
        refuse_unfinished_run(workspace)
        report = read_document(workspace.report_file, Report)
        if report is None:
            return []
        reports.append(report)
        if len(runs) == 1 and read_marker(workspace, FINISH_UNIT, report.digest) is None:
            return []  # the files have changed since the run
    if (own.root / MARKS_FILE).is_file():
        return []  # trainers skip the marked records, which the reports count
    return reports


def _measured(node: Node, num_workers: int, keep: Sequence[str]) -> Node:
    """Set the seconds and records of a node from its manifests; `keep`: expressions that select the counted records."""
    data: DataSet | Mix = parse_input_cfg([{key: value for key, value in node.entry.items() if key != "weight"}])
    keeping = None
    if keep:
        from prepcli.commands.filter.keeping import Keeping  # imports the whole engine

        keeping = Keeping(keep)
    lengths = read_input(data, num_workers=num_workers, seconds_of=seconds_of, selection=keeping)
    if keeping is not None:
        node.notes.append(f"{keeping.note()}; all are in the set")
    node.seconds, node.records = float(lengths.seconds.sum()), len(lengths.seconds)
    if lengths.first_rejected:
        lines = number_of(lengths.num_rejected, "line")
        node.notes.append(f"{lines} cannot be used, and NeMo may stop there; the first is {lengths.first_rejected}")
    return node
