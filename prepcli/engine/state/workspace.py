"""The two directories of a job: `OUT/` with data only, and next to it `OUT.prepcli/` with the state for resuming."""

import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from prepcli.engine.ledger import LEDGER_FILE, Ledger, part_of, run_folders, state_root
from prepcli.engine.lock import LOCK_FILE, locked
from prepcli.engine.state.folders import device_of_new_file, while_others_remove
from prepcli.engine.state.in_the_way import naming_what_is_in_the_way, refuse_directories
from prepcli.engine.state.plan import FINISH_UNIT, UNITS_FOLDER, StoredPlan
from prepcli.engine.state.store_claim import Claim, StoreClaim
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.work_folder import work_folder
from prepcli.errors import FAULTS_OF_THE_MACHINE, PrepcliError, UsageError, cannot_write, naming, option, same_command
from prepcli.interface.calls import tell
from prepcli.processes.owner import Owner, clock_of, last_change, new_rank_id, owner_of
from prepcli.processes.ranks import Rank
from prepcli.storage.paths import AnyPath, StorePath

Document = TypeVar("Document")

CLEARED_FILES = ("plan.json", "report.json", "rejects.jsonl")
EDITABLE_FILES = ("train_ds.yaml",)
"""The files that users may change (`prepcli.engine.section`)."""
CLEARED_FOLDERS = ("done", "progress", "tmp", "rejects", "parts", "crashes", UNITS_FOLDER)
"""The folders that `--overwrite` removes in OUT.prepcli (`prepcli.engine.state.stock`)."""
_MAX_LINKS = 40
"""Number of links after which Linux refuses a path."""
_MAX_BEGINNING = 160
"""Number of bytes of a file's name in the name of its draft, which file systems limit to 255."""
_DRAFT = re.compile(r"\.[^~]*~-[0-9a-f]{16}-\d+-\d+~[0-9a-f]{8}")
_swept: set[Path] = set()
"""The folders from which this process has removed drafts."""


