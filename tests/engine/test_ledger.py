"""`owner.json`: the list of commits, and the names of the folders beside it."""

from pathlib import Path

import pytest

from prepcli.engine.ledger import (
    LEDGER_FILE,
    Commit,
    Ledger,
    Pending,
    is_pending,
    is_run_folder,
    part_of,
    run_folders,
    state_root,
)
from prepcli.engine.state.workspace import write_json

BASE = Commit("0" * 16, "toy", "0" * 64)
ADDED = Commit("1" * 16, "toy", "1" * 64, "version_1")


def test_a_commit_replaces_that_of_its_part_or_comes_last() -> None:
    ledger = Ledger((BASE,))
    both = Ledger(ledger.with_commit(ADDED))
    assert both.commits == (BASE, ADDED)
    again = Commit(f"{BASE.folder}.again", "toy", BASE.digest)
    assert both.with_commit(again) == (again, ADDED)
    assert [both.of_part(part) for part in ("", "version_1", "version_2")] == [BASE, ADDED, None]


@pytest.mark.parametrize(
    ("name", "is_run"),
    [
        ("0123456789abcdef", True),
        ("0123456789abcdef.slurm-7.0", True),
        ("0123456789abcde", False),
        ("0123456789ABCDEF", False),
        ("0123456789abcdef.", False),
        ("version_1", False),
        ("index", False),
    ],
)
def test_names_of_runs(name: str, is_run: bool, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "fedcba9876543210").touch()  # a file, not a folder
    assert is_run_folder(name) == is_run
    assert list(run_folders(tmp_path)) == [tmp_path / name] * is_run


def test_no_runs_of_an_output_that_was_never_made(tmp_path: Path) -> None:
    assert list(run_folders(tmp_path / "nowhere")) == []


def test_the_ledger_of_a_part_is_that_of_the_output(tmp_path: Path) -> None:
    for name, root, part in (
        ("out.prepcli", "out.prepcli", ""),
        ("out.prepcli/version_12", "out.prepcli", "version_12"),
        ("out.prepcli/codes_a", "out.prepcli/codes_a", ""),
    ):
        assert (state_root(tmp_path / name), part_of(tmp_path / name)) == (tmp_path / root, part)


def test_whether_a_change_is_under_way(tmp_path: Path) -> None:
    assert not is_pending(tmp_path)
    for pending in (None, Pending((BASE,))):
        write_json(tmp_path / LEDGER_FILE, Ledger((), pending))
        assert is_pending(tmp_path) == (pending is not None)
    (tmp_path / LEDGER_FILE).write_bytes(b"damaged")
    assert not is_pending(tmp_path)
