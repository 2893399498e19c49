"""Drafts of files that a killed process has left: the next write into the folder removes them, and no others."""

import os
import signal
from multiprocessing import get_context
from pathlib import Path

from prepcli.engine.state import workspace
from prepcli.engine.state.workspace import atomic_file, draft_of, replaced_file


def write_and_die(path: Path) -> None:
    with atomic_file(path):
        os.kill(os.getpid(), signal.SIGKILL)


def test_drafts_of_dead_processes_go(tmp_path: Path) -> None:
    left = get_context("fork").Process(target=write_and_die, args=(tmp_path / "left.json",))
    left.start()
    left.join()
    others = [draft_of(tmp_path / "mine.json"), tmp_path / ".left.json~", tmp_path / f".left.json~{'0' * 32}"]
    for path in others:
        path.write_text("kept")
    assert len([*tmp_path.iterdir()]) == 1 + len(others)
    workspace._swept.clear()
    with replaced_file(tmp_path / "new.json") as file:
        file.write(b"{}")
    assert {*tmp_path.iterdir()} == {tmp_path / "new.json", *others}


def test_a_long_name_has_a_draft(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 120 + ".json")
    with atomic_file(path) as file:
        file.write(b"1")
    assert [*tmp_path.iterdir()] == [path]
