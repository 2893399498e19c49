"""An unexpected exception as one line for the user."""

import contextlib
import errno
import traceback

from prepcli.engine.state.workspace import Workspace
from prepcli.processes.ranks import Rank


def describe_failure(error: Exception, workspace: Workspace, rank: Rank) -> str:
    """What failed and what to do; the traceback is kept in the workspace."""
    name = workspace.root / f"traceback_{rank.rank}.txt"
    kept = ""
    with contextlib.suppress(OSError):
        name.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        kept = f" (traceback in {name})"
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        found = error.filename or (workspace.root if full else None)
        where = f"{found}: " if found else ""
        return (
            f"{where}{error.strerror or error}; nothing half written was published. Correct it and run the same "
            f"command again to continue{kept}"
        )
    if isinstance(error, MemoryError):
        return (
            f"not enough memory: {' '.join(str(error).split()) or 'out of memory'}. Run the same command again to "
            "continue, with more memory, a smaller --num-workers, or (where a model runs) a smaller --batch-duration"
            f"{kept}"
        )
    return f"a bug in prepcli: {type(error).__name__}: {error}{kept}; please report it"
