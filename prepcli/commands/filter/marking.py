"""Marks records in the manifests of a finished tarred set: `filter SET --skipme`.

A mark is the last field of its line, so removing it restores the line byte by byte. A manifest is written next to the
old one and renamed. The size and the hash of each manifest are in the markers of the runs that made the set. These
markers are updated too, so that `verify` and later runs of `manifest-to-tarred` still accept the manifest. Each step
may be repeated: after a kill, the same call continues.
"""

import contextlib
import fcntl
import filecmp
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from prepcli.commands.filter.planning import FilterSettings, plan_of
from prepcli.engine.publishing.hashes import hash_of
from prepcli.engine.publishing.output_files import HashedFile, PublishedFile
from prepcli.engine.publishing.publish import Marker, changing
from prepcli.engine.publishing.recorded import is_ours
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import temporary_workspace
from prepcli.engine.run.status import workspaces_of
from prepcli.engine.run.unfinished import refuse_unfinished
from prepcli.engine.state.work_folder import is_changing
from prepcli.engine.state.workspace import Workspace, flush_folders, read_document, write_json
from prepcli.errors import UsageError, naming, option
from prepcli.formats.folders import listing
from prepcli.formats.indexes import INDEX_SUFFIX, index_beside, make_index
from prepcli.formats.sets import open_set
from prepcli.formats.tarred import MARKS_FILE, WHOLE_MANIFEST, TarredSet
from prepcli.interface.calls import current_call
from prepcli.jobs.copied_lines import Lines
from prepcli.jobs.selection import (
    SelectionContents,
    SelectionPlan,
    Treatment,
    left_out,
    treatments_of,
)
from prepcli.manifest.scan import Range, blocks_of
from prepcli.storage.paths import AnyPath, relative

OWNER = "filter: "
"""The beginning of every `_skipme` that `filter` writes; a `_skipme` with another beginning is left as it is."""
_MARK = re.compile(rb',"_skipme":"%b(?:[^"\\\n]|\\.)*"(?=\}[ \t\r]*$)' % OWNER.encode(), re.MULTILINE)
_END = re.compile(rb"\}[ \t\r]*\Z")
Reasons = dict[bytes, list[str | None]]
"""The texts of the marks by the hash of the line (`_key`): one for all equal lines, or one for each of them in their
order, None for a line without a mark (`--unique` keeps the first of equal lines)."""


def treatment_of(contents: SelectionContents, verdict: int, marks: bool) -> Treatment:
    """The treatment of records whose verdict has the bits `verdict`, one bit per rule that drops them.

    Records without such a bit are written; others are left out or, with `marks`, marked.
    """
    why = "; ".join(one["rule"] for bit, one in enumerate(contents.facts["rules"]) if verdict >> bit & 1)
    if why and not marks:
        return left_out(why)
    return Treatment(0, changes={"_skipme": f"{OWNER}{why}"} if why else None)


def mark_records(path: str, wanted: FilterSettings, engine: RunOptions) -> Report:
    """Mark the records that rules drop, in the manifests of the finished tarred set in the folder `path`.

    Raises:
        UsageError: there is no such set, or the options are not for a set.
    """
    if not wanted.marks:
        raise UsageError(f"OUT.json is missing; without it, {option('--skipme')} marks records in a tarred set")
    if wanted.listed is not None or wanted.audio_base_dir is not None or engine.rank.world_size > 1:
        raise UsageError(
            f"marks in a tarred set are made by one rank, without {option('--drop-listed')} and "
            f"{option('--audio-base-dir')}"
        )
    folder = Path(path)
    tarred = set_to_mark(folder)
    with only_one(folder), temporary_workspace(folder) as workspace:
        manifests = list(without_marks(manifests_of(tarred), workspace.root))
        plan = plan_of(manifests, wanted, folder / folder.name, workspace, engine)
        facts = plan.contents.facts
        is_changed = not engine.dry_run and mark_set(tarred, reasons_of(plan, bool(wanted.unique)), facts)
    marked, of = facts["together"], facts["of"]
    rejects = Counter(problem.reason.value for problem in plan.contents.problems)
    return Report(
        current_call().command,
        "dry_run" if engine.dry_run else "done" if is_changed else "nothing_to_do",
        path,
        records_in=plan.records_in,
        records_out=plan.records_in - rejects.total(),
        rejects=rejects.total(),
        rejects_by_reason=dict(rejects),
        skipped=plan.num_skipped,
        seconds=round(of["hours"] * 3600, 3),
        notes=plan.notes,
        details={
            "marked": f"{marked['records']:,} records, {marked['hours']:,.2f} of {of['hours']:,.2f} hours",
            **facts,
        },
    )


