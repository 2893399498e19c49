"""Stores the units of a plan in a file of their own, one line `[id, cost, records]` each; `plan.json` stays small."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from prepcli.engine.state.folders import while_others_remove
from prepcli.engine.state.plan import PLAN_FORMAT, UNITS_FOLDER, StoredPlan, Unit
from prepcli.engine.state.workspace import Workspace, atomic_file, read_document
from prepcli.errors import UsageError, naming, option

_CHUNK = 1 << 14
"""Number of units that are written at a time."""


def write_units(workspace: Workspace, digest: str, units: Sequence[Unit]) -> int:
    """Write the units of the plan with this digest to their file; returns its size in bytes.

    The content depends on the plan alone, so several ranks may write the file at once.
    """
    path = _file(workspace, digest)
    encoder = msgspec.json.Encoder()

    def attempt() -> int:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            for start in range(0, len(units), _CHUNK):
                rows = ((unit.id, unit.cost, unit.num_records) for unit in units[start : start + _CHUNK])
                file.write(encoder.encode_lines(rows))
        return path.stat().st_size

    return while_others_remove(attempt)


def has_units(workspace: Workspace, plan: StoredPlan) -> bool:
    """Whether the file with the units of a plan exists with its full size."""
    if not plan.num_units:
        return True
    try:
        return os.stat(_file(workspace, plan.digest)).st_size == plan.units_bytes
    except OSError:
        return False


def find_plan(workspace: Workspace) -> StoredPlan | None:
    """The plan of the run in `workspace`; None if there is none, or only a damaged one.

    Raises:
        UsageError: another version of prepcli made the plan, or the file with its units is missing or damaged. Without
            the units, nothing shows whether the output is complete.
    """
    plan = read_document(workspace.plan_file, StoredPlan)
    if plan is None:
        return None
    if plan.format != PLAN_FORMAT:
        raise UsageError(
            f"another version of prepcli has made {workspace.named}: {workspace.plan_file} has format {plan.format}, "
            f"this version reads {PLAN_FORMAT}; use that version, or run {plan.command} again with "
            f"{option('--overwrite')}"
        )
    if not has_units(workspace, plan):
        raise UsageError(
            f"{_file(workspace, plan.digest)} is missing or damaged; run {plan.command} again, which writes it again"
        )
    return plan


def read_units(workspace: Workspace, plan: StoredPlan) -> list[Unit]:
    """The units of a plan that `find_plan` has found.

    Raises:
        UsageError: the file with the units is missing or damaged.
        OSError: the file cannot be read.
    """
    if not plan.num_units:
        return []
    path = _file(workspace, plan.digest)
    try:
        with naming(path):
            content = path.read_bytes()
        rows = msgspec.json.Decoder(tuple[str, float, int]).decode_lines(content)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        rows = []
    if len(rows) != plan.num_units:
        raise UsageError(f"{path} is damaged; remove it, and run {plan.command} again, which writes it again")
    return [Unit(*row) for row in rows]


def _file(workspace: Workspace, digest: str) -> Path:
    if workspace.has_unit_folders:
        return workspace.run / "units.jsonl"
    return workspace.root / UNITS_FOLDER / f"{digest[:16]}.jsonl"
