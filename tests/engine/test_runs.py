"""Runs with unit folders: what they share, how they start again, and what happens to files that were changed."""

import os
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.processes.ranks import Rank
from prepcli.storage.paths import NUMBER
from tests.conftest import folder_on_another_file_system, tree
from tests.engine.folder_runs import reference, run, run_names
from tests.engine.toy import ToyJob, ToyPlan

STATE = "out.prepcli"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def stop(unit: Any) -> None:
    if unit.number == 0:  # the longest ones come first
        raise RuntimeError("stopped")


def begin(out: Path, seed: int = 0, **options: Any) -> None:
    """Make all units but the last."""
    with pytest.raises(RuntimeError, match="stopped"):
        run(out, ToyJob(out, seed=seed, before_unit=stop), **options)


def made_again(out: Path, folder: Path, **options: Any) -> list[str]:
    """Run again; returns the units that were made."""
    seen = folder / "seen"
    shutil.rmtree(seen, ignore_errors=True)
    seen.mkdir()
    run(out, ToyJob(out, before_unit=lambda unit: (seen / unit.id).touch()), **options)
    return sorted(path.name for path in seen.iterdir())


# --- what a run shares with others -----------------------------------------------------------------------------------


def test_nothing_of_an_unfinished_run_is_in_the_output(out: Path, tmp_path: Path) -> None:
    begin(out)
    assert tree(out) == {}
    assert made_again(out, tmp_path) == ["unit_000"]
    assert tree(out) == reference(tmp_path)


def test_unfinished_runs_of_other_settings_share_nothing(out: Path, tmp_path: Path) -> None:
    begin(out, seed=0)
    begin(out, seed=1)
    assert len(run_names(out)) == 2
    assert run(out, ToyJob(out, seed=1)).status == "done"
    assert tree(out) == reference(tmp_path, seed=1)


def test_a_run_of_other_settings_is_refused_at_its_start(out: Path) -> None:
    run(out)
    before = tree(out)
    with pytest.raises(UsageError, match=r"made differently: --seed was 0, now 1"):
        run(out, ToyJob(out, seed=1))
    assert (tree(out), len(run_names(out))) == (before, 1)


def test_a_run_that_loses_the_race_is_refused_and_keeps_its_units(out: Path, tmp_path: Path) -> None:
    def be_late(unit: Unit) -> None:
        if unit.id == "unit_000":
            run(out)

    other = ToyJob(out, seed=1, before_unit=be_late)
    with pytest.raises(UsageError, match="was made by another run of toy meanwhile: choose another output"):
        run(out, other)
    assert tree(out) == reference(tmp_path)
    with pytest.raises(UsageError, match="made differently"):  # the units alone do not replace the output
        run(out, ToyJob(out, seed=1))
    assert tree(out) == tree(tmp_path / "reference")
    assert run(out, ToyJob(out, seed=1), overwrite=True).status == "done"


def test_the_same_command_started_twice(out: Path, tmp_path: Path) -> None:
    def be_late(unit: Unit) -> None:
        if unit.id == "unit_000":
            run(out)

    assert run(out, ToyJob(out, before_unit=be_late)).status == "done"
    assert tree(out) == reference(tmp_path)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_that_another_one_overwrites_changes_nothing_more(seed: int, out: Path, tmp_path: Path) -> None:
    """One with the same settings has nothing more to do."""

    def overwrite(unit: Unit) -> None:
        if unit.id == "unit_000":
            run(out, ToyJob(out, seed=1), overwrite=True)

    job = ToyJob(out, seed=seed, before_unit=overwrite)
    with pytest.raises(UsageError, match="made by another run") if seed == 0 else nullcontext():
        run(out, job)
    assert tree(out) == reference(tmp_path, seed=1)


# --- generations -----------------------------------------------------------------------------------------------------


