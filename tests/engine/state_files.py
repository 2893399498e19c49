"""The files beside an output: those of its run, and those of the output itself."""

from pathlib import Path

from prepcli.engine.state.workspace import Workspace

OF_THE_RUN = ("plan.json", "units", "progress")


def state_file(out: Path, name: str) -> Path:
    """The file of `out` for a name such as `owner.json`, `plan.json` or `units/<unit>/unit.json`."""
    workspace = Workspace(out)
    return (workspace.run if Path(name).parts[0] in OF_THE_RUN else workspace.root) / name


def markers(out: Path) -> dict[str, int]:
    """The times of the documents of the units that are done."""
    times = {path.parent.name: path.stat().st_mtime_ns for path in Workspace(out).marker_files()}
    times.pop("finish", None)
    return times
