"""Runs of the toy job in one process, and what they leave."""

import shutil
from pathlib import Path
from typing import Any

import msgspec

from prepcli.engine.ledger import LEDGER_FILE, Ledger
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.runs import FolderRun
from prepcli.engine.state.plan import UNITS_FOLDER, StoredPlan
from prepcli.engine.state.workspace import Workspace
from tests.conftest import tree
from tests.engine.toy import ToyJob
from tests.support.one_process import one_process


def run(out: Path, job: ToyJob | None = None, **options: Any) -> Report:
    """Run the toy job."""
    given: dict[str, Any] = {"budget": Budget(24), "steal": False} | options
    workspace = Workspace(out)
    with one_process():
        return FolderRun(job or ToyJob(out), workspace, RunOptions(**given)).execute()


def reference(folder: Path, **job: Any) -> dict[str, str]:
    """The files of a run of the toy job that nothing disturbs, made in `folder/reference`."""
    run(folder / "reference", ToyJob(folder / "reference", **job))
    return tree(folder / "reference")


def run_names(out: Path) -> set[str]:
    """The names of the folders of runs, finished or not."""
    return {path.parent.name for path in out.with_name(f"{out.name}.prepcli").glob("*/plan.json")}


def begun_workspace(out: Path) -> Workspace:
    """A workspace with the folder of a run, in which units can be made."""
    workspace = Workspace(out)
    workspace.enter(workspace.root / "0123456789abcdef")
    workspace.prepare()
    return workspace


def as_of_earlier(out: Path) -> None:
    """Change the state of a finished output to what prepcli 0.3 has left: markers in `done/`, and no `owner.json`."""
    root = out.with_name(f"{out.name}.prepcli")
    ledger = msgspec.json.decode((root / LEDGER_FILE).read_bytes(), type=Ledger)
    for commit in ledger.commits:
        folder, state = root / commit.folder, root / commit.part
        for unit in (folder / "units").iterdir():
            for path in sorted(unit.rglob("*")):
                name = path.relative_to(unit)
                target = state / (f"done/{unit.name}.json" if path.name == "unit.json" else name)
                if path.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.rename(target)
        plan = msgspec.json.decode((folder / "plan.json").read_bytes(), type=StoredPlan)
        (state / UNITS_FOLDER).mkdir(exist_ok=True)
        (folder / "units.jsonl").rename(state / UNITS_FOLDER / f"{plan.digest[:16]}.jsonl")
        (folder / "progress").rename(state / "progress")
        plan.part = plan.built_on = plan.base = plan.replaces = ""
        (state / "plan.json").write_bytes(msgspec.json.encode(plan))
        shutil.rmtree(folder)
    (root / LEDGER_FILE).unlink()
