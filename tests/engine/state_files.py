"""The state files of a run by the names that they had when units had markers, for both kinds of runs."""

from pathlib import Path

from prepcli.engine.state.workspace import Workspace

COMMANDS = {"tarred": ("manifest-to-tarred", "--num-shards"), "shar": ("manifest-to-shar", "--shard-size")}
"""A command whose units are folders, and one whose units have markers, with the options that set their number."""


def state_file(out: Path, name: str) -> Path:
    """The file of `out` for a name such as `plan.json`, `done/<unit>.json` or `progress/rank_00000.json`."""
    workspace, path = Workspace(out), Path(name)
    folders = {"done": workspace.marker_file(path.stem), "progress": workspace.progress / path.name}
    if name == workspace.plan_file.name:
        return workspace.plan_file
    return folders.get(path.parts[0], workspace.root / name)


def markers(out: Path) -> dict[str, int]:
    """The times of the documents of the units that are done."""
    paths = Workspace(out).marker_files()
    units = {path.parent.name if path.name == "unit.json" else path.stem: path for path in paths}
    return {unit: path.stat().st_mtime_ns for unit, path in units.items() if unit != "finish"}
