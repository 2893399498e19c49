"""`index` from its options to its report."""

import os
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path

from prepcli.commands.index.configs import sets_in_config
from prepcli.commands.index.files import Outcome, check_index, needs_index, remove_drafts, write_index
from prepcli.commands.index.options import Index
from prepcli.commands.index.rebase import old_places, rebase
from prepcli.commands.index.report import IndexReport
from prepcli.commands.index.sets import DataFile, IndexedSet, Places, set_of_files, sets_in_folder
from prepcli.errors import UsageError
from prepcli.formats.indexes import MIRROR
from prepcli.formats.names import absolute_folder
from prepcli.formats.training_config import indexed_config
from prepcli.interface.bars import with_bar
from prepcli.manifest.sources import expand_paths
from prepcli.processes.pools import map_in_order
from prepcli.processes.ranks import Rank, detect_rank
from prepcli.processes.workers import available_processors
from prepcli.storage.addresses import is_address, names_several
from prepcli.storage.paths import StorePath, is_dir, path_of, sizes_of


def index(options: Index) -> IndexReport:
    """Write the indexes of sets that exist, or compare or rename them.

    Returns:
        What was written and what is wrong; `configs` has the YAML for each set.

    Raises:
        UsageError: a path cannot be indexed.
        IncompleteError: a worker process was killed; the same call continues.

    Example:
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
            raise UsageError("--pack takes the indexes of all ranks: give it to one more run, without ranks")
        from prepcli.commands.index.pack import check_lhotse

        if any(isinstance(file.path, StorePath) for one in found for file in one.files):
            raise UsageError("--pack takes sets in local folders, not in an object store")
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
        from prepcli.commands.index.pack import write_pack

        report.notes += write_pack(options.pack, found, places.root, overwrite=options.overwrite)
        report.pack = str(options.pack)
    report.status = "broken" if report.problems else "done" if todo or options.pack else "nothing_to_do"
    return report


def find_sets(spec: str, places: Places) -> Iterator[IndexedSet]:
    """The sets that an argument names: a folder, a config, files.

    Raises:
        UsageError: there is nothing, or nothing that can be indexed.
    """
    path = path_of(spec) if not names_several(spec) else Path(spec)
    if is_dir(spec):
        yield from sets_in_folder(path, places)
    elif path.suffix in (".yaml", ".yml"):
        yield from sets_in_config(spec, places)
    else:
        yield set_of_files(spec, [path_of(name) for name in expand_paths(spec)], places)


def _look_for_indexes(files: Sequence[DataFile], num_workers: int) -> list[bool]:
    """Whether each file needs an index; in an object store, workers ask for several at the same time."""
    in_store = any(isinstance(path, StorePath) for file in files for path in (file.path, file.index))
    return list(map_in_order(needs_index, files, num_workers if in_store else 0))


def _own_files(found: Sequence[IndexedSet], rank: Rank) -> list[DataFile]:
    """The files of a rank: the largest ones dealt out in turn, so it follows from the files alone which are whose."""
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
    """A set whose indexes are those of another place."""
    if found.mirror is not None and found.mirror.is_dir() and not any(file.index.exists() for file in found.files):
        option = "" if is_address(found.name) else "--rebase "
        for place in old_places(found.mirror, path_of(found.name)):
            yield (
                f"{found.mirror} has the indexes of /{place}; if the set was moved: prepcli index {option}{found.name}"
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
                f"--rebase renames files, which an object store cannot: write new indexes with prepcli index {one.name}"
            )
        if one.mirror is None or not os.path.isdir(one.name):
            raise UsageError(f"--rebase takes folders of Shar sets with indexes in {MIRROR}/, not {one.name}")
        count, old = rebase(one, Path(one.name), dry_run=options.dry_run)
        report.files += len(one.files)
        report.renamed += count
        report.notes += [f"the indexes were those of {place}" for place in old]
        config = _config(one, Places())
        report.configs += [config] if config else []
    report.status = "dry_run" if options.dry_run else "done" if report.renamed else "nothing_to_do"
    return report
