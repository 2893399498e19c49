"""Which units a rank makes next: first those that no rank is making, then the one that was begun first."""

import os
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.ranks.drafts import drafts_of_others, units_at_work, units_to_help_with
from prepcli.engine.ranks.progress import new_progress, progress_file
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.processes.owner import Owner
from prepcli.processes.ranks import Rank

UNITS = [Unit(name, 1.0, 1) for name in ("a", "b", "c")]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path / "out")
    workspace.tmp.mkdir(parents=True)
    workspace.progress.mkdir()
    return workspace


def draft(workspace: Workspace, unit: str, rank_id: str, age: float = 0.0, **changes: Any) -> str:
    """A temporary folder as the rank `rank_id` makes it; its process is this one, unless `changes` say otherwise."""
    owner = Owner.of_this_process(rank_id)._replace(**changes)
    progress = new_progress(Rank(len(list(workspace.progress.glob("*")))), owner)
    write_json(progress_file(workspace, progress.rank), progress)  # its sign of life
    folder = workspace.tmp / f"{unit}~{owner}~{len(list(workspace.tmp.iterdir()))}"
    folder.mkdir()
    os.utime(folder, (1e9 - age, 1e9 - age))
    return folder.name


def chosen(workspace: Workspace) -> list[str]:
    return [unit.id for unit in units_to_help_with(workspace, UNITS, drafts_of_others(workspace))]


def test_units_that_no_rank_is_making_come_first(workspace: Workspace) -> None:
    assert chosen(workspace) == ["a", "b", "c"]
    draft(workspace, "b", "other")
    draft(workspace, "c", workspace.rank_id)
    assert chosen(workspace) == ["a", "c"], "own folders do not count"


def test_then_the_unit_that_was_begun_first(workspace: Workspace) -> None:
    for unit, age in (("a", 1.0), ("b", 3.0), ("c", 2.0)):
        draft(workspace, unit, "other", age)
    assert chosen(workspace) == ["b"]
    draft(workspace, "b", "third")
    assert chosen(workspace) == ["c"], "two ranks are making b"
    for unit in ("a", "c"):
        draft(workspace, unit, "third")
    assert chosen(workspace) == []


def test_what_a_rank_has_left_that_ended_does_not_count(workspace: Workspace) -> None:
    draft(workspace, "a", "other", started=1)  # another process has the number now
    draft(workspace, "b", "other")
    assert chosen(workspace) == ["a", "c"]


def test_the_folders_of_one_unit(workspace: Workspace) -> None:
    first, second = draft(workspace, "a", "other"), draft(workspace, "aa", "other")
    draft(workspace, "a", workspace.rank_id)
    (workspace.tmp / "a~17").mkdir()  # of a unit that was taken back
    assert drafts_of_others(workspace, "a") == [first]
    assert drafts_of_others(workspace) == sorted([first, second])


def test_units_of_each_rank(workspace: Workspace) -> None:
    ranks = [new_progress(Rank(number, 2), Owner.of_this_process(f"rank{number}")) for number in range(2)]
    for unit, rank_id in (("c", "rank1"), ("a", "rank1"), ("a", "rank1"), ("b", "earlier")):
        draft(workspace, unit, rank_id)
    assert units_at_work(workspace, ranks) == {1: ["a", "c"]}
