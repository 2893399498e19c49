"""The toy job with a folder for each unit, and with markers as prepcli 0.3 has written them."""

from pathlib import Path
from typing import Any

from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import Run
from prepcli.engine.runs import FolderRun
from prepcli.engine.state.workspace import Workspace
from tests.engine.toy import ToyJob
from tests.support.one_process import one_process


def run(out: Path, job: ToyJob | None = None, **options: Any) -> Report:
    """Run the toy job with unit folders."""
    return _run(FolderRun, job or ToyJob(out), options)


def run_earlier(out: Path, job: ToyJob | None = None, **options: Any) -> Report:
    """Run the toy job with markers."""
    return _run(Run, job or ToyJob(out), options)


def _run(kind: type[Run | FolderRun], job: ToyJob, options: dict[str, Any]) -> Report:
    given: dict[str, Any] = {"budget": Budget(24), "steal": False} | options
    workspace = Workspace(job.out)
    with one_process(), workspace.life.at_work():
        return kind(job, workspace, RunOptions(**given)).execute()


def run_names(out: Path) -> set[str]:
    """The names of the folders of runs, finished or not."""
    return {path.parent.name for path in out.with_name(f"{out.name}.prepcli").glob("*/plan.json")}
