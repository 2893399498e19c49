"""The two directories of a job: `OUT/` with data only, and beside it `OUT.prepcli/` with all that resuming needs."""

import contextlib
import os
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from prepcli.errors import UsageError
from prepcli.processes import no_interruption

SILENT_SECONDS = 3600.0
"""After so long without a write, a temporary directory of another machine is taken for abandoned."""


class Workspace:
    """Paths inside `OUT.prepcli/`, and the few operations on them that must be atomic.

    Everything in it may be read while a run goes on; nothing under a final name is ever half written.
    """

    def __init__(self, out: Path, root: Path | None = None) -> None:
        self.out = out
        self.root = root if root is not None else _beside(out)
        self.plan_file = self.root / "plan.json"
        self.rejects_file = self.root / "rejects.jsonl"
        self.report_file = self.root / "report.json"
        self.done = self.root / "done"
        self.progress = self.root / "progress"
        self.tmp = self.root / "tmp"
        self.launches = self.root / "launches"
        self._made: set[Path] = set()  # directories in `tmp/`

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
            made = Path(tempfile.mkdtemp(prefix=f"{name}~{_host()}~{os.getpid()}~", dir=self.tmp))
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
        """Remove what killed processes left in `tmp/`; those of other machines after a long silence."""
        for entry in self._entries(self.tmp):
            _, host, pid = (*entry.name.split("~"), "", "")[:3]
            if host == _host():
                stale = pid.isdigit() and not is_alive(int(pid))
            else:
                stale = time.time() - _last_change(entry) > SILENT_SECONDS
            if stale:
                shutil.rmtree(entry, ignore_errors=True)

    def units_in_hand(self, pids: Sequence[int]) -> list[str]:
        """Names of the units that processes `pids` of this machine have in their temporary directories."""
        owners = {(_host(), str(pid)) for pid in pids}
        names = (entry.name.split("~") for entry in self._entries(self.tmp))
        return sorted(parts[0] for parts in names if len(parts) > 2 and (parts[1], parts[2]) in owners)

    def clear(self, patterns: Sequence[str]) -> None:
        """Start again: remove the job's own outputs (`patterns` below OUT) and the records of earlier runs."""
        for path in self.outputs(patterns):
            path.unlink()
        self.report_file.unlink(missing_ok=True)
        self.plan_file.unlink(missing_ok=True)
        for name in ("done", "progress", "tmp", "rejects", "parts"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        self.rejects_file.unlink(missing_ok=True)
        self.prepare()

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
    """`a/out` -> `a/out.prepcli`, also for names such as `.` that do not say what they are."""
    named = out if out.name not in ("", "..") else out.resolve()
    if not named.name:
        raise UsageError(f"{out} cannot be an output directory; give one of its own")
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


def read_json(path: Path) -> Any:
    """The document in `path`, or None where there is none (or only a torn one, from a machine that lost power)."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def is_alive(pid: int) -> bool:
    """Whether a process with this id runs on this machine; one that has ended and that nobody has collected does not.

    In a container whose first process collects nobody's children, those of a killed process stay for good.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return True  # no /proc


def _last_change(directory: Path) -> float:
    """Seconds since the epoch at which the directory or a file in it changed last."""
    with contextlib.suppress(FileNotFoundError):
        return max(path.stat().st_mtime for path in (directory, *directory.iterdir()))
    return time.time()


def _host() -> str:
    return socket.gethostname().replace("~", "-") or "host"
