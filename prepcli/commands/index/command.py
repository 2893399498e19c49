"""Runs `index`: from its options to its report."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from prepcli.commands.index.configs import expanded, sets_in_config
from prepcli.commands.index.options import Index
from prepcli.commands.index.rebase import old_places, rebase
from prepcli.commands.index.sets import DataFile, IndexedSet, Places, set_of_files, sets_in_folder
from prepcli.engine.run.report import format_bytes
from prepcli.engine.state.workspace import atomic_file, flush_folders
from prepcli.errors import InputChangedError, UsageError, cannot_write, option, same_command
from prepcli.formats.indexes import MIRROR, DamagedError, index_problem, is_current, make_index, tar_offsets
from prepcli.formats.names import absolute_folder
from prepcli.formats.set_files import refuse_file_of_set
from prepcli.formats.tar_walk import walk_tar
from prepcli.formats.tarred import member_of_line
from prepcli.formats.training_config import indexed_config
from prepcli.interface.bars import with_bar
from prepcli.interface.printing import as_text
from prepcli.manifest.sources import expand_paths
from prepcli.processes.owner import DELETE_SECONDS
from prepcli.processes.pools import map_in_order
from prepcli.processes.ranks import Rank, detect_rank
from prepcli.processes.workers import available_processors
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import is_address, names_several
from prepcli.storage.input_files import check_unchanged, state_of
from prepcli.storage.paths import AnyPath, StorePath, absolute, is_dir, path_of, sizes_of


class IndexReport(msgspec.Struct):
    """The result of one call of `index`.

    `status`: done, nothing_to_do, dry_run, ok (after --check), or broken (there are problems). `files`: number of data
    files of this rank. `records`: number of records in the indexes that were written or checked. `configs`: YAML to
    paste into a training config, one text for each set.
    """

    status: str = "done"
    sets: list[str] = []
    files: int = 0
    written: int = 0
    kept: int = 0
    renamed: int = 0
    records: int = 0
    num_bytes: int = 0
    problems: list[str] = []
    notes: list[str] = []
    configs: list[str] = []
    pack: str | None = None

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if there are problems."""
        return 1 if self.problems else 0

    def __str__(self) -> str:
        """The text that the command prints: the written indexes, each problem, and the YAML to paste."""
        return as_text(self._lines())

    def _lines(self) -> list[str]:
        names = ", ".join(self.sets[:3]) + (f", ... ({len(self.sets)} sets)" if len(self.sets) > 3 else "")
        title = {
            "dry_run": "the plan (nothing is written)",
            "nothing_to_do": "nothing to do",
            "ok": "all indexes fit their data",
            "broken": f"{len(self.problems)} problems",
        }.get(self.status, "done")
        lines = [f"index: {title}, {names}"]
        if self.status == "dry_run":
            verb = "to rename" if self.renamed else "to write"
            count = self.renamed or self.written
            lines.append(f"  indexes  {count:,} {verb}, {self.kept:,} kept")
            lines.append(f"  data     {format_bytes(self.num_bytes)}, of which line ends and tar headers are read")
        elif self.renamed:
            lines.append(f"  indexes  {self.renamed:,} renamed")
        elif self.status == "nothing_to_do":
            return lines
        elif self.status == "ok":
            lines.append(f"  indexes  {self.files:,} with {self.records:,} records")
        else:
            lines.append(f"  indexes  {self.written:,} written, {self.kept:,} kept")
            lines.append(f"  records  {self.records:,} in {format_bytes(self.num_bytes)}")
        if self.pack:
            lines.append(f"  pack     {self.pack}")
        lines += [f"  note     {note}" for note in self.notes]
        lines += [f"  PROBLEM  {problem}" for problem in self.problems]
        for config in self.configs if not self.problems else []:
            lines += ["  config_with_indexes", *(f"    {line}" for line in config.splitlines())]
        return lines


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for the index of one data file; `problem` is a message without the path of the data."""

    file: DataFile
    written: bool = False
    num_records: int = 0
    problem: str | None = None


def needs_index(file: DataFile) -> bool:
    """Whether the index of a data file is missing, older than the data, or made for data of another size.

    Raises:
        OSError: the data file does not exist.
    """
    return not is_current(file.index, file.path.stat())


def write_index(file: DataFile) -> Outcome:
    """Make the index of a file and publish it; a file that cannot be indexed gives an outcome with a problem."""
    try:
        before = state_of(file.path)
        content = make_index(file.path, file.kind)
        check_unchanged(file.path, before)
    except DamagedError as error:
        return Outcome(file, problem=f"has no index: {error}")
    except InputChangedError:
        return Outcome(file, problem=f"has no index: it was changed while it was read; run {same_command()} again")
    except OSError as error:
        return Outcome(file, problem=f"has no index: it cannot be read: {error.strerror or error}")
    _publish(file.index, content, before.mtime_ns)
    return Outcome(file, True, len(content) // 8 - 1)


def _publish(index: AnyPath, content: bytes, data_mtime_ns: int) -> None:
    """Write an index atomically; on a file system, its time is not before the time of the data.

    Without this rule, an index could look older than its data: the clocks of the file system and of the machine that
    wrote the data may differ.

    Raises:
        PrepcliError: the index cannot be written; it is a `UsageError` if the folder or its permissions are the cause.
    """
    if isinstance(index, StorePath):
        call(client.put_object, str(index), content)  # the store sets the time of the object
        return
    new = [one for one in (index.parent, *index.parent.parents) if not one.exists()]
    try:
        index.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(index) as file:
            file.write(content)
            file.flush()
            if os.fstat(file.fileno()).st_mtime_ns < data_mtime_ns:
                os.utime(file.fileno(), ns=(data_mtime_ns, data_mtime_ns))
    except OSError as error:
        elsewhere = f"{option('--indexes-root', 'DIR')} writes all indexes below another folder"
        raise cannot_write(error, f"cannot write to {index.parent}: {error.strerror or error}; {elsewhere}") from None
    flush_folders(one.parent for one in new)


def remove_drafts(folder: AnyPath) -> None:
    """Remove drafts that killed processes have left in a folder of indexes; a store has no drafts.

    Only drafts that are older than `DELETE_SECONDS` are removed.
    """
    if isinstance(folder, StorePath):
        return
    for draft in folder.glob(".*.idx~*"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > DELETE_SECONDS:
                draft.unlink()


def check_index(file: DataFile) -> Outcome:
    """Check that an index fits its data file, and is not older than this file; the outcome has the problem, if any."""
    advice = f"readers do not notice and read wrong bytes; run prepcli index again, with {option('--overwrite')}"
    try:
        content = file.index.read_bytes()
    except FileNotFoundError:
        return Outcome(file, problem="has no index; readers make one in every process; run prepcli index")
    except OSError as error:
        return Outcome(file, problem=f"has an index that cannot be read: {error.strerror or error}")
    try:
        problem = index_problem(file.path, file.kind, content)
        if problem is not None:
            return Outcome(file, problem=f"is not what its index {file.index.name} says: {problem}; {advice}")
        if file.index.stat().st_mtime_ns < file.path.stat().st_mtime_ns:
            return Outcome(
                file,
                problem="is newer than its index, which fits; NeMo's own tools refuse it: run prepcli index again",
            )
    except DamagedError as error:
        return Outcome(file, problem=f"is damaged: {error}")
    except OSError as error:
        return Outcome(file, problem=f"cannot be read: {error.strerror or error}")
    return Outcome(file, num_records=len(content) // 8 - 1)


def index(options: Index) -> IndexReport:
    """Write, check or rename the indexes of existing data sets.

    Returns:
        The written indexes and the problems; `configs` has the YAML for each set.

    Raises:
        UsageError: a path cannot be indexed.
        IncompleteError: a worker process was killed; the same call continues.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "unindexed", num_shards=2, index=False)
        >>> prepcli.index("unindexed").written
        4
        >>> prepcli.index("unindexed", check=True).status
        'ok'
    """
    options.check_options()
    places = Places(options.indexes_root, options.index_beside)
    found = [one for path in options.paths for one in find_sets(path, places)]
    report = IndexReport(sets=[one.name for one in found])
    if options.rebase:
        return _rebase(found, options, report)
    rank = detect_rank(os.environ, options.rank, options.world_size)
    if options.pack is not None:
        if rank.world_size > 1:
            raise UsageError(
                f"{option('--pack')} takes the indexes of all ranks: give it to one more run, without ranks"
            )
        if any(isinstance(file.path, StorePath) for one in found for file in one.files):
            raise UsageError(f"{option('--pack')} takes sets in local folders, not in an object store")
        refuse_file_of_set("--pack", options.pack.with_suffix(".yaml"))
        check_lhotse()
    files = _own_files(found, rank)
    report.files = len(files)
    num_workers = options.num_workers or available_processors()
    if options.check:
        moved = {one.name: problems for one in found if (problems := list(_moved(one)))}
        elsewhere = {file for one in found if one.name in moved for file in one.files}
        files = [file for file in files if file not in elsewhere]
        _add(report, map_in_order(check_index, files, num_workers), len(files))
        report.problems += [problem for problems in moved.values() for problem in problems]
        report.status = "broken" if report.problems else "ok"
        return report
    are_needed = [True] * len(files) if options.overwrite else _look_for_indexes(files, num_workers)
    todo = list(compress(files, are_needed))
    report.kept = len(files) - len(todo)
    report.configs = [config for one in found if (config := _config(one, places)) is not None]
    if options.dry_run:
        report.status = "dry_run"
        report.written = len(todo)
        report.num_bytes = sum(sizes_of(file.path for file in todo).values())
        return report
    for folder in sorted({file.index.parent for file in files}):
        remove_drafts(folder)
    _add(report, map_in_order(write_index, todo, num_workers), len(todo))
    if options.pack is not None and not report.problems:
        report.notes += write_pack(options.pack, found, places.root, overwrite=options.overwrite)
        report.pack = str(options.pack)
    report.status = "broken" if report.problems else "done" if todo or options.pack else "nothing_to_do"
    return report


def find_sets(spec: str, places: Places) -> Iterator[IndexedSet]:
    """The sets that an argument names: a folder, a config, or files.

    Raises:
        UsageError: the argument names nothing, or nothing that can be indexed.
    """
    path = path_of(spec) if not names_several(spec) else Path(spec)
    if is_dir(spec):
        yield from sets_in_folder(path, places)
    elif path.suffix in (".yaml", ".yml"):
        yield from sets_in_config(spec, places)
    else:
        yield set_of_files(spec, [path_of(name) for name in expand_paths(spec)], places)


def _look_for_indexes(files: Sequence[DataFile], num_workers: int) -> list[bool]:
    """Whether each file needs an index; for an object store, workers check several files at the same time."""
    in_store = any(isinstance(path, StorePath) for file in files for path in (file.path, file.index))
    return list(map_in_order(needs_index, files, num_workers if in_store else 0))


def _own_files(found: Sequence[IndexedSet], rank: Rank) -> list[DataFile]:
    """The files that a rank indexes: all files are dealt out to the ranks in turn, the largest first.

    So each rank finds its share without asking the others.
    """
    files = list({file.index: file for one in found for file in one.files}.values())
    sizes = sizes_of(file.path for file in files)
    by_size = sorted(files, key=lambda file: (-sizes[file.path], str(file.path)))
    return by_size[rank.rank :: rank.world_size]


def _add(report: IndexReport, outcomes: Iterator[Outcome], total: int) -> None:
    for outcome in with_bar(outcomes, total, "index", "files"):
        report.written += outcome.written
        report.records += outcome.num_records
        if outcome.written:
            report.num_bytes += 8 * outcome.num_records + 8
        if outcome.problem is not None:
            report.problems.append(f"{outcome.file.path}: {outcome.problem}")
    report.problems.sort()


def _moved(found: IndexedSet) -> Iterator[str]:
    """Find out whether a set was moved after it was indexed; yields a problem for each possible earlier folder.

    These are the folders for which the mirror has indexes, if it has none for the current folder.
    """
    if found.mirror is not None and found.mirror.is_dir() and not any(file.index.exists() for file in found.files):
        rebase = "" if is_address(found.name) else "--rebase "
        for place in old_places(found.mirror, path_of(found.name)):
            yield (
                f"{found.mirror} has the indexes of /{place}; if the set was moved: prepcli index {rebase}{found.name}"
            )


def _config(found: IndexedSet, places: Places) -> str | None:
    if found.entry is None:
        return None
    root = places.root or found.mirror
    return indexed_config([found.entry], None if root is None else absolute_folder(str(root)))


def _rebase(found: Sequence[IndexedSet], options: Index, report: IndexReport) -> IndexReport:
    for one in found:
        if is_address(one.name):
            raise UsageError(
                f"{option('--rebase')} renames files, which an object store cannot: write new indexes with prepcli "
                f"index {one.name}"
            )
        if one.mirror is None or not os.path.isdir(one.name):
            raise UsageError(
                f"{option('--rebase')} takes folders of Shar sets with indexes in {MIRROR}/, not {one.name}"
            )
        count, old = rebase(one, Path(one.name), dry_run=options.dry_run)
        report.files += len(one.files)
        report.renamed += count
        report.notes += [f"the indexes were those of {place}" for place in old]
        config = _config(one, Places())
        report.configs += [config] if config else []
    report.status = "dry_run" if options.dry_run else "done" if report.renamed else "nothing_to_do"
    return report


_SKIPPED = 0xFFFFFFFF


class _Row(msgspec.Struct):
    audio_filepath: str
    skipme: Any = msgspec.field(name="_skipme", default=False)


def check_lhotse() -> None:
    """Raise `UsageError` if lhotse 2 cannot be imported."""
    try:
        import lhotse.index_pack  # noqa: F401
    except ImportError:
        raise UsageError(
            f"{option('--pack')} needs lhotse 2, which writes the format: pip install 'lhotse>=2.0.0a7' (or leave "
            f"{option('--pack')} out; the indexes alone do the same for fewer than some thousand shards)"
        ) from None


def write_pack(pack: Path, sets: Sequence[IndexedSet], root: AnyPath | None, *, overwrite: bool) -> list[str]:
    """Write the pack (one file with the indexes of all sets) and, next to it, a YAML of the sets; returns notes.

    lhotse finds an index in the pack only by exactly the path that the YAML has, so both files are written here.

    Raises:
        UsageError: a set has no entry in a config, its manifests and tars do not match one by one, the indexes are in
            several places, or the pack exists.
    """
    from lhotse.index_pack import IndexPackArraySpec, IndexPackCollectionSpec, write_index_pack

    entries = [one.entry for one in sets if one.entry is not None]
    if len(entries) != len(sets):
        raise UsageError(f"{option('--pack')} takes sets that a training config can name: folders, or an input_cfg")
    roots = {root or one.mirror for one in sets}
    if len(roots) > 1:
        raise UsageError(
            f"{option('--pack')} takes sets with indexes in one place: give {option('--indexes-root')} DIR"
        )
    notes = []
    collections: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="prepcli-pack-") as scratch:
        for number, one in enumerate(sets):
            assert one.entry is not None
            lines, tars = _files(one, "jsonl"), _files(one, "nemo_tar")
            if "shar_path" in one.entry:
                for field, spec in _shar_fields(one.entry):
                    kind = "jsonl" if field == "cuts" else "shar_tar"
                    named = set(map(absolute, expanded(spec)))
                    paths = [path for path in _files(one, kind) if absolute(path) in named]
                    collections.append(IndexPackCollectionSpec(field, kind, spec, tuple(paths)))
                notes.append("NeMo's loader refuses packs of lhotse_shar; lhotse 2 itself reads them")
                continue
            source = one.entry.get("manifest_filepath") or one.entry["cuts_path"]
            collections.append(IndexPackCollectionSpec("manifest", "jsonl", source, tuple(lines)))
            if tars:
                tar_source = one.entry["tarred_audio_filepaths"]
                collections.append(IndexPackCollectionSpec("tar", "nemo_tar", tar_source, tuple(tars)))
                routes = _write_routes(lines, tars, Path(scratch) / str(number))
                spec = {"manifest": source, "tar": tar_source, "normalization": "nemo-audio-member-v1"}
                collections.append(
                    IndexPackArraySpec("native_tar_route", "nemo_manifest_row_to_tar_ordinal_v1", spec, tuple(routes))
                )
        try:
            write_index_pack(pack, collections, indexes_root=roots.pop(), overwrite=overwrite)
        except FileExistsError:
            raise UsageError(f"{pack} exists; give another name, or {option('--overwrite')}") from None
        except ValueError as error:
            raise UsageError(f"lhotse 2 does not take these indexes: {error}") from None
    with atomic_file(pack.with_suffix(".yaml")) as file:
        file.write((indexed_config(entries) + "\n").encode("utf-8"))
    return [*dict.fromkeys(notes), f"the pack is found by the paths in {pack.with_suffix('.yaml')}, to the letter"]


def _files(one: IndexedSet, kind: str) -> list[str]:
    return [str(file.path) for file in one.files if file.kind == kind]


def _shar_fields(entry: dict[str, Any]) -> list[tuple[str, Any]]:
    fields = entry["shar_path"]
    if not isinstance(fields, dict):
        raise UsageError(
            f"{option('--pack')} takes Shar sets whose shar_path names the fields; give the folder of the set instead"
        )
    return list(fields.items())


def _write_routes(manifests: Sequence[str], tars: Sequence[str], folder: Path) -> list[Path]:
    """Write a file of numbers (uint32) for each manifest; returns the paths of the files.

    A file has a number for each line of the manifest: the number of its sample in the tar, or `_SKIPPED` for a line
    with the field `_skipme`. lhotse 2 puts these numbers into the pack.
    """
    if len(manifests) != len(tars):
        raise UsageError(
            f"{option('--pack')} needs a manifest for each tar, but there are {len(manifests)} manifests and "
            f"{len(tars)} tars"
        )
    folder.mkdir(parents=True)
    routes = []
    for number, (manifest, tar) in enumerate(zip(manifests, tars, strict=True)):
        with Path(tar).open("rb") as file:
            walk = walk_tar(file)
        begins = {int(offset): at for at, offset in enumerate(tar_offsets(walk, "nemo_tar"))}
        ordinal = {name: begins[at] for name, at in zip(walk.names, walk.offsets, strict=True) if at in begins}
        values = [_route(line, ordinal, manifest, tar) for line in Path(manifest).read_bytes().splitlines()]
        route = folder / f"{number}.u32"
        route.write_bytes(np.array(values, "<u4").tobytes())
        routes.append(route)
    return routes


def _route(line: bytes, ordinal: dict[str, int], manifest: str, tar: str) -> int:
    try:
        row = msgspec.json.decode(line, type=_Row)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{manifest} has a line that is not a record: {error}") from None
    if row.skipme:
        return _SKIPPED
    name = row.audio_filepath
    found = ordinal.get(name, ordinal.get(member_of_line(name)))
    if found is None:
        raise UsageError(f"{manifest} names {name}, which is not in {tar}; see prepcli verify")
    return found
