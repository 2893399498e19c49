"""From `NAME=SET[:WEIGHT]` to what stands in an `input_cfg`, and the hours in it."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prepcli.blending.nodes import Node
from prepcli.display.printing import printable_command
from prepcli.engine.file_output import workspace_of
from prepcli.engine.plan import FINISH_UNIT, StoredPlan
from prepcli.engine.publish import read_marker
from prepcli.engine.report import Report
from prepcli.engine.status import Status, read_status, version_roots
from prepcli.engine.workspace import Workspace, read_document
from prepcli.errors import UsageError
from prepcli.formats.folders import numbered
from prepcli.formats.names import brace_text, check_loadable
from prepcli.formats.shar import AUDIO_FILE, CUTS_FILE
from prepcli.formats.tarred import (
    SHARD_MANIFEST_FILE,
    SHARD_MANIFEST_NAME,
    TAR_NAME,
    manifest_name,
    newest_version,
    tar_numbers,
)
from prepcli.manifest.datasets import DataSet, Mix, Notes, parse_paths
from prepcli.manifest.durations import read_input
from prepcli.manifest.input_cfg import TYPES, config_entries, parse_input_cfg

_NAME = re.compile(r"[^\s=:/]+(/[^\s=:/]+)*")
_BUCKET = re.compile(r"bucket(\d+)$")


def read_sets(sets: Sequence[str], num_workers: int) -> Node:
    """The tree of the data sets.

    Raises:
        UsageError: one has another form, is not there, is not finished, or has no records.
    """
    root = Node("", {})
    for one in sets:
        name, path, weight = _parse(one)
        group = root
        *groups, leaf = name.split("/")
        for part in groups:
            found = next((child for child in group.children if child.name == part), None)
            if found is None:
                found = Node(part, {"type": "group"})
                group.children.append(found)
            elif found.entry != {"type": "group"}:
                raise UsageError(f"{part} is a data set and a group; give one of them another name")
            group = found
        if any(child.name == leaf for child in group.children):
            raise UsageError(f"the name {name} stands for two data sets; give one of them another name")
        node = _read(leaf, path, num_workers)
        node.given = weight
        group.children.append(node)
    root.total()
    for name, leaf_node, _ in root.leaves():
        if not leaf_node.records:
            raise UsageError(f"{name} has no records")
    return root


def find(root: Node, name: str) -> Node:
    """The data set or group with a name; "" is the root.

    Raises:
        UsageError: there is none.
    """
    node = root
    for part in name.split("/") if name else ():
        found = next((child for child in node.children if child.name == part), None)
        if found is None:
            raise UsageError(f"there is no set or group {name}")
        node = found
    return node


def _parse(text: str) -> tuple[str, str, float | None]:
    name, equals, path = text.partition("=")
    if not equals or not _NAME.fullmatch(name) or not path:
        raise UsageError(f"{text}: give NAME=SET or NAME=SET:WEIGHT, such as en=english/ or en/books=books.json:0.7")
    if os.path.exists(path):
        return name, path, None
    path, colon, weight = path.rpartition(":")
    try:
        number = float(weight)
    except ValueError:
        number = 0.0
    if not colon or not os.path.exists(path):
        shown = path if colon and number else text.partition("=")[2]
        raise UsageError(f"{name}: there is no file or directory {shown}")
    if not 0 < number < float("inf"):
        raise UsageError(f"{name}: the weight must be a number above 0, not {weight}")
    return name, path, number


def _read(name: str, path: str, num_workers: int) -> Node:
    here = Path(path)
    if path.endswith((".yaml", ".yml")):
        return _read_config(name, path, (), num_workers)
    reports = _reports(here)  # first: of a run that has not ended, tars may be missing, or all of them
    if here.is_dir():
        if (here / "cuts").is_dir() and numbered(here / "cuts", CUTS_FILE):
            node = Node(name, {"type": "lhotse_shar", "shar_path": _shar_fields(here)}, is_tarred=True)
        elif tar_numbers(here):
            node = Node(name, _tarred_entry(here), is_tarred=True)
        elif buckets := sorted(here.glob("bucket*"), key=lambda one: int((_BUCKET.search(one.name) or [0, 0])[1])):
            group = Node(name, {"type": "group"})
            group.children = [_measured(Node(b.name, _tarred_entry(b), is_tarred=True), num_workers) for b in buckets]
            return group
        else:
            raise UsageError(f"{path} holds neither a tarred set (audio_0.tar, ...) nor Shar (cuts/cuts.*)")
        check_loadable(here)
    else:
        data = parse_paths({"manifest_filepath": path})
        is_cuts = isinstance(data, DataSet) and data.cuts
        entry = (
            {"type": "lhotse", "cuts_path": _absolute(here)}
            if is_cuts
            else {
                "type": "nemo",
                "manifest_filepath": _absolute(here),
            }
        )
        node = Node(name, entry, is_tarred=False)
    node.seconds = sum(report.seconds for report in reports)
    node.records = sum(report.records_out for report in reports)
    return node if node.records and node.seconds else _measured(node, num_workers)


def _tarred_entry(folder: Path) -> dict[str, Any]:
    numbers = tar_numbers(folder)
    if numbers != list(range(len(numbers))) or not numbers:
        raise UsageError(f"{folder}: its tars are not numbered from audio_0.tar without gaps; prepcli verify {folder}")
    shards = brace_text("0", str(len(numbers) - 1))
    has_manifests = len(numbered(folder / "sharded_manifests", SHARD_MANIFEST_FILE)) >= len(numbers)
    manifest = SHARD_MANIFEST_NAME.format(shards) if has_manifests else manifest_name(newest_version(folder))
    return {
        "type": "nemo_tarred",
        "manifest_filepath": _absolute(folder / manifest),
        "tarred_audio_filepaths": _absolute(folder / TAR_NAME.format(shards)),
    }


def _shar_fields(folder: Path) -> dict[str, str]:
    """Cuts and audio; and codec codes, if there are those of one codec."""
    numbers = sorted(numbered(folder / "cuts", CUTS_FILE))
    shards = brace_text(f"{numbers[0]:06d}", f"{numbers[-1]:06d}")
    suffix = numbered(folder / "cuts", CUTS_FILE)[numbers[0]].name.partition(".jsonl")[2]
    fields = {"cuts": _absolute(folder / f"cuts/cuts.{shards}.jsonl{suffix}")}
    for field in ("target_audio", "context_audio"):
        if numbered(folder / field, AUDIO_FILE):
            fields[field] = _absolute(folder / field / f"recording.{shards}.tar")
    codecs = sorted(folder.glob("codes_*"))
    for codes in sorted(codecs[0].iterdir()) if len(codecs) == 1 else ():
        fields[codes.name] = _absolute(codes / f"codes.{shards}.tar")
    return fields


def _read_config(name: str, path: str, seen: tuple[str, ...], num_workers: int) -> Node:
    """An `input_cfg` as a group; entries keep what they say, and their weights if they have some."""
    group = Node(name, {"type": "group"})
    for number, (entry, kind, within, _) in enumerate(config_entries(path, TYPES, seen, Notes())):
        group.children.append(_config_entry(f"entry{number}", entry, kind, within, num_workers))
    return group


def _config_entry(name: str, entry: dict[str, Any], kind: str, seen: tuple[str, ...], num_workers: int) -> Node:
    node = Node(name, entry, given=entry.get("weight"))
    if kind != "group":
        node.is_tarred = kind == "nemo_tarred" or entry.get("shar_path") is not None
        return _measured(node, num_workers)
    inner = entry.get("input_cfg")
    for number, (below, below_kind, within, _) in enumerate(config_entries(inner, TYPES, seen, Notes())):
        node.children.append(_config_entry(f"entry{number}", below, below_kind, within, num_workers))
    return node


def _reports(path: Path) -> list[Report]:
    """The reports of the runs that made a set, which have its hours and records; none if there are none that hold.

    Raises:
        UsageError: a run has not finished.
    """
    own = workspace_of(path)
    roots = [own.root, *version_roots(own.root)]
    if not own.plan_file.is_file():
        return []
    reports = []
    for root in roots:
        workspace = own if root == own.root else Workspace(path, root)
        plan, report = read_document(workspace.plan_file, StoredPlan), read_document(workspace.report_file, Report)
        if plan is None or report is None or report.digest != plan.digest:
            raise UsageError(f"{path} is not finished{'' if plan is None else _progress(read_status(workspace))}")
        reports.append(report)
        if root == own.root and len(roots) == 1 and read_marker(workspace, FINISH_UNIT, plan.digest) is None:
            return []  # its files are no longer those of the run
    return reports


def _progress(status: Status) -> str:
    """What to do about a run that has not ended."""
    if status.state in ("running", "finishing"):
        return f", its run goes on; wait for its end: prepcli status --watch {status.out}"
    command = printable_command(status.continue_with or "")
    return f": {status.units_done} of {status.units} units are done; continue with: {command}"


def _measured(node: Node, num_workers: int) -> Node:
    """Read the durations of all records."""
    data: DataSet | Mix = parse_input_cfg([{key: value for key, value in node.entry.items() if key != "weight"}])
    found = read_input(data, num_workers=num_workers)
    node.seconds, node.records = float(found.seconds.sum()), len(found.seconds)
    return node


def _absolute(path: Path) -> str:
    return str(path.absolute())
