"""The first half of `download`: one process fetches, unpacks and indexes the archive of a data set."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from prepcli.commands.download.corpus_unpack import get_unpacked, move_in, staging_of, unpack_nested
from prepcli.commands.download.data_set import Archive, CorpusPart
from prepcli.commands.download.fetch import note, read_checksums
from prepcli.commands.download.index import LineIndex, is_repaired, write_index
from prepcli.engine.publishing.rejects import num_retryable
from prepcli.engine.run.function import Output
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import format_bytes
from prepcli.engine.state.plan import StoredPlan
from prepcli.engine.state.work_folder import refuse_state
from prepcli.engine.state.workspace import Workspace, draft_of, read_document, write_json
from prepcli.errors import FAULTS_OF_THE_MACHINE, PrepcliError, UsageError, cannot_write, option, same_command
from prepcli.interface.calls import current_call
from prepcli.storage.input_files import same_file
from prepcli.storage.transfer import FetchError, part_of, sidecar_of

ARCHIVES = "archives"
"""Name of the folder in the data root for archives that are still needed, or kept (`--keep-archives`)."""


INDEX_NAME = "index.jsonl"
"""The name of the index of utterances, a file in the workspace of each data set."""


class UnpackedMarker(msgspec.Struct):
    """The content of `unpacked.json`, a file that exists after the archive of a data set was unpacked and indexed.

    Attributes:
        trees: the folders that were unpacked (`CorpusPart.trees`).
        settings: the settings with which the index was made.
    """

    trees: list[str]
    settings: dict[str, Any]


def output_of(data_root: Path, state_name: str, *patterns: str) -> Output:
    """The output of the data set with this `CorpusPart.state_name`; `patterns`: those of `Output`.

    Each data set has its own workspace in the state of the data root, so that data sets can be added later.

    Raises:
        UsageError: the data root is in the state folder of a run.
    """
    refuse_state(data_root)
    return Output(data_root, *patterns, inside=f"sets/{state_name}")


def is_ready(data_set: CorpusPart, data_root: Path) -> bool:
    """Return whether the data set can be converted: it is unpacked completely, and its index has the current settings.

    A corpus that the user has on disk, without an archive, is always ready: each process makes its index itself.
    """
    workspace = output_of(data_root, data_set.state_name).workspace
    marker = _marker(workspace)
    return data_set.archive is None or (
        marker is not None and marker.settings == data_set.settings and not staging_of(workspace).exists()
    )


def as_asked(data_sets: Sequence[CorpusPart]) -> Sequence[CorpusPart]:
    """Return the data sets with the archives, or the copies, that the current call names.

    Raises:
        UsageError: a copy is not one of the corpus, an address or the list of checksums is not valid, none of the data
            sets uses a file of `--archive`, or unpacking would remove it.
    """
    asked = current_call().options
    if not hasattr(asked, "archive"):
        return data_sets
    if asked.extracted is not None:
        return [data_set.extracted(asked.extracted, asked.data_root) for data_set in data_sets]
    checksums = read_checksums(asked.checksums) if asked.checksums else {}
    archives = [data_set.archive.at(asked.base_url, checksums) for data_set in data_sets if data_set.archive]
    given = {path.name: path for path in reversed(asked.archive)}
    if len(asked.archive) == 1 and data_sets[0].name == data_sets[0].corpus:  # whatever its name
        given = dict.fromkeys([archives[0].name], asked.archive[0])
    for path, tree in ((path, tree) for path in asked.archive for data_set in data_sets for tree in data_set.trees):
        place = asked.data_root / tree
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(place)):
            raise UsageError(f"{option('--archive', path)} is in {place}, which may be replaced; move it elsewhere")
    archives = [replace(archive, given=given.get(archive.name)) for archive in archives]
    used = [archive.given for archive in archives]
    for path in asked.archive:
        if path not in used:
            names = ", ".join(archive.name for archive in archives)
            raise UsageError(f"{option('--archive', path)} is not one of the archives of this command: {names}")
    return [replace(data_set, archive=archive) for data_set, archive in zip(data_sets, archives, strict=True)]


def plan_fetching(archive: Archive, data_root: Path) -> dict[str, Any]:
    """Return the facts about the archive that `ensure_unpacked` would fetch, for the report of a dry run.

    Returns:
        `archive`: its name; `from`: the address, or the file of `--archive`; `num_bytes`: the published size;
        `num_bytes_there`: the bytes that are fetched already; `checksum`. An unknown size or checksum is None.
    """
    if archive.given is None:
        archive.check_published()
    there = archive.given or _archive_file(archive, data_root)
    part = there if there.exists() else there.with_name(f"{archive.name}.part")
    return {
        "archive": archive.name,
        "from": str(archive.given or archive.urls[0]),
        "num_bytes": archive.num_bytes,
        "num_bytes_there": part.stat().st_size if part.exists() else 0,
        "checksum": archive.checksum,
    }


def _archive_file(archive: Archive, data_root: Path) -> Path:
    """Return the path of a fetched archive."""
    return data_root / ARCHIVES / archive.folder / archive.name


def note_scarce_space(waiting: Sequence[CorpusPart], data_root: Path, keep_archives: bool) -> None:
    """Print a note before fetching if the disk does not have enough space for the published sizes.

    Compressed audio unpacks to about the size of the archive, and converted audio needs more space. This is not an
    error, because some network file systems report wrong values; nothing is lost if the disk is full.
    """
    archives = [data_set.archive for data_set in waiting if data_set.archive is not None]
    to_fetch = [0]
    for archive in archives:
        if archive.given is None:
            there = plan_fetching(archive, data_root)["num_bytes_there"]
            to_fetch.append(max((archive.num_bytes or 0) - there, 0))
    needed = sum(archive.num_bytes or 0 for archive in archives) + (sum if keep_archives else max)(to_fetch)
    there = next(folder for folder in (data_root.absolute(), *data_root.absolute().parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        note(
            f"fetching and unpacking this takes at least {format_bytes(needed)}, {data_root} has {format_bytes(free)} "
            f"free; make room, or choose another {option('--data-root')}"
        )


def ensure_unpacked(data_set: CorpusPart, data_root: Path, keep_archives: bool, engine: RunOptions) -> None:
    """Fetch, check and unpack the archive if that is not done; afterwards the archive is not needed any more.

    The archive is unpacked in another folder, and its folders are moved to the data root when they are complete.
    `unpacked.json` is written before the move: if a process is killed during the move, the next process completes it.

    Raises:
        FetchError: no server has the archive, or it is damaged.
        UnsafeArchiveError: the archive is not safe to unpack.
        IncompleteError: the servers cannot be reached; the same command continues.
        UsageError: files that would be replaced were not made by prepcli, or the file of `--archive` is damaged.
        PrepcliError: the disk is full, or another fault of the machine.
    """
    assert data_set.archive is not None
    workspace = output_of(data_root, data_set.state_name).workspace
    try:
        with exclusive_lock(workspace, data_set.name):
            _ensure(data_set, data_set.archive, workspace, keep_archives, engine)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise PrepcliError(
            f"{where}{error.strerror or error}; no incomplete file has a final name. Correct this and run "
            f"{same_command()} again to continue"
        ) from error


def _ensure(
    data_set: CorpusPart, archive: Archive, workspace: Workspace, keep_archives: bool, engine: RunOptions
) -> None:
    data_root, there = workspace.folder, _archive_file(archive, workspace.folder)
    marker = _marker(workspace)
    if marker is not None:
        move_in(data_set, workspace)
        if engine.overwrite and not all((data_root / tree).is_dir() for tree in data_set.trees):
            marker = None
    if marker is None:
        _refuse_foreign(data_set, workspace, engine.overwrite)
        staging = staging_of(workspace)
        get_unpacked(archive, there, staging / data_set.top)
        unpack_nested(data_set, archive, staging, engine.num_workers)
        missing = f"an utterance of {data_set.name}"
        try:
            found = write_index(data_set, staging, workspace.root / INDEX_NAME)
        except (FileNotFoundError, NotADirectoryError) as error:
            found, missing = 0, os.path.relpath(error.filename, staging)
        if not found:
            shutil.rmtree(staging)
            _remove_fetched(there, archive.given)
            raise FetchError(f"{archive.name} is not the published archive: {missing} is not in it")
        os.sync()  # for thousands of small files far cheaper than one fsync per file
        _mark(data_set, workspace)
        move_in(data_set, workspace)
    elif marker.settings != data_set.settings and (engine.overwrite or not workspace.plan_file.exists()):
        write_index(data_set, data_root, workspace.root / INDEX_NAME)
        _mark(data_set, workspace)
    if not keep_archives:
        _remove_fetched(there, archive.given)
        with contextlib.suppress(OSError):
            there.parent.rmdir()
            (data_root / ARCHIVES).rmdir()


def _remove_fetched(archive: Path, given: Path | None) -> None:
    """Remove an archive that was fetched, but never a file of `--archive`, which belongs to the user."""
    if given is None or same_file([archive], [given]) is None:
        archive.unlink(missing_ok=True)
        sidecar_of(part_of(archive)).unlink(missing_ok=True)


def make_index(data_set: CorpusPart, data_root: Path, file: Path) -> None:
    """Write the index of a data set to `file`.

    Raises:
        UsageError: the corpus has recordings at most, and no transcripts.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if not write_index(data_set, data_root, file):
        raise UsageError(
            f"{data_set.copy or data_root} has no line of a transcript of {data_set.corpus}; copy it again"
        )


