"""Writes, checks and renames the indexes of sets."""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from prepcli.commands.index.configs import sets_in_config
from prepcli.commands.index.rebase import old_places, rebase
from prepcli.commands.index.report import IndexReport
from prepcli.commands.index.sets import DataFile, IndexedSet, Places, set_of_files, sets_in_folder
from prepcli.engine.state.workspace import atomic_file, flush_folders
from prepcli.errors import InputChangedError, UsageError, cannot_write, option, same_command
from prepcli.formats.indexes import MIRROR, DamagedError, index_problem, is_current, make_index
from prepcli.formats.names import absolute_folder
from prepcli.formats.training_config import indexed_config
from prepcli.interface.bars import with_bar
from prepcli.manifest.sources import expand_paths
from prepcli.processes.owner import DELETE_SECONDS
from prepcli.processes.pools import map_in_order
from prepcli.processes.ranks import Rank
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import is_address, names_several
from prepcli.storage.input_files import check_unchanged, state_of
from prepcli.storage.paths import AnyPath, StorePath, is_dir, path_of, sizes_of


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
    new = [folder for folder in (index.parent, *index.parent.parents) if not folder.exists()]
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
    flush_folders(folder.parent for folder in new)


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


def check_sets(sets: Sequence[IndexedSet], rank: Rank, num_workers: int) -> IndexReport:
    """Compare the indexes of this rank with their data."""
    report = IndexReport(sets=[indexed.name for indexed in sets])
    files = _own_files(sets, rank)
    report.files = len(files)
    moved = {indexed.name: problems for indexed in sets if (problems := list(_moved(indexed)))}
    elsewhere = {file for indexed in sets if indexed.name in moved for file in indexed.files}
    files = [file for file in files if file not in elsewhere]
    _add(report, map_in_order(check_index, files, num_workers), len(files))
    report.problems += [problem for problems in moved.values() for problem in problems]
    report.status = "broken" if report.problems else "ok"
    return report


def index_sets(
    sets: Sequence[IndexedSet],
    places: Places,
    rank: Rank,
    num_workers: int,
    *,
    dry_run: bool,
    overwrite: bool,
) -> IndexReport:
    """Write the missing and old indexes of this rank, all with `overwrite`."""
    files = _own_files(sets, rank)
    report = IndexReport(sets=[indexed.name for indexed in sets], files=len(files))
    are_needed = [True] * len(files) if overwrite else _look_for_indexes(files, num_workers)
    todo = list(compress(files, are_needed))
    report.kept = len(files) - len(todo)
    report.configs = [config for indexed in sets if (config := _config(indexed, places)) is not None]
    if dry_run:
        report.status = "dry_run"
        report.written = len(todo)
        report.num_bytes = sum(sizes_of(file.path for file in todo).values())
        return report
    for folder in sorted({file.index.parent for file in files}):
        remove_drafts(folder)
    _add(report, map_in_order(write_index, todo, num_workers), len(todo))
    report.status = "broken" if report.problems else "done" if todo else "nothing_to_do"
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
        yield set_of_files(spec, [path_of(name) for name in expand_paths(spec, what="file")], places)


def _look_for_indexes(files: Sequence[DataFile], num_workers: int) -> list[bool]:
    """Whether each file needs an index; for an object store, workers check several files at the same time."""
    in_store = any(isinstance(path, StorePath) for file in files for path in (file.path, file.index))
    return list(map_in_order(needs_index, files, num_workers if in_store else 0))


def _own_files(sets: Sequence[IndexedSet], rank: Rank) -> list[DataFile]:
    """The files that a rank indexes: all files are dealt out to the ranks in turn, the largest first.

    So each rank finds its share without asking the others.
    """
    files = list({file.index: file for indexed in sets for file in indexed.files}.values())
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


def _moved(indexed: IndexedSet) -> Iterator[str]:
    """Find out whether a set was moved after it was indexed; yields a problem for each possible earlier folder.

    These are the folders for which the mirror has indexes, if it has none for the current folder.
    """
    mirror, name = indexed.mirror, indexed.name
    if mirror is not None and mirror.is_dir() and not any(file.index.exists() for file in indexed.files):
        rebase = "" if is_address(name) else "--rebase "
        for place in old_places(mirror, path_of(name)):
            yield f"{mirror} has the indexes of /{place}; if the set was moved: prepcli index {rebase}{name}"


def _config(indexed: IndexedSet, places: Places) -> str | None:
    if indexed.entry is None:
        return None
    root = places.root or indexed.mirror
    return indexed_config([indexed.entry], None if root is None else absolute_folder(str(root)))


def rebase_sets(sets: Sequence[IndexedSet], dry_run: bool) -> IndexReport:
    """Rename the indexes of Shar sets that were moved.

    Raises:
        UsageError: a set is in a store, or is not a Shar set with indexes.
    """
    report = IndexReport(sets=[indexed.name for indexed in sets])
    for indexed in sets:
        if is_address(indexed.name):
            raise UsageError(
                f"{option('--rebase')} renames files, which an object store cannot: write new indexes with prepcli "
                f"index {indexed.name}"
            )
        if indexed.mirror is None or not os.path.isdir(indexed.name):
            raise UsageError(
                f"{option('--rebase')} takes folders of Shar sets with indexes in {MIRROR}/, not {indexed.name}"
            )
        count, old = rebase(indexed, Path(indexed.name), dry_run=dry_run)
        report.files += len(indexed.files)
        report.renamed += count
        report.notes += [f"the indexes were those of {place}" for place in old]
        config = _config(indexed, Places())
        report.configs += [config] if config else []
    report.status = "dry_run" if dry_run else "done" if report.renamed else "nothing_to_do"
    return report