def set_to_mark(path: Path) -> TarredSet:
    """The finished tarred set in a folder.

    Raises:
        UsageError: the folder holds no complete tarred set with manifests, its run has not finished, or shards are
            being added to it.
    """
    one = open_set(path) if path.is_dir() else None
    if path.is_dir():
        refuse_unfinished(path)  # the shards that come later would have no marks
    if not isinstance(one, TarredSet):
        raise UsageError(f"{path} is not a folder with a tarred set; without one, give OUT.json, the manifest to write")
    one.check_parts()
    if any(is_changing(folder) for folder in (path, *(Path(str(part.folder)) for part in one.sets))):
        raise UsageError(f"{path} is being changed by manifest-to-tarred; complete that first: prepcli status {path}")
    if not manifests_of(one):
        raise UsageError(f"{path} has no manifests")
    return one


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Lock the set in `folder` within the context, because two calls would mix their marks.

    The lock ends with the process at the latest. A file system without locks is accepted.

    Raises:
        UsageError: another call is marking the set.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another prepcli filter is marking {folder}; let it finish") from None
        except OSError:
            pass  # the file system has no locks
        yield
    finally:
        os.close(handle)


def manifests_of(one: TarredSet) -> list[Path]:
    """The manifests of a set that together have each record once; with static buckets, the manifests of all buckets."""
    return [Path(name) for part in one.sets for name in part.record_files()]


def without_marks(paths: Iterable[Path], folder: Path) -> Iterator[str]:
    """Yield the path of each manifest, or of its copy without marks: if it has marks, a copy is written to `folder`."""
    for number, path in enumerate(paths):
        copy, is_marked = folder / f"{number}_{path.name}", False
        with copy.open("wb") as file:
            for block in blocks_of(Range(str(path), 0, None)):
                data, count = _MARK.subn(b"", block)
                is_marked |= bool(count)
                file.write(data)
        yield str(copy if is_marked else path)


def reasons_of(plan: SelectionPlan, has_unique: bool) -> Reasons:
    """The value of `_skipme`, which names the rules, for the lines that rules drop.

    `has_unique`: whether equal lines may be treated differently; then the lines are read twice.
    """
    marked: Reasons = {key: [reason] for key, reason in _each_reason(plan) if reason is not None}
    if has_unique:
        for texts in marked.values():
            texts.clear()
        for key, reason in _each_reason(plan):
            if key in marked:
                marked[key].append(reason)
    return marked


def _each_reason(plan: SelectionPlan) -> Iterator[tuple[bytes, str | None]]:
    """Yield the hash of each line, and the mark that it gets."""
    treatment = partial(treatment_of, marks=True)
    for unit in plan.units:
        lines = Lines(plan.contents.slices.block(unit))
        treatments, of_line = treatments_of(plan.contents, unit, lines, treatment, keeps_skipped=True)
        reasons = [None if one.changes is None else str(one.changes["_skipme"]) for one in treatments]
        for number, kind in enumerate(of_line.tolist()):
            yield _key(lines.at(number)), reasons[kind]


