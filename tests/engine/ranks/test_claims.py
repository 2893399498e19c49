"""Claims: one rank at a time does a piece of work, and the work of a dead rank goes on."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.ranks import claims as module
from prepcli.engine.ranks.claims import Claims, owners
from prepcli.processes.owner import Life, Owner


def life(folder: Path, rank_id: str) -> Life:
    return Life(folder / "claims", rank_id)


def rank(folder: Path, number: int, **silence: float) -> Claims:
    found = Claims(folder / "claims", number, life(folder, f"rank{number}x{os.getpid()}"), **silence)
    found.begin()
    return found


def holders(folder: Path) -> dict[str, int]:
    return {name: rank for name, (rank, _) in owners(folder).items()}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processes cannot look each other up, as on different machines."""
    monkeypatch.setattr(Owner, "is_gone", None)
    yield


def test_one_of_two_gets_it(tmp_path: Path) -> None:
    first, second = rank(tmp_path, 0), rank(tmp_path, 1)
    assert first.take("unit")
    assert first.take("unit"), "it is its own"
    assert first.is_free("unit")
    assert not second.is_free("unit")
    assert not second.take("unit")
    assert holders(tmp_path / "claims") == {"unit": 0}
    first.release("unit")
    assert second.is_free("unit")
    assert second.take("unit")
    assert holders(tmp_path / "claims") == {"unit": 1}


def test_a_rank_gives_up_only_its_own_claims(tmp_path: Path) -> None:
    first, second = rank(tmp_path, 0), rank(tmp_path, 1)
    assert first.take("a") and second.take("b")
    second.give_up()
    assert holders(tmp_path / "claims") == {"a": 0}


def test_the_claim_of_an_ended_process_is_void(tmp_path: Path) -> None:
    process = get_context("fork").Process(target=lambda: rank(tmp_path, 0).take("unit"))
    process.start()
    process.join()
    second, third = rank(tmp_path, 1), rank(tmp_path, 2)
    assert second.take("unit")
    assert not third.take("unit"), "only one takes over"
    assert holders(tmp_path / "claims") == {"unit": 1}


@pytest.mark.usefixtures("elsewhere")
def test_a_silent_rank_loses_its_claim_and_a_beating_one_does_not(tmp_path: Path) -> None:
    silent, beating, other = rank(tmp_path, 0), rank(tmp_path, 1), rank(tmp_path, 2, silence=0.05)
    assert silent.take("a") and beating.take("b")
    assert not other.take("a"), "nothing is known of its silence yet"
    assert not other.take("b")
    for _ in range(8):
        time.sleep(0.02)
        beating._life.beat()
        assert not other.take("b")
    assert other.take("a")


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("shift", [-3600, 3600])
def test_clocks_that_differ_by_an_hour_change_nothing(tmp_path: Path, shift: int) -> None:
    beating, other = rank(tmp_path, 0), rank(tmp_path, 1, silence=0.05)
    beating._life.beat()
    assert beating.take("unit")
    for _ in range(6):
        beating._life.beat()
        for path in (tmp_path / "claims").iterdir():
            os.utime(path, (time.time() + shift, time.time() + shift))
        assert not other.take("unit")
        time.sleep(0.02)


def test_an_empty_claim_of_a_killed_process_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has signed it, so it is not waited for as long as for a rank that may be at work."""
    monkeypatch.setattr(module, "EMPTY_SECONDS", 0.05)
    other = rank(tmp_path, 0)
    (tmp_path / "claims" / "unit.0").touch()
    assert not other.take("unit")
    time.sleep(0.1)
    assert other.take("unit")


def test_a_rank_that_is_stopped_before_it_signs_its_claim_loses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, other, write = rank(tmp_path, 0), rank(tmp_path, 1, silence=0.0), os.write

    def stopped(file: int, name: bytes) -> int:
        monkeypatch.setattr(os, "write", write)
        assert not other.take("unit"), "the claim may be just being signed"
        time.sleep(0.01)
        assert other.take("unit")
        return write(file, name)

    monkeypatch.setattr(os, "write", stopped)
    assert not late.take("unit")
    assert not late.is_free("unit") and not late.take("unit"), "its own claim does not count any more"
    assert holders(tmp_path / "claims") == {"unit": 1}


@pytest.mark.parametrize("error", [FileNotFoundError, FileExistsError])
def test_the_folder_is_removed_while_it_is_made_again(
    error: type[OSError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a rank that has ended the run, and removes all claims."""
    late = rank(tmp_path, 0)
    shutil.rmtree(tmp_path / "claims")
    mkdir, attempts = Path.mkdir, []

    def failing(path: Path, *_: object, **__: object) -> None:
        raise error(path)

    def failing_once(path: Path, *some: Any, **more: Any) -> None:
        attempts.append(path)
        if len(attempts) == 1:
            raise error(path)
        mkdir(path, *some, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", failing_once)
        late.begin()
    shutil.rmtree(tmp_path / "claims")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", failing)
        assert not late.take("finish")
    assert not late.take("finish")
    assert late.take("finish"), "the folder is there again"


def test_the_folder_is_removed_while_it_is_listed(tmp_path: Path) -> None:
    """Python's `glob` then finds a folder, and fails to open it."""
    late = rank(tmp_path, 0)
    remaining = [tmp_path / "claims"]

    def remove(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.scandir" and remaining and str(arguments[0]) == str(remaining[0]):
            shutil.rmtree(remaining.pop())

    sys.addaudithook(remove)  # it stays; without a folder to remove it does nothing
    late.give_up()
    assert not remaining
    assert not (tmp_path / "claims").exists()
    (tmp_path / "claims").mkdir()
    assert owners(tmp_path / "claims") == {}


def test_no_hard_links_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no hard links")

    monkeypatch.setattr(os, "link", refuse)
    first, second = rank(tmp_path, 0), rank(tmp_path, 1)
    assert first.take("unit")
    assert not second.take("unit")