def test_an_output_stays_whole_until_it_is_replaced(out: Path, tmp_path: Path) -> None:
    run(out)
    before = tree(out)
    begin(out, seed=1, overwrite=True)
    assert tree(out) == before
    assert run(out, ToyJob(out, seed=1)).status == "done"  # which `--overwrite` has begun
    assert tree(out) == reference(tmp_path, seed=1)
    assert len(run_names(out)) == 1


def test_overwriting_makes_everything_again(out: Path, tmp_path: Path) -> None:
    run(out)
    assert len(made_again(out, tmp_path, overwrite=True)) == 6
    assert len(made_again(out, tmp_path, overwrite=True)) == 6


def test_only_units_with_rejects_are_tried_again(out: Path, tmp_path: Path) -> None:
    run(out, ToyJob(out, bad=frozenset({4, 9})))
    assert made_again(out, tmp_path, retry_rejects=True) == ["unit_001", "unit_002"]
    assert tree(out) == reference(tmp_path)
    assert run(out, retry_rejects=True).status == "nothing_to_do"


@pytest.mark.parametrize("option", ["overwrite", "retry_rejects"])
def test_a_requeued_job_continues_its_generation(option: str, out: Path, tmp_path: Path) -> None:
    job = ToyJob(out, bad=frozenset({1, 4, 9}))
    run(out, job)
    first, second = (Rank(job_id="slurm-7.0", restarts=restarts) for restarts in (0, 1))
    options: dict[str, Any] = {option: True}
    begin(out, **options, rank=first)
    assert made_again(out, tmp_path, **options, rank=second) == ["unit_000"]
    assert tree(out) == reference(tmp_path)
    assert made_again(out, tmp_path, **options, rank=second) == []