class Workspace:
    """Paths inside `OUT.prepcli/`, and the operations on them that must be atomic.

    All files may be read during a run; nothing under a final name is ever incomplete.
    """

    def __init__(
        self, out: AnyPath, root: Path | None = None, spools: bool = True, work_dir: Path | None = None
    ) -> None:
        """`root`: the folder with the state of the run, by default OUT.prepcli; a run that adds to OUT has another one.

        `spools`: whether compressed inputs are unpacked in the folder `spool`; if not, `spool` is None, and they are
        streamed. `work_dir`: the folder in which OUT.prepcli is made if OUT is in an object store; by default the
        current folder.
        """
        self.out = self.named = out  # `named`: the output as users know it (`FileWorkspace`)
        self.main_root = work_folder(out, work_dir)
        self.root = root if root is not None else self.main_root
        self.ledger_file = state_root(self.root) / LEDGER_FILE
        self.lock_file = self.ledger_file.with_name(LOCK_FILE)
        self.rejects_file = self.root / "rejects.jsonl"
        self.report_file = self.root / "report.json"
        self.claim_file = self.root / "claim.json"  # see `prepcli.engine.state.store_claim`
        self.index = self.root / "index"
        self.spool = self.root / "spool" if spools else None
        self.rank, self.verify_inputs, self.reads_again = Rank(), False, False  # the run sets them
        self.rank_id = new_rank_id()  # worker processes inherit the id
        self._ahead: float | None = None  # how far the clock of the file system is ahead of our monotonic one
        self._store_claim: StoreClaim | None = None
        self.may_replace = True  # files of an earlier run
        self.writes = False  # objects, so that `check_claim` checks that no other run writes them now
        self.found = OutputFiles(out)  # for a store: listed before anything is written, and again after `prepare`
        self._lasting: set[Path] = set()  # directories whose own names are flushed to disk
        self._was_there = os.path.exists(self.root)
        self.enter_current()

    def __getstate__(self) -> dict[str, Any]:
        """For another process, perhaps of another machine, whose monotonic clock is another."""
        return self.__dict__ | {"_ahead": None}

    def enter(self, run: Path) -> None:
        """Take `run` as the folder with the plan, the units and the progress of the run."""
        self.run = run
        self.plan_file = run / "plan.json"
        self.done, self.progress, self.tmp = run / "done", run / "progress", run / "tmp"
        self._base: Workspace | None = None
        self._again: frozenset[str] = frozenset()
        plan = read_document(self.plan_file, StoredPlan) if self.has_unit_folders else None
        if plan is not None and plan.base:
            self._base, self._again = copy(self), frozenset(plan.again)
            self._base.enter(run.with_name(plan.base))

    def enter_current(self) -> None:
        """Take the folder of the run that made the output or writes to it; if there is none, of the newest."""
        self.enter(self._current_run() or self.root)

    @property
    def has_unit_folders(self) -> bool:
        """Whether each unit of the run has a folder; else the units have markers in `done/`."""
        return self.run != self.root

    def ledger(self) -> Ledger:
        """The runs whose files are in the output."""
        return read_document(self.ledger_file, Ledger) or Ledger()

    @property
    def is_committed(self) -> bool:
        """Whether the files of the run are in OUT, as far as they are done: by a commit, objects also before it."""
        ledger = self.ledger()
        commits = (*ledger.commits, ledger.writer)
        return not self.has_unit_folders or self.run.name in {commit.folder for commit in commits if commit}

    @property
    def is_begun(self) -> bool:
        """Whether the run is the one that writes objects to a store, and is not committed yet."""
        writer = self.ledger().writer
        return self.has_unit_folders and writer is not None and self.run.name == writer.folder

    @property
    def is_beside_another(self) -> bool:
        """Whether the run is unfinished, and another one has made the output or has begun later."""
        return self.has_unit_folders and self.run != self._current_run()

    def _current_run(self) -> Path | None:
        """The folder of the run that made the output or, if there is none, of the newest that has begun to make it."""
        folder, part, ledger = self.ledger_file.parent, part_of(self.root), self.ledger()
        commit = ledger.writer or ledger.of_part(part)
        if commit is not None:
            return folder / commit.folder
        is_of_markers = os.path.lexists(self.root / "plan.json")
        return None if is_of_markers else next(iter(self.unfinished_runs(ledger)), None)

    def unfinished_runs(self, ledger: Ledger | None = None) -> list[Path]:
        """The folders of unfinished runs of the output, or this part of it: the writer of objects, then the newest.

        `ledger`: what is finished; by default it is read.
        """
        folder, part, ledger = self.ledger_file.parent, part_of(self.root), ledger or self.ledger()
        known, writer = {commit.folder for commit in ledger.commits}, ledger.writer
        begun = []
        for run in run_folders(folder):
            plan = None if run.name in known else read_document(run / "plan.json", StoredPlan)
            if plan is not None and plan.part == part:
                begun.append((writer is not None and run.name == writer.folder, last_change(run / "plan.json"), run))
        return [run for _, _, run in sorted(begun, reverse=True)]

    def unit_folder(self, unit: str) -> Path:
        """The folder of a unit that is done: in the folder of the run or, if it was kept, of the run before."""
        folder = self.run / "units" / unit
        if self._base is not None and unit not in self._again and unit != FINISH_UNIT.id and not folder.is_dir():
            return self._base.unit_folder(unit)
        return folder

    def marker_file(self, unit: str) -> Path:
        """The document of a unit that is done."""
        return self.unit_folder(unit) / "unit.json" if self.has_unit_folders else self.done / f"{unit}.json"

    def marker_files(self) -> list[Path]:
        """The documents of all units that are done, also that of the final merge, in the order of their names."""
        if not self.has_unit_folders:
            return sorted(self.done.glob("*.json"))
        files = {path.parent.name: path for path in (self.run / "units").glob("*/unit.json")}
        if self._base is not None:
            again = self._again.union((FINISH_UNIT.id,))
            kept = {path.parent.name: path for path in self._base.marker_files() if path.parent.name not in again}
            files = kept | files
        return [files[unit] for unit in sorted(files)]

    def made_file(self, unit: str, name: str) -> AnyPath:
        """The current path of the file `name` of a unit that is done: in the folder of the unit, or in OUT."""
        path = self.unit_folder(unit) / "files" / name
        return path if self.has_unit_folders and path.exists() else self.out / name

    def part_file(self, unit: str, name: str) -> Path:
        """The path of a file that a unit has made for the final merge, or the final merge for OUT.prepcli."""
        path = self.unit_folder(unit) / name
        return path if self.has_unit_folders and (unit != FINISH_UNIT.id or path.exists()) else self.root / name

    def prepare(self) -> None:
        """Make the directories, check that files can be published, and claim an output that is in a store.

        Raises:
            UsageError: a directory cannot be written, OUT and OUT.prepcli are on different file systems, or another
                state folder holds the output in a store.
        """
        refuse_directories(self.plan_file, self.report_file, self.rejects_file)
        local = [self.out] if isinstance(self.out, Path) else []
        if self._store_claim is None:
            self.found.list_store()
        devices: dict[Path, int] = {}
        for directory in (*local, self.root, self.run / "units", self.progress, self.tmp):
            try:
                devices[directory] = while_others_remove(partial(device_of_new_file, directory))
            except OSError as error:
                why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
                ours = isinstance(error, FileExistsError) and self.root in directory.parents
                todo = f"move it away, and run {same_command()} again" if ours else "choose another output directory"
                if error.errno in FAULTS_OF_THE_MACHINE:
                    todo = f"correct it, and run {same_command()} again"
                raise cannot_write(error, f"cannot write to {directory}: {why}; {todo}") from error
        if local and devices[local[0]] != devices[self.tmp]:
            raise UsageError(
                f"{self.out} is on another file system than {self.root}; finished files could not be moved "
                "into place at once. Give an output directory whose parent is on the same file system"
            )
        if isinstance(self.out, StorePath) and self._store_claim is None:
            own = self.write_once(self.claim_file, made := Claim.of(self.root), Claim)
            claim = StoreClaim(self.out, own, self.root.relative_to(self.main_root))
            claim.take(is_new=own == made)
            self._store_claim = claim
        self.found = OutputFiles(self.out)

    @property
    def folder(self) -> Path:
        """OUT as a local path, for commands whose output is never in a store."""
        assert isinstance(self.out, Path)
        return self.out

    def refuse_holder(self) -> None:
        """Raise `UsageError` if the output is in a store and another state folder holds it."""
        if isinstance(self.out, StorePath):
            own = read_document(self.claim_file, Claim) or Claim.of(self.root)
            StoreClaim(self.out, own, self.root.relative_to(self.main_root)).refuse_holder()

    @property
    def is_unused(self) -> bool:
        """Whether no run has used the state folder yet.

        False if the folder existed before this command, has a plan, or has claimed an output in a store.
        """
        return not (self._was_there or self._store_claim or self.plan_file.exists())

    def write_once(self, path: Path, content: Document, kind: type[Document]) -> Document:
        """Write a JSON document in OUT.prepcli unless one of type `kind` exists; returns the stored document.

        Among several processes, also on several machines, exactly one is first.
        """
        with locked(self.lock_file):
            stored = read_document(path, kind)
            if stored is None:
                write_json(path, content)
            return content if stored is None else stored

    def make_tmp(self, name: str) -> Path:
        """Make a new directory in `tmp/` for the work `name`, usually a unit.

        Its name is unique. Two ranks may process the same unit by mistake: each uses its own directory.
        """
        return Path(tempfile.mkdtemp(prefix=f"{name}~{Owner.of_this_process(self.rank_id)}~", dir=self.tmp))

    def remove_own_tmp(self) -> None:
        """Remove the remaining directories of `make_tmp`, for example after a signal at the very end of a unit."""
        for made in self.folders_of([os.getpid()]):
            shutil.rmtree(made, ignore_errors=True)

    @property
    def owner(self) -> Owner:
        """This process, as the owner of what its rank makes."""
        return Owner.of_this_process(self.rank_id)

    def clock(self) -> float:
        """The time (seconds since the epoch) on the clock of the file system, which is asked once."""
        if self._ahead is None:
            there = next(folder for folder in (self.root, *self.root.absolute().parents) if folder.exists())
            self._ahead = clock_of(there) - time.monotonic()
        return self._ahead + time.monotonic()

    def flush(self, files: Iterable[Path]) -> None:
        """Flush the names of files below OUT or OUT.prepcli to disk, and the names of their directories."""
        folders = {file.parent for file in files}
        for folder in folders - self._lasting:
            base = self.root if self.root in (folder, *folder.parents) else self.out
            above = base.parent
            if isinstance(self.out, Path) and self.out.parent in self.root.parents:
                above = self.out.parent  # the state of a data set is deeper, in OUT.prepcli/sets
            folders.update(one for one in folder.parents if above in (one, *one.parents))
        flush_folders(sorted(folders))
        self._lasting |= folders

    def units_in_hand(self, pids: Sequence[int]) -> list[str]:
        """The sorted names of the units for which processes `pids` of this rank have temporary directories."""
        return sorted(folder.name.split("~")[0] for folder in self.folders_of(pids))

    def folders_of(self, pids: Sequence[int]) -> list[Path]:
        """The temporary directories of processes `pids` of this rank."""
        of_rank = ((entry, owner) for entry in children_of(self.tmp) if (owner := owner_of(entry)))
        return [entry for entry, owner in of_rank if owner.rank_id == self.rank_id and owner.pid in pids]

    def check_claim(self) -> None:
        """Check that the stored plan is still the plan of this run; cheap, called before anything is published.

        Raises:
            PrepcliError: another command writes to the store now, or the claim on the output was removed.
        """
        if self._store_claim is not None:
            self._store_claim.check()
        if self.writes and not self.is_committed:
            raise self._replaced()

    def _replaced(self) -> PrepcliError:
        return PrepcliError(
            f"another command has started again in {self.out} ({option('--overwrite')}) during this run, which has "
            "stopped; let one of them run alone"
        )


