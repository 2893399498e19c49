"""`owner.json`: which runs have made the files of an output, and which change of the output is under way.

An output changes from one list of commits to another: `commits` is the list that holds, `pending` the list that is
being brought about. A commit names the folder of a run, whose unit documents name the files. So every file of the
output is known to be ours, by a document that was on disk before the file appeared, or known not to be ours.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

LEDGER_FILE = "owner.json"
"""The file, in the folder with the state of an output."""
LEDGER_FORMAT = 1
_RUN_FOLDER = re.compile(r"[0-9a-f]{16}(\.[^/]+)?")
_PART = re.compile(r"version_[0-9]{1,9}")


class Commit(msgspec.Struct, frozen=True):
    """A run whose files are in the output.

    Attributes:
        folder: the name of the run's folder next to `owner.json`.
        command: the name of its command.
        digest: the digest of its plan.
        part: the name of the folder with its report and its rejects; empty for the run that made the output itself,
            `version_<n>` for one that has added to it.
    """

    folder: str
    command: str
    digest: str
    part: str = ""


class Pending(msgspec.Struct, frozen=True):
    """A change that has begun.

    Attributes:
        commits: the commits after it.
        obsolete: further files of OUT that are removed: indexes of removed files, which any program may have written.
        is_cleared: whether the files of the commits that leave are removed.
        run_with: the shell command that makes the change; if it was interrupted, the command completes it.
        begun: as in `Ledger`, after the change.
    """

    commits: tuple[Commit, ...]
    obsolete: tuple[str, ...] = ()
    is_cleared: bool = False
    run_with: str = ""
    begun: Commit | None = None


class Ledger(msgspec.Struct, frozen=True):
    """The content of `owner.json`.

    Attributes:
        commits: the commits of the output, in order: the run that made it, then those that have added to it.
        pending: the change that is under way; None if there is none.
        begun: for an output in a store, the run that writes objects to it, which is not committed yet. No other run
            writes there until that run is committed or replaced.
    """

    commits: tuple[Commit, ...] = ()
    pending: Pending | None = None
    format: int = LEDGER_FORMAT
    begun: Commit | None = None

    @property
    def writer(self) -> Commit | None:
        """The run that may write objects to a store now; None if there is none."""
        return self.begun if self.pending is None else self.pending.begun

    def of_part(self, part: str) -> Commit | None:
        """The commit of a part of the output; None if there is none."""
        return next((commit for commit in self.commits if commit.part == part), None)

    def change_of(self, part: str) -> Pending | None:
        """The change that is under way, if it replaces or removes files of a part of the output, or makes it."""
        if self.pending is None or Ledger(self.pending.commits).of_part(part) == self.of_part(part):
            return None
        return self.pending

    def with_commit(self, commit: Commit) -> tuple[Commit, ...]:
        """The commits after `commit` has taken the place of the one of the same part, or was added at the end."""
        if self.of_part(commit.part) is None:
            return (*self.commits, commit)
        return tuple(commit if one.part == commit.part else one for one in self.commits)


def state_root(root: Path) -> Path:
    """The folder with `owner.json` for `root`, the folder of the output or of one of its parts."""
    return root.parent if _PART.fullmatch(root.name) else root


def part_of(root: Path) -> str:
    """The part whose report and rejects are in the folder `root`; empty for the output itself."""
    return root.name if _PART.fullmatch(root.name) else ""


def is_run_folder(name: str) -> bool:
    """Whether a folder with this name, next to `owner.json`, is that of a run."""
    return _RUN_FOLDER.fullmatch(name) is not None


def run_folders(root: Path) -> Iterator[Path]:
    """The folders of runs in a folder with `owner.json`, finished or not."""
    if os.path.isdir(root):  # unlike `Path.is_dir`, it accepts a name that is too long
        yield from (path for path in sorted(root.iterdir()) if is_run_folder(path.name) and path.is_dir())


def is_pending(root: Path) -> bool:
    """Whether a change of the output with this state folder is under way, or was interrupted."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((root / LEDGER_FILE).read_bytes(), type=Ledger).pending is not None
    return False