def test_the_second_command_of_a_job_overwrites_again(out: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert len(made_again(out, tmp_path, overwrite=True, rank=Rank(job_id="slurm-7.batch"))) == 6


@pytest.mark.parametrize("option", ["overwrite", "retry_rejects"])
def test_several_ranks_need_a_launch_id(option: str, out: Path) -> None:
    options: dict[str, Any] = {option: True}
    run(out)
    with pytest.raises(UsageError, match="--launch-id"):
        run(out, rank=Rank(0, 2), **options)


def test_ranks_of_a_launch_make_one_generation(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(out)
    ranks = [Rank(number, 2, launch_id="monday") for number in range(2)]
    made = [made_again(out, tmp_path, overwrite=True, rank=rank) for rank in ranks]
    assert sorted(made[0] + made[1]) == [f"unit_{number:03d}" for number in range(6)]
    late = Rank(2, 3, launch_id="monday")
    assert made_again(out, tmp_path, overwrite=True, rank=late) == []
    assert "monday" not in capsys.readouterr().err
    assert made_again(out, tmp_path, overwrite=True, rank=ranks[0]) == []
    assert "the launch monday has made" in capsys.readouterr().err


def test_a_rank_makes_what_others_have_left(out: Path, tmp_path: Path) -> None:
    rank = Rank(1, 3, launch_id="monday")
    assert len(made_again(out, tmp_path, rank=rank, steal=True)) == 6
    assert run(out, rank=Rank(0, 3, launch_id="monday"), steal=True).status == "nothing_to_do"
    assert tree(out) == reference(tmp_path)


# --- files that were lost or changed ---------------------------------------------------------------------------------


def test_lost_and_damaged_files_are_made_again(out: Path, tmp_path: Path) -> None:
    run(out)
    for _ in range(2):  # the second time as well
        (out / "unit_002.txt").unlink()
        (out / "unit_004.txt").write_bytes(b"short")
        with (out / "unit_005.txt").open("ab") as file:
            file.write(b"more")
        assert made_again(out, tmp_path) == ["unit_002", "unit_004", "unit_005"]
        assert tree(out) == reference(tmp_path)
        assert len(run_names(out)) == 1
    kept = sorted((tmp_path / STATE / "kept").iterdir())
    assert [path.read_bytes() for path in kept if path.name.startswith("unit_004")] == [b"short", b"short"]


def test_a_lost_merged_file_is_made_again(out: Path, tmp_path: Path) -> None:
    run(out)
    (out / "all.txt").unlink()
    assert made_again(out, tmp_path) == []
    assert tree(out) == reference(tmp_path)


def test_a_changed_file_is_kept_when_it_is_replaced(out: Path, tmp_path: Path) -> None:
    run(out)
    (out / "list/unit_003.txt").write_text("mine")
    run(out, ToyJob(out, seed=1), overwrite=True)
    assert tree(out) == reference(tmp_path, seed=1)
    assert (tmp_path / STATE / "kept/list/unit_003.txt").read_text() == "mine"


def test_a_changed_file_that_readers_would_take_for_a_part_is_refused(out: Path) -> None:
    run(out)
    (out / "unit_003.txt").write_text("mine")
    before = tree(out)
    with pytest.raises(UsageError, match=r"unit_003.txt \(changed since\)"):
        run(out, ToyJob(out, seed=1), overwrite=True)
    assert tree(out) == before


def test_files_of_others_under_names_of_ours_are_refused(out: Path) -> None:
    (out / "list").mkdir(parents=True)
    (out / "list/unit_003.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"list/unit_003.txt is there already"):
        run(out)
    assert set(tree(out)) == {"list/unit_003.txt"}
    (out / "list/unit_003.txt").unlink()
    assert run(out).status == "done"


def test_other_files_stay(out: Path) -> None:
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    run(out)
    run(out, ToyJob(out, num_units=2), overwrite=True)
    units = ("unit_000.txt", "unit_001.txt")
    assert set(tree(out)) == {"all.txt", "notes.txt", *units, *(f"list/{unit}" for unit in units)}


def test_a_copy_is_as_good_as_the_original(out: Path, tmp_path: Path) -> None:
    """A copy by `cp -r` has other times; then the content shows that the files are ours."""
    run(out)
    for name in ("out", STATE):
        shutil.copytree(tmp_path / name, tmp_path / "copied" / name, copy_function=shutil.copyfile)
    copied = tmp_path / "copied/out"
    for path in copied.rglob("*.txt"):
        os.utime(path, (1, 1))
    assert run(copied).status == "nothing_to_do"
    run(copied, ToyJob(copied, num_units=2), overwrite=True)
    assert tree(copied) == reference(tmp_path, num_units=2)


# --- what is noticed at the start ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [STATE, "out/list"])
def test_another_file_system_is_noticed_at_the_start(name: str, out: Path, tmp_path: Path) -> None:
    class Job(ToyJob):
        def output_patterns(self, plan: ToyPlan) -> Sequence[str]:
            return (*super().output_patterns(plan), f"list/unit_{NUMBER}.txt")

    other = folder_on_another_file_system(tmp_path)
    try:
        out.mkdir()
        (tmp_path / name).symlink_to(other)
        with pytest.raises(UsageError, match="on another file system than"):
            run(out, Job(out, before_unit=stop))
        assert list(tmp_path.glob(f"{STATE}/*/units/*")) == []
    finally:
        shutil.rmtree(other)


def test_an_input_in_the_state_of_the_run_is_not_lost(out: Path) -> None:
    class Job(ToyJob):
        def input_files(self, plan: Any) -> Any:
            return [Workspace(out).run / "units/unit_001/unit.json"]

    run(out)
    with pytest.raises(UsageError, match="belongs to the state of"):
        run(out, Job(out), overwrite=True)


def test_another_limit_of_rejects_changes_nothing_but_the_report(out: Path) -> None:
    run(out, budget=Budget(0))
    names = run_names(out)
    assert run(out, budget=Budget(24)).status == "nothing_to_do"  # which writes the new limit into `report.json`
    assert run(out, budget=Budget(24)).status == "nothing_to_do"
    assert run_names(out) == names