def mark_set(one: TarredSet, reasons: Reasons, facts: Mapping[str, Any]) -> bool:
    """Write the marks into all manifests of a set, also those of its earlier versions; returns whether one has changed.

    `facts`: the records and hours that rules drop; they are kept in OUT.prepcli as long as there are marks.

    Raises:
        UsageError: a manifest of the whole set, also of an earlier version, has other lines than those of its shards.
    """
    for part in one.sets if reasons else ():
        _check_wholes(part, reasons)
    folder = Path(str(one.folder))
    units, record = _units(folder), Workspace(folder).root / MARKS_FILE
    if reasons and record.parent.is_dir():
        write_json(record, facts)
    changed = False
    seen: Counter[bytes] = Counter()
    for part in one.sets:
        wholes = _wholes(part)
        seen_of_whole = {path: seen.copy() for path in wholes}
        for path in (*part.manifests.values(), *wholes):
            name = relative(path, folder)
            lines = _marked(str(path), reasons, seen_of_whole.get(path, seen))
            changed |= _rewrite(Path(str(path)), name, lines, units.get(name))
        if not part.manifests:
            seen = max(seen_of_whole.values(), key=Counter.total, default=seen)
    if not reasons:
        record.unlink(missing_ok=True)
    return changed


def _wholes(part: TarredSet) -> list[AnyPath]:
    """The manifests of the whole set: one for each of its versions."""
    return [part.folder / name for name in listing(part.folder).files if WHOLE_MANIFEST.fullmatch(name)]


def _check_wholes(part: TarredSet, reasons: Reasons) -> None:
    """Check that the manifests of the whole set have the lines that get marks, as often as those of the shards.

    That of an earlier version has the first of these lines.
    """
    sums = {path: max(_sums([str(path)], reasons)) for path in _wholes(part)}
    newest = sums.pop(part.whole, None)
    earlier = {state: path for path, state in sums.items()}
    state = (0, 0)
    for state in _sums(part.record_files(), reasons):
        earlier.pop(state, None)
    unlike = [*earlier.values(), *([part.whole] if newest not in (None, state) else [])]
    if unlike:
        raise UsageError(
            f"{unlike[0]} has other lines than the manifests of its shards, so the marks would be missing in it, and "
            "NeMo reads either; make it again of all their lines, one shard after the other, or remove it"
        )


def _sums(paths: Iterable[str], reasons: Reasons) -> Iterator[tuple[int, int]]:
    """Yield the number of lines so far, and the sum of the hashes of those that get marks: at the start and after each.

    Equal sums stand for equal lines in any order, and no line is kept.
    """
    count = total = 0
    yield count, total
    for path in paths:
        for line in _bare_lines(path):
            if line.strip():
                count, key = count + 1, _key(line)
                total += int.from_bytes(key, "big") if key in reasons else 0
                yield count, total


