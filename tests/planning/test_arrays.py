"""Plans over arrays in files: the same as in memory, made by one rank, and mapped by all."""

import random
import time
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.planning.arrays import Scratch, Values, plan_once
from prepcli.planning.hashing import Hashes, mix64
from prepcli.planning.split import by_seconds, in_order, order_by_group, selected, shuffled
from prepcli.processes.ranks import Rank


def keys_of(draw: random.Random, count: int, distinct: int) -> Hashes:
    return mix64(np.array([draw.randrange(distinct) for _ in range(count)], np.uint64))


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("count", [1, 5, 40, 500])
def test_orders_do_not_depend_on_where_they_are_made(
    count: int, draw: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = Scratch(tmp_path)
    keys = keys_of(draw, count, 30)
    durations = np.array([draw.random() for _ in range(count)])
    found = [
        shuffled(count, 5, scratch),
        in_order(count, None, scratch),
        order_by_group(keys, scratch),
        by_seconds(durations, 0.9, scratch),
        selected(keys, np.arange(count)[::3], scratch),
    ]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    expected = [
        shuffled(count, 5, Scratch()),
        np.arange(count),
        order_by_group(keys, Scratch()),
        by_seconds(durations, 0.9),
        keys[::3],
    ]
    for one, other in zip(found, expected, strict=True):
        assert one.tolist() == other.tolist()
    seen = list(dict.fromkeys(keys.tolist()))
    assert order_by_group(keys, Scratch()).tolist() == sorted(range(count), key=lambda n: seen.index(int(keys[n])))


def workspace(folder: Path, rank: int = 0, world_size: int = 1) -> Workspace:
    found = Workspace(folder / "out")
    found.rank = Rank(rank, world_size)
    return found


def make(scratch: Scratch, log: Path) -> Values:
    with log.open("a") as file:
        file.write("made\n")
    time.sleep(0.1)
    order = scratch.empty(1000, np.int64)
    order[:] = np.arange(1000)
    return {"order": order, "none": np.zeros(0, bool), "words": ["a", 1, None]}


def check(values: Values) -> None:
    assert values["order"].tolist() == list(range(1000))
    assert values["none"].tolist() == []
    assert values["words"] == ["a", 1, None]


def test_one_rank_makes_the_plan_for_all_and_for_later_starts(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def plan(rank: int) -> None:
        check(plan_once(workspace(tmp_path, rank, 3), tmp_path, "x", partial(make, log=log)))

    processes = [get_context("fork").Process(target=plan, args=(rank,)) for rank in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    plan(0)
    assert log.read_text() == "made\n"
    check(plan_once(workspace(tmp_path), tmp_path, "y", partial(make, log=log)))
    assert log.read_text() == "made\nmade\n", "it depends on something else"


def test_a_plan_without_files_and_a_damaged_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    made = partial(make, log=log)
    check(plan_once(workspace(tmp_path), None, "x", made))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log"]
    check(plan_once(workspace(tmp_path), tmp_path, "x", made))
    (order,) = tmp_path.glob("plan-*/order.npy")
    other = tmp_path / "other.npy"
    np.save(other, np.arange(999))
    for damaged in (b"", order.read_bytes()[:-8], other.read_bytes()):
        order.write_bytes(damaged)
        check(plan_once(workspace(tmp_path), tmp_path, "x", made))
        count = len(log.read_text().splitlines())
        check(plan_once(workspace(tmp_path), tmp_path, "x", made))
        assert len(log.read_text().splitlines()) == count, "it is whole again"


def test_an_error_of_planning_is_that_of_every_rank(tmp_path: Path) -> None:
    def fail(_: Scratch) -> Values:
        raise UsageError("too few records")

    for rank in range(2):
        with pytest.raises(UsageError, match="too few"):
            plan_once(workspace(tmp_path, rank, 2), tmp_path, "x", fail)
    assert not (tmp_path / "lock").exists()
