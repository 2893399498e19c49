"""The two directories of a job: `OUT/` with data only, and beside it `OUT.prepcli/` with all that resuming needs."""

import contextlib
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from prepcli.engine.owner import SILENT_SECONDS, Owner, clock_of, last_change, new_rank_id, owner_of
from prepcli.engine.plan import StoredPlan
from prepcli.errors import PrepcliError, UsageError
from prepcli.input_files import FileState, state_of
from prepcli.processes import no_interruption

Document = TypeVar("Document")

MAX_NAME_BYTES = 255
"""How long a name may be in the file systems of Linux; also that of OUT.prepcli."""


_CLEARED_FILES = ("plan.json", "report.json", "rejects.jsonl")
_CLEARED_FOLDERS = ("done", "progress", "tmp", "rejects", "parts", "crashes")


class Workspace:
    """Paths inside `OUT.prepcli/`, and the few operations on them that must be atomic.

    Everything in it may be read while a run goes on; nothing under a final name is ever half written.
    """

    def __init__(self, out: Path, root: Path | None = None, spools: bool = True) -> None:
        """`spools`: whether compressed inputs are unpacked in `spool`; else it is None, and they are read through."""
        self.out = out
        self.root = root if root is not None else _beside(out)
        self.plan_file = self.root / "plan.json"
        self.rejects_file = self.root / "rejects.jsonl"
        self.report_file = self.root / "report.json"
        self.done = self.root / "done"
        self.progress = self.root / "progress"
        self.tmp = self.root / "tmp"
        self.launches = self.root / "launches"
        self.spool = self.root / "spool" if spools else None
        self._rank_id = new_rank_id()  # worker processes inherit it
        self._made: set[Path] = set()  # directories in `tmp/`
        self._claimed: tuple[str, FileState] | None = None  # the digest of our plan, and its file as we found it

    def prepare(self) -> None:
        """Make the directories, and find out now, not after hours, whether files can be published.

        Raises:
            UsageError: a directory cannot be written, or the two lie on different file systems.
        """
        for directory in (self.out, self.done, self.progress, self.tmp, self.launches):
            try:
                directory.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=directory):
                    pass
            except OSError as error:
                why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
                raise UsageError(f"cannot write to {directory}: {why}; choose another output directory") from error
        if self.out.stat().st_dev != self.tmp.stat().st_dev:
            raise UsageError(
                f"{self.out} is on another file system than {self.root}; finished files could not be moved "
                "into place at once. Give an output directory whose parent is on the same file system"
            )

    def make_tmp(self, name: str) -> Path:
        """A fresh directory under `tmp/`, for this process alone: two ranks may do one unit by mistake."""
        with no_interruption():  # or nobody would know of it
            owner = Owner.of_this_process(self._rank_id)
            made = Path(tempfile.mkdtemp(prefix=f"{name}~{owner}~", dir=self.tmp))
            self._made.add(made)
        return made

    def remove_tmp(self, made: Path) -> None:
        """Remove a directory that `make_tmp` made, with what is in it."""
        shutil.rmtree(made, ignore_errors=True)
        self._made.discard(made)

    def remove_own_tmp(self) -> None:
        """Remove what is left of those; a signal as a unit begins or ends comes before or after it would do so."""
        for made in list(self._made):
            self.remove_tmp(made)

    def remove_stale_tmp(self) -> None:
        """Remove what killed processes left in `tmp/`; where they cannot be seen, after a long silence."""
        now: float | None = None
        for entry in self._entries(self.tmp):
            gone = owner.is_gone if (owner := owner_of(entry)) else None
            if gone is None:
                now = clock_of(self.tmp) if now is None else now
                gone = now - last_change(entry, now) > SILENT_SECONDS
            if gone:
                shutil.rmtree(entry, ignore_errors=True)

    def beat(self) -> None:
        """Show that the directories of this rank's processes are in use; to be called a few times a minute."""
        for entry, _ in self._own_entries():
            with contextlib.suppress(FileNotFoundError):
                os.utime(entry)

    def units_in_hand(self, pids: Sequence[int]) -> list[str]:
        """Names of the units that processes `pids` of this rank have in their temporary directories."""
        return sorted(folder.name.split("~")[0] for folder in self.folders_of(pids))

    def folders_of(self, pids: Sequence[int]) -> list[Path]:
        """The temporary directories of processes `pids` of this rank."""
        return [entry for entry, owner in self._own_entries() if owner.pid in pids]

    def _own_entries(self) -> Iterator[tuple[Path, Owner]]:
        for entry in self._entries(self.tmp):
            owner = owner_of(entry)
            if owner is not None and owner.rank_id == self._rank_id:
                yield entry, owner

    def claim(self, plan: StoredPlan) -> StoredPlan | None:
        """Publish the plan, unless there is one; returns the plan that is there now.

        Of several processes that start at once exactly one is first.
        """
        return publish_json_once(self.plan_file, plan, StoredPlan)

    def hold(self, digest: str) -> None:
        """From now on `check_claim` sees to it that the plan stays the one with this digest."""
        self._claimed = (digest, state_of(self.plan_file))

    def check_claim(self) -> None:
        """See that the plan is still ours; called before anything is published, and cheap.

        Raises:
            PrepcliError: another command has started again in this output directory.
        """
        if self._claimed is None:
            return
        digest, before = self._claimed
        with contextlib.suppress(FileNotFoundError):
            now = state_of(self.plan_file)
            plan = None if now == before else read_document(self.plan_file, StoredPlan)
            if now == before or (plan is not None and plan.digest == digest):
                self._claimed = (digest, now)
                return
        raise PrepcliError(
            f"another command has started again in {self.out} (--overwrite) during this run, which has stopped; let "
            "one of them run alone"
        )

    def clear(self, patterns: Sequence[str]) -> None:
        """Start again: remove the job's own outputs (`patterns` below OUT) and the records of earlier runs."""
        # The plan goes first: a run that is still at work sees that, and publishes nothing more.
        for name in _CLEARED_FILES:
            (self.root / name).unlink(missing_ok=True)
        shutil.rmtree(_first_of(self.plan_file), ignore_errors=True)
        for path in self.outputs(patterns):
            path.unlink(missing_ok=True)
        for name in _CLEARED_FOLDERS:
            shutil.rmtree(self.root / name, ignore_errors=True)
        self.prepare()

    def is_record_of_a_run(self, path: str | Path) -> bool:
        """Whether a file is among the records in OUT.prepcli that a run replaces and that `clear` removes."""
        for place in (os.path.abspath, os.path.realpath):
            below = Path(os.path.relpath(place(path), place(self.root))).parts
            if below[0] in _CLEARED_FOLDERS or (len(below) == 1 and below[0] in _CLEARED_FILES):
                return True
        return False

    def outputs(self, patterns: Sequence[str]) -> Iterator[Path]:
        """Files below OUT that the job's output patterns name."""
        for pattern in patterns:
            yield from sorted(self.out.glob(pattern))

    @staticmethod
    def _entries(directory: Path) -> list[Path]:
        with contextlib.suppress(FileNotFoundError):
            return list(directory.iterdir())
        return []