def ensure_index(data_set: CorpusPart, output: Output) -> Path:
    """Return the path of the data set's index. That of a corpus on disk is made now.

    With `--retry-rejects`, it is made for any corpus. If audio or transcripts that were missing or damaged are usable
    now, and nothing else has changed, `output` starts again; it also does if another rank has replaced the index.

    An index on which an existing plan is based is replaced only if the run starts again. If the corpus has changed
    since, the path of a new index next to it is returned. The engine then sees that the input is not the one of the
    plan, and refuses to continue.

    Raises:
        UsageError: as by `make_index`.
    """
    workspace, data_root, engine = output.workspace, output.workspace.folder, output.engine
    planned = workspace.root / INDEX_NAME
    plan = read_document(workspace.plan_file, StoredPlan) if planned.exists() else None
    retries = engine.retry_rejects and plan is not None and num_retryable(plan.planned_rejects) > 0
    retries = retries and all((data_root / tree).is_dir() for tree in data_set.trees)
    if data_set.archive is not None and not retries:
        return planned
    draft, refused = draft_of(planned), planned.with_name(f"new_{INDEX_NAME}")
    try:
        make_index(data_set, data_root, draft)
        if plan is not None and (retries or not engine.overwrite):
            digest = plan.inputs[0].get("sha256") if plan.inputs else None
            before, now = LineIndex(planned).sha256, LineIndex(draft).sha256
            if retries and now != digest and (before != digest or is_repaired(planned, draft)):
                output.engine = replace(engine, overwrite=True)  # of recordings as they are, only manifests are made
            elif before == digest and (now == digest or data_set.archive is not None):
                return planned
            elif before == digest and not engine.overwrite:
                return draft.replace(refused)
        refused.unlink(missing_ok=True)
        return draft.replace(planned)
    finally:
        draft.unlink(missing_ok=True)


