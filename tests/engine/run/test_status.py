"""status: read from the files beside the output, while ranks run and after they have stopped."""

import json
import os
import shlex
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prepcli.engine.lock import locked
from prepcli.engine.publishing.publish import read_marker
from prepcli.engine.ranks.progress import RankProgress, new_progress, progress_file
from prepcli.engine.run.status import read_status
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.processes.owner import Owner
from prepcli.processes.ranks import Rank
from tests.conftest import MINI_CORPUS, SHORT_CORPUS
from tests.support.running import HANG_SECONDS, prepcli, start_prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"


def test_the_command_that_continues_does_continue(tmp_path: Path) -> None:
    out = tmp_path / "out of order"
    arguments = ["manifest-to-tarred", MANIFEST, out, "--num-shards", 6, "--rank", 1, "--world-size", 2]
    assert prepcli(*arguments).code == 0
    done = prepcli("status", out)
    assert done.code == 0
    assert "stopped" in done.out
    assert "3 of 6 done" in done.out
    status = prepcli("status", out, "--json").json
    assert len(status["missing"]) == 3
    change_directory, _, command = status["continue_with"].partition(" && ")
    assert change_directory.startswith("cd /")
    continued = shlex.split(command)
    assert continued[0] == "prepcli"
    assert prepcli(*continued[1:]).code == 0  # as one rank, which takes all of them
    finished = prepcli("status", out, "--json").json
    assert (finished["state"], finished["units_done"], finished["missing"]) == ("finished", 6, [])
    assert finished["continue_with"] is None


def test_unknown_output(tmp_path: Path) -> None:
    done = prepcli("status", tmp_path)
    assert done.code == 2
    assert "no run of prepcli is known" in done.error_line


def test_a_rank_that_comes_when_everything_is_done(tmp_path: Path) -> None:
    """It is done as well; one that never comes has not started, and later launches without work change nothing."""
    out = tmp_path / "out"
    arguments = ["prepare-texts", MANIFEST, out / "texts.json", "--world-size", 3]
    for rank, launch in ((0, "a"), (1, "a"), (0, "b"), (2, "b")):
        assert prepcli(*arguments, "--rank", rank, "--launch-id", launch).code == 0
    ranks = prepcli("status", out / "texts.json", "--json").json["ranks"]
    assert [one["state"] for one in ranks] == ["done", "done", "not_started"]


def test_watch_speaks_when_something_changes_and_ends_with_the_runs(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    watching = start_prepcli("status", first, second, "--watch", "--every", 0.1)
    assert watching.stdout is not None
    begin = [watching.stdout.readline() for _ in range(3)]
    assert ["not_started" in line for line in begin] == [False, True, True]  # the head first
    for out in (first, second):
        prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 2)
    rest, err = watching.communicate(timeout=HANG_SECONDS)
    assert watching.returncode == 0, err
    lines = rest.splitlines()
    assert len(lines) == len({line.split(maxsplit=1)[1] for line in lines})  # none says what one before has said
    for out in (first, second):
        assert [line for line in lines if str(out) in line][-1].split()[3] == "finished"


def test_a_run_has_not_stopped_while_a_rank_commits(tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 4, "--rank", 0, "--world-size", 2)
    rank = Workspace(out)

    def state() -> str:
        return read_status(Workspace(out)).state

    assert state() == "stopped"
    prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 4)
    rank.report_file.unlink()
    assert state() == "stopped"
    with locked(rank.lock_file):
        assert state() == "finishing"
    assert state() == "stopped"


def test_a_run_that_ends_while_it_is_looked_at_has_not_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 3)
    workspace = Workspace(out)
    last = workspace.marker_file("shard_000002")
    last.rename(tmp_path / last.name)
    ended = read_document(progress_file(workspace, 0), RankProgress)
    write_json(progress_file(workspace, 0), new_progress(Rank(0, 1), workspace.owner))

    def read_and_end(*arguments: Any) -> Any:
        """The rank publishes its last unit and ends after that marker has been looked for."""
        found = read_marker(*arguments)
        if found is None:
            (tmp_path / last.name).rename(last)
            write_json(progress_file(workspace, 0), ended)
        return found

    monkeypatch.setattr("prepcli.engine.run.status.read_marker", read_and_end)
    found = read_status(workspace)
    assert (found.state, found.units_done) == ("running", 2)
    assert read_status(workspace).state == "finished"


