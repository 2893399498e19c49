"""One index: written, or compared with its data. Runs in worker processes."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from prepcli.engine.owner import Owner, new_rank_id, owner_of
from prepcli.engine.workspace import flush_folders
from prepcli.errors import InputChangedError, naming
from prepcli.formats.indexes import DamagedError, index_problem, is_current, make_index
from prepcli.indexing.sets import DataFile
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.input_files import check_unchanged, state_of
from prepcli.storage.paths import StorePath

_RUN = new_rank_id()  # worker processes inherit it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an index; `problem` is a line for the user, without the path of the data."""

    file: DataFile
    written: bool = False
    num_records: int = 0
    problem: str | None = None


def needs_index(file: DataFile) -> bool:
    """Whether a file has no index that can be its own: none, one of another size, or one that is older.

    Raises:
        OSError: the data file is not there.
    """
    return not is_current(file.index, file.path.stat())


def write_index(file: DataFile) -> Outcome:
    """Make the index of a file and put it into place at once."""
    try:
        before = state_of(file.path)
        content = make_index(file.path, file.kind)
        check_unchanged(file.path, before)
    except DamagedError as error:
        return Outcome(file, problem=f"has no index: {error}")
    except InputChangedError:
        return Outcome(file, problem="has no index: it was changed while it was read; run the same command again")
    except OSError as error:
        return Outcome(file, problem=f"has no index: it cannot be read: {error.strerror or error}")
    _publish(file.index, content, before.mtime_ns)
    return Outcome(file, True, len(content) // 8 - 1)


def _publish(index: Path, content: bytes, data_mtime_ns: int) -> None:
    """Write a draft beside the index and rename it; a draft that a killed process has left is recognized by its name.

    The clock of the file system may be behind that of the machine that wrote the data: an index is never older.
    """
    if isinstance(index, StorePath):
        call(client.put_object, str(index), content)  # it appears whole, and with the time of the store
        return
    new = [one for one in (index.parent, *index.parent.parents) if not one.exists()]
    index.parent.mkdir(parents=True, exist_ok=True)
    draft = index.with_name(f".{index.name}~{Owner.of_this_process(_RUN)}~")
    try:
        with naming(index), draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            now = os.fstat(file.fileno()).st_mtime_ns
        if now < data_mtime_ns:
            os.utime(draft, ns=(data_mtime_ns, data_mtime_ns))
        os.replace(draft, index)
        flush_folders([index.parent, *(one.parent for one in new)])
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def remove_drafts(folder: Path) -> None:
    """Remove what killed processes have left in a folder of indexes; in a store there is nothing."""
    if isinstance(folder, StorePath):
        return
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.startswith(".") and ".idx~" in entry.name:
                owner = owner_of(Path(entry.path))
                if owner is not None and owner.is_gone:
                    Path(entry.path).unlink(missing_ok=True)


def check_index(file: DataFile) -> Outcome:
    """Compare an index with its data."""
    advice = "readers do not notice and read wrong bytes; run prepcli index again, with --overwrite"
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