class FileWorkspace(Workspace):
    """The workspace of a run that writes one file and, possibly, others into a folder next to it.

    `out` is the folder of the file, because published names are relative to it; `named` is the file.
    """

    def __init__(self, file: Path) -> None:
        file = real_file(file)
        super().__init__(file.parent, Workspace(file).root)
        self.named = file


def real_file(out: Path) -> Path:
    """The file to write for `out`: for a symbolic link, its target, so that the link stays."""
    return Path(os.path.realpath(out)) if out.is_symlink() and not is_of_process(out) else out


def is_of_process(path: Path) -> bool:
    """Whether a path, or a link that it leads through, is in /proc, which has the open files of each process.

    Such a path, `/dev/stdout` for example, is another file for each process, and its file may have no other name.
    """
    for _ in range(_MAX_LINKS):
        if os.path.realpath(path.parent).startswith("/proc/"):
            return True
        if not path.is_symlink():
            break
        path = path.parent / os.readlink(path)
    return False


def workspace_of(out: AnyPath, work_dir: Path | None = None) -> Workspace:
    """The workspace of the run that made `out`, a directory or a file; `work_dir` as in `Workspace`."""
    workspace = Workspace(out, work_dir=work_dir)
    plan = read_document(workspace.plan_file, StoredPlan)
    return FileWorkspace(out) if isinstance(out, Path) and plan is not None and plan.writes_file else workspace


