"""The runs of prepcli that made an output, from their state in `OUT.prepcli/`."""

from datetime import datetime
from pathlib import Path

import msgspec

from prepcli.engine.run.report import Report
from prepcli.engine.run.status import read_status, workspaces_of
from prepcli.engine.state.plan import AUDIO_BASE_DIRS, StoredPlan
from prepcli.engine.state.stored_units import find_plan
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import UsageError
from prepcli.jobs.records import OWN_AUDIO
from prepcli.storage.paths import AnyPath


class RunFacts(msgspec.Struct):
    """A run of prepcli and its progress.

    `run_with` is the command as typed, `run_in` the folder that was current then. `planned` and `finished` are local
    times; `finished` is None until the run has ended.
    """

    command: str
    out: str
    part: str
    state: str
    run_with: str
    run_in: str
    planned: str
    finished: str | None
    prepcli: str | None
    units_done: int
    units: int
    records_in: int
    records_out: int
    rejects: dict[str, int]
    rejects_file: str
    audio_base_dirs: list[str]
    """Base folders of relative audio paths in the manifests of the run; empty if the run wrote the audio itself."""
    continue_with: str | None


def runs_of(out: AnyPath, part: str | None = None) -> list[RunFacts]:
    """The runs that made `out` or added to it, from `OUT.prepcli` next to it; empty if that does not exist.

    With `part`, only the run that made that part (`codes_<name>`).
    """
    if out.is_symlink():
        out = out.resolve()
    try:
        workspaces = workspaces_of(out)
    except UsageError:
        return []  # no run can write to such a path: /, or a corpus that is not unpacked yet
    wanted = [workspace for workspace in workspaces if part is None or workspace.root.name == part]
    plans = [(workspace, find_plan(workspace)) for workspace in wanted]
    return [_facts(workspace, plan) for workspace, plan in plans if plan is not None]


def _facts(workspace: Workspace, plan: StoredPlan) -> RunFacts:
    status = read_status(workspace)
    report = read_document(workspace.report_file, Report)
    finished = status.state == "finished"
    shared = {name: getattr(status, name) for name in RunFacts.__struct_fields__ if hasattr(status, name)}
    return RunFacts(
        **shared,
        run_with=plan.run_with,
        run_in=plan.run_in,
        planned=_when(workspace.plan_file),
        finished=_when(workspace.report_file) if finished else None,
        prepcli=report.prepcli if report else None,
        rejects_file=str(workspace.rejects_file),
        audio_base_dirs=[] if plan.settings.get(OWN_AUDIO) else plan.settings.get(AUDIO_BASE_DIRS) or [],
    )


def _when(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).isoformat(sep=" ", timespec="seconds")