def test_a_run_that_is_finished_while_it_is_looked_at_has_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rank writes the report, and ends, after that has been looked for."""
    out = tmp_path / "out"
    prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 3)
    rank = Workspace(out)
    with locked(rank.lock_file), monkeypatch.context() as patch:
        patch.setattr("prepcli.engine.run.status.finished_report", lambda *_: None)
        assert read_status(Workspace(out)).state == "finishing"
    monkeypatch.undo()
    assert read_status(Workspace(out)).state == "finished"


def test_watch_tells_by_its_exit_code_that_a_run_has_stopped(tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 4, "--rank", 0, "--world-size", 2)
    watched = prepcli("status", out, "--watch")
    assert watched.code == 4
    assert watched.out.splitlines()[1].split()[3] == "stopped"


def test_a_rank_of_this_machine_that_was_killed_is_seen_at_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 8, "--rank", 0, "--world-size", 2)
    pid = os.fork()
    if pid == 0:
        progress = new_progress(Rank(0, 2), Owner.of_this_process("killed"))
        progress.updated = time.time() + 5
        write_json(progress_file(Workspace(out), 0), progress)
        signal.pause()
    while getattr(read_document(progress_file(Workspace(out), 0), RankProgress), "pid", None) != pid:
        time.sleep(0.01)
    assert read_status(Workspace(out)).state == "running"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    status = read_status(Workspace(out))
    assert (status.state, status.ranks[0].state) == ("stopped", "silent")


def test_the_command_of_an_output_that_was_moved_names_it_where_it_is(tmp_path: Path) -> None:
    command = ["manifest-to-tarred", MANIFEST, "out", "--num-shards", 4]
    assert prepcli(*command, cwd=tmp_path).code == 0
    place = tmp_path / "another place"
    place.mkdir()
    for name in ("out", "out.prepcli"):
        (tmp_path / name).rename(place / name)
    (place / "out/audio_2.tar").unlink()
    status = prepcli("status", place / "out", "--json").json
    folder, _, continued = status["continue_with"].partition(" && ")
    words = shlex.split(continued)
    assert words == ["prepcli", *map(str, command[:2]), str(place / "out"), "--num-shards", "4"]
    assert prepcli(*words[1:], cwd=Path(shlex.split(folder)[1])).code == 0
    assert prepcli("verify", place / "out").code == 0
    assert not (tmp_path / "out").exists()


def test_slow_silent_and_missing_ranks_are_named(tmp_path: Path) -> None:
    """Four ranks of one launch: one fast, one slow, one that died without a word, one that never started."""
    out = tmp_path / "out"
    prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 8, "--rank", 3, "--world-size", 9)
    workspace = Workspace(out)
    now = time.time()
    for number, done, silent in ((0, 90.0, 0.0), (1, 10.0, 0.0), (2, 50.0, 600.0)):
        progress = new_progress(Rank(number, 4, launch_id="l"), Owner.of_this_process(f"rank{number}"))
        progress.units_total, progress.records_total, progress.seconds_total = 2, 100, 100.0
        progress.records_done, progress.seconds_done = int(done), done
        progress.started, progress.updated = now - 10 - silent, now - silent
        write_json(progress_file(workspace, number), progress)
        os.utime(progress_file(workspace, number), (now - silent,) * 2)
    status = read_status(workspace)
    assert [rank.state for rank in status.ranks] == ["running", "running", "silent", "not_started"]
    assert status.slowest_rank == 1
    assert status.eta_seconds is not None
    assert 80 < status.eta_seconds <= 90
    assert 9.5 < status.records_per_second < 10.5
    text = prepcli("status", out).out
    assert "slowest: rank 1" in text
    assert "rank 3: not_started" in text
    assert msgspec.to_builtins(status)["state"] == "running"


def test_several_outputs_are_one_table(tmp_path: Path) -> None:
    done, stopped, later = tmp_path / "done", tmp_path / "stopped", tmp_path / "later"
    prepcli("manifest-to-tarred", MANIFEST, done, "--num-shards", 2)
    prepcli("manifest-to-tarred", MANIFEST, stopped, "--num-shards", 4, "--rank", 0, "--world-size", 2)
    shown = prepcli("status", done, done.with_name("done.prepcli"), stopped, later)
    assert shown.code == 0, shown.err
    table, details = shown.out.split("\n\n", 1)
    rows = [line.split() for line in table.splitlines()[1:]]
    assert [(row[0], row[2], row[3], row[4]) for row in rows] == [
        (str(done), "finished", "100%", "2/2"),
        (str(stopped), "stopped", rows[1][3], "2/4"),
        (str(later), "not_started", "0%", "0/0"),
    ]
    assert len({len(line) for line in table.splitlines()}) == 1
    assert "continue with: cd" in details
    assert [one["state"] for one in json.loads(prepcli("status", done, stopped, later, "--json").out)] == [
        "finished",
        "stopped",
        "not_started",
    ]


def test_records_that_a_run_divides_are_counted_by_their_parts(tmp_path: Path) -> None:
    out = tmp_path / "windows.json"
    done = prepcli("segment", MINI_CORPUS / "long", out, "--by", "windows", "--window", 2)
    assert done.code == 0, done.err
    status = prepcli("status", out, "--json").json
    assert (status["records_in"], status["records_out"]) == (9, 8)
    assert isinstance(status["records_in"], int)