def children_of(folder: Path) -> list[Path]:
    """All files and directories in `folder`; none if it does not exist."""
    with contextlib.suppress(FileNotFoundError):
        return list(folder.iterdir())
    return []


def flush_folders(folders: Iterable[Path]) -> None:
    """Flush folders to disk, so that the names of their files last even after a power failure."""
    for folder in folders:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:  # the folder can be written, but not read
            continue
        try:
            with naming(folder):
                os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # the file system does not flush folders
                raise
        finally:
            os.close(descriptor)


def draft_of(path: Path, folder: Path | None = None) -> Path:
    """A new name for a draft of a file, with the process that writes it; `folder`: by default that of `path`."""
    # Not by `tempfile`, whose files only their owner may read.
    beginning = os.fsdecode(os.fsencode(path.name)[:_MAX_BEGINNING])
    return (folder or path.parent) / f".{beginning}~{Owner.of_this_process('')}~{uuid.uuid4().hex[:8]}"


def _remove_drafts(folder: Path) -> None:
    """Remove the drafts that processes of this machine have left in a folder, and have ended; once in a process."""
    if folder in _swept:
        return
    _swept.add(folder)
    for entry in children_of(folder):
        owner = owner_of(entry) if _DRAFT.fullmatch(entry.name) else None
        if owner is not None and owner.is_gone:
            with contextlib.suppress(OSError):
                entry.unlink()


@contextlib.contextmanager
def atomic_file(path: Path, durable: bool = True, folder: Path | None = None) -> Iterator[BinaryIO]:
    """Write a file so that readers of `path` see the old or the new content; if `durable`, even after a power failure.

    Yields the draft, which replaces `path` at the end of the context. If the context ends with an exception, the old
    content stays. `folder`: the folder of the draft; by default the folder of `path`.
    """
    draft = draft_of(path, folder)
    if durable and folder is None:
        _remove_drafts(path.parent)
    try:
        with naming(path):
            with draft.open("xb") as file:
                yield file
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(draft, path)
            if durable:
                flush_folders([path.parent])
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == str(draft) and error.filename2 is None:
            error.filename = str(path)  # users do not know the draft
        with contextlib.suppress(OSError):  # of a read-only file system
            draft.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """Write a user's file as `atomic_file` does. The new file has the mode and, if allowed, the owner of the old one.

    If `path` is a symbolic link, its target is replaced and the link stays.
    """
    path = real_file(path)
    with atomic_file(path) as file:
        if path.exists():
            before = path.stat()
            with contextlib.suppress(PermissionError):  # the file of another user in a shared folder
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
        yield file


def write_json(path: Path, content: Any, durable: bool = True, folder: Path | None = None) -> None:
    """Write `content` to `path` as an indented JSON document; `durable` and `folder` as in `atomic_file`."""
    with naming_what_is_in_the_way(path), atomic_file(path, durable, folder) as file:
        file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")


def read_document(path: Path, kind: type[Document]) -> Document | None:
    """The document of type `kind` in `path`, or None if there is none.

    A damaged file (empty, cut short or of another type, as a power failure may leave it) counts as missing, with a note
    on stderr.

    Raises:
        UsageError: the path is a directory.
    """
    try:
        with naming(path):
            content = path.read_bytes()
        return msgspec.json.decode(content, type=kind)
    except IsADirectoryError:
        refuse_directories(path)
        return None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        if path not in _damaged:
            _damaged.add(path)
            shown = ascii(str(path))[1:-1]
            tell(f"note: {shown} is damaged (did the machine lose power?); it is treated as missing")
        return None


_damaged: set[Path] = set()
"""The damaged documents about which this process has printed a note."""