def _mark(data_set: CorpusPart, workspace: Workspace) -> None:
    write_json(workspace.root / "unpacked.json", UnpackedMarker(list(data_set.trees), data_set.settings))


def _marker(workspace: Workspace) -> UnpackedMarker | None:
    marker = read_document(workspace.root / "unpacked.json", UnpackedMarker)
    return marker if (workspace.root / INDEX_NAME).exists() else None


@contextlib.contextmanager
def exclusive_lock(workspace: Workspace, name: str) -> Iterator[None]:
    """Hold the lock of a data set during the block, so that only one process fetches the data set.

    If the process is killed, the lock is released.

    Raises:
        UsageError: another process has the lock, or the folder cannot be written.
        PrepcliError: the disk is full, or another fault of the machine.
    """
    made = [one for one in (workspace.folder, workspace.root, *workspace.root.parents) if not one.exists()]
    try:
        workspace.folder.mkdir(parents=True, exist_ok=True)  # first, so that a failure leaves nothing behind
        workspace.root.mkdir(parents=True, exist_ok=True)
        lock = (workspace.root / "lock").open("w")
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        todo = "correct it" if error.errno in FAULTS_OF_THE_MACHINE else f"choose another {option('--data-root')}"
        raise cannot_write(error, f"cannot write to {error.filename}: {why}; {todo}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"another process is fetching {name} for {workspace.out}; let it finish") from error
        except OSError:
            pass  # the file system has no locks
        try:
            yield
        except UsageError:
            # if the folder holds only the lock, no work began
            if workspace.root in made and len(list(workspace.root.iterdir())) == 1:
                Path(lock.name).unlink()
                with contextlib.suppress(OSError):
                    for folder in made:
                        folder.rmdir()
            raise


def _refuse_foreign(data_set: CorpusPart, workspace: Workspace, overwrite: bool) -> None:
    """Raise `UsageError` if files that prepcli did not make would be replaced. This is checked before fetching.

    With `overwrite`, existing folders of the corpus are allowed; they are moved aside later.
    """
    if read_document(workspace.plan_file, StoredPlan) is not None:
        return
    trees = () if overwrite else (*data_set.trees, *data_set.converted)
    foreign = next(workspace.found.matching((*trees, *data_set.manifests, *data_set.derived)), None)
    if foreign is not None:
        raise UsageError(
            f"{foreign} exists, but {workspace.root} does not show that prepcli made it; choose another "
            f"{option('--data-root')}, move it away, or give {option('--extracted', workspace.out)} if it is the "
            "corpus, unpacked"
        )
