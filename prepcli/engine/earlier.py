"""Sets that prepcli 0.3 has made: their markers are read as commits, and their state is removed with them.

0.3 kept the plan, the markers `done/<unit>.json` and parts in OUT.prepcli itself, and those of an addition in
`version_<n>`.
"""

import shutil
from pathlib import Path

from prepcli.engine.ledger import Commit
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.state.plan import FINISH_UNIT, StoredPlan
from prepcli.engine.state.work_folder import undone_roots, version_of, version_roots
from prepcli.engine.state.workspace import CLEARED_FOLDERS, Workspace, read_document
from prepcli.errors import UsageError, option
from prepcli.interface.printing import printable_command

_FILES = ("plan.json", "clearing.json")
_FOLDERS = (*(name for name in CLEARED_FOLDERS if name != "units"), "units", "launches", "claims")


def earlier_commits(workspace: Workspace) -> tuple[Commit, ...]:
    """The commits of a set that 0.3 has made and finished: the set, then the additions to it.

    Raises:
        UsageError: 0.3 has begun a run, or the removal of an addition, and not finished it.
    """
    root = workspace.ledger_file.parent
    for undone in undone_roots(root):
        raise UsageError(
            f"an earlier version of prepcli has begun to remove version {version_of(undone)} of {workspace.named}, and "
            f"has not finished: finish it with that version ({option('--undo-concat')})"
        )
    commits = []
    for folder in (root, *version_roots(root)):
        plan = read_document(folder / "plan.json", StoredPlan)
        if plan is None:
            continue
        if read_document(folder / "done" / f"{FINISH_UNIT.id}.json", Marker) is None:
            raise UsageError(
                f"{workspace.named} was begun by an earlier version of prepcli, and is not finished: finish it with "
                f"that version ({printable_command(plan.run_with)}), or move {workspace.named} and {root} away"
            )
        part = "" if folder == root else folder.name
        commits.append(Commit(part, plan.command, plan.digest, part))
    return tuple(commits)


def remove_state(root: Path) -> None:
    """Remove the state of a run of 0.3 from its folder, after its files were removed or replaced."""
    for name in _FILES:
        (root / name).unlink(missing_ok=True)
    for note in (root / "owned").glob("*.json"):  # digests of files that users may change stay
        note.unlink(missing_ok=True)
    for name in _FOLDERS:
        shutil.rmtree(root / name, ignore_errors=True)