def _bare_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a manifest without marks of `filter`."""
    for block in blocks_of(Range(path, 0, None)):
        yield from _MARK.sub(b"", block).split(b"\n")


def _key(line: bytes) -> bytes:
    return blake2b(line.rstrip(), digest_size=16).digest()


def _marked(path: str, reasons: Reasons, seen: Counter[bytes]) -> Iterator[bytes]:
    """Yield the lines of a manifest, in blocks, with the marks in `reasons`, and without earlier marks of `filter`.

    `seen`: how often each line with a mark has occurred in the manifests before; it counts on.
    """
    for block in blocks_of(Range(path, 0, None)):
        data = _MARK.sub(b"", block)
        if not reasons:
            yield data
            continue
        lines = data.split(b"\n")
        for number, line in enumerate(lines):
            key = _key(line)
            texts = reasons.get(key)
            if texts is None:
                continue
            reason = texts[min(seen[key], len(texts) - 1)]
            seen[key] += 1
            if reason is not None and (end := _END.search(line)):
                text = msgspec.json.encode(reason)
                lines[number] = b'%b,"_skipme":%b%b' % (line[: end.start()], text, line[end.start() :])
        yield b"\n".join(lines)


class _Unit(NamedTuple):
    """A unit whose files are published.

    `workspace`: the workspace of the run that made it; `name`: the name of the unit.
    """

    workspace: Workspace
    name: str

    def marker(self) -> Marker | None:
        """The document in which the unit has recorded its files."""
        return read_document(self.workspace.marker_file(self.name), Marker)


def _units(folder: Path) -> dict[str, _Unit]:
    """The unit that made each published file of a set, by the name of the file relative to `folder`."""
    units: dict[str, _Unit] = {}
    for workspace in workspaces_of(folder):
        for path in workspace.marker_files():
            marker = read_document(path, Marker)
            if marker is not None:
                units.update(dict.fromkeys(marker.files, _Unit(workspace, marker.unit)))
    return units


def _rewrite(path: Path, name: str, lines: Iterator[bytes], unit: _Unit | None) -> bool:
    """Replace a manifest and its index, and update the sizes and hashes of both files in the marker of their unit.

    Before the new files appear, a note is written with their sizes and hashes. With the note, later runs recognize the
    files as files of prepcli even if the process is killed before it has written the marker. The old index is moved
    away before the manifest is replaced, because readers do not notice that an index is stale.

    Args:
        path: the manifest.
        name: its path relative to the folder of the set.
        lines: its new content, in blocks.
        unit: the unit that has published it; None if it was not published by a run of prepcli.

    Returns:
        Whether the manifest has changed.

    Raises:
        UsageError: the manifest is write-protected.
    """
    state, index = path.stat(), Path(str(index_beside(path)))
    if not state.st_mode & 0o222:
        raise UsageError(f"{path} is write-protected, and the marks would be written into it")
    marker = unit.marker() if unit is not None else None
    if marker is not None and not is_ours(path, [marker.files[name], *marker.earlier.get(name, ())]):
        marker = None
    drafts = {path: HashedFile(_draft(path), path)}
    try:
        with naming(path):
            for data in lines:
                drafts[path].write(data)
        files = {name: drafts[path].close()}
        shutil.copymode(path, _draft(path))
        if index.exists() or _old(index).exists():
            drafts[index] = HashedFile(_draft(index), index)
            with naming(path):
                drafts[index].write(make_index(_draft(path), "jsonl"))
            files[f"{name}{INDEX_SUFFIX}"] = drafts[index].close()
        with naming(path):
            is_same = {one: one.exists() and filecmp.cmp(one, _draft(one), shallow=False) for one in drafts}
        if all(is_same.values()) and (marker is None or not hash_of(path, marker.files[name].hash).differs):
            _old(index).unlink(missing_ok=True)  # of an earlier call that could not remove it
            return False
        known = marker.files if marker is not None else {}
        with _recorded(unit, marker, {one: file for one, file in files.items() if one in known}):
            if index.exists():
                os.replace(index, _old(index))
            for draft in drafts.values():
                draft.publish()
            flush_folders([path.parent])
        _old(index).unlink(missing_ok=True)
        return not is_same[path]
    finally:
        for one, draft in drafts.items():
            draft.discard()
            _draft(one).unlink(missing_ok=True)


@contextlib.contextmanager
def _recorded(unit: _Unit | None, marker: Marker | None, files: Mapping[str, PublishedFile]) -> Iterator[None]:
    """Record in the document of a unit that its files are replaced within the context; `files`: their new records."""
    if unit is None or marker is None:
        yield
        return
    with changing(unit.workspace, marker, files):
        yield


def _draft(path: Path) -> Path:
    """The path under which the new content of a file is written; a draft of a killed call is replaced."""
    return path.with_name(f".{path.name}~new")


def _old(index: Path) -> Path:
    return index.with_name(f".{index.name}~old")