def _beside(out: Path) -> Path:
    """`a/out` -> `a/out.prepcli`, also for names such as `.` that do not say what they are.

    The workspace of a link is beside its target: under two names, one directory would belong to two plans.
    """
    named = out.resolve() if out.name in ("", "..") or out.is_symlink() else out
    if not named.name:
        raise UsageError(f"{out} cannot be an output directory; give one of its own")
    if len(os.fsencode(named.name + ".prepcli")) > MAX_NAME_BYTES:
        raise UsageError(f"the name of the output directory is too long for a file system: {named.name}")
    return named.with_name(named.name + ".prepcli")


@contextlib.contextmanager
def atomic_file(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A file to write, so that readers of `path` see the old content or the new; if `durable`, also after a power cut.

    Left by an exception, the context leaves the old content.
    """
    # Not by `tempfile`, whose files their owner alone may read.
    draft = path.with_name(f".{path.name}~{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any, durable: bool = True) -> None:
    """Write a JSON document as `atomic_file` does."""
    with atomic_file(path, durable) as file:
        file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")


def publish_json_once(path: Path, content: Any, kind: type[Document]) -> Document | None:
    """Write a JSON document at `path` if there is none of type `kind`; returns the document that is there now.

    Of several processes, also on several machines, exactly one is first, and its document appears complete. None if
    another process has removed it since.
    """
    draft = path.with_name(f".{path.name}~{uuid.uuid4().hex}")
    write_json(draft, content)
    try:
        os.link(draft, path)  # fails if the name exists
    except OSError:  # it exists, or the file system has no hard links
        if read_document(path, kind) is None:
            _publish_by_folder(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return read_document(path, kind)


def _publish_by_folder(draft: Path, path: Path) -> None:
    """For file systems without hard links, and for a document torn by a power cut.

    A folder cannot be renamed to one that exists and is not empty: the first process's folder, with its document in
    it, stays beside `path`. All processes then copy that document, so none waits for another that was killed.
    """
    first, own = _first_of(path), draft.with_name(f"{draft.name}.folder")
    own.mkdir()
    try:
        os.rename(draft, own / path.name)
        os.rename(own, first)
    except OSError:
        if not first.exists():
            raise
    finally:
        shutil.rmtree(own, ignore_errors=True)
    document = (first / path.name).read_bytes()
    with atomic_file(path) as file:
        file.write(document)


def _first_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.first")


def read_document(path: Path, kind: type[Document]) -> Document | None:
    """The document of type `kind` in `path`, or None where there is none.

    A damaged file (empty, cut short or of another type, as a power failure may leave it) counts as missing, with a
    note on stderr.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        _note_damaged(path)
        return None


def _note_damaged(path: Path) -> None:
    """Say it once, although several parts of a command may read the file."""
    if path not in _damaged:
        _damaged.add(path)
        print(
            f"note: {ascii(str(path))[1:-1]} is damaged (did the machine lose power?); it is treated as missing",
            file=sys.stderr,
        )


_damaged: set[Path] = set()
"""Files that `_note_damaged` has named."""


def read_json(path: Path) -> Any:
    """The document in `path`, or None where there is none, or only a damaged one (see `read_document`)."""
    return read_document(path, object)
