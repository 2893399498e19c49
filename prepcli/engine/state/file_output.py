"""A run whose output is one file: its workspace is next to the file, `OUT.json.prepcli/` next to `OUT.json`."""

import os
from pathlib import Path

from prepcli.engine.state.plan import StoredPlan
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.storage.paths import AnyPath


class FileWorkspace(Workspace):
    """The workspace of a run that writes one file and, possibly, others into a folder next to it.

    `out` is the folder of the file, because published names are relative to it; `named` is the file.
    """

    def __init__(self, file: Path) -> None:
        file = real_file(file)
        super().__init__(file.parent, Workspace(file).root)
        self.named = file


def real_file(out: Path) -> Path:
    """The file to write for `out`: for a link, its target, so that the link stays."""
    return Path(os.path.realpath(out)) if out.is_symlink() else out


def workspace_of(out: AnyPath, work_dir: Path | None = None) -> Workspace:
    """The workspace of the run that made `out`, a directory or a file; `work_dir` as in `Workspace`."""
    workspace = Workspace(out, work_dir=work_dir)
    plan = read_document(workspace.plan_file, StoredPlan)
    return FileWorkspace(out) if isinstance(out, Path) and plan is not None and plan.writes_file else workspace
