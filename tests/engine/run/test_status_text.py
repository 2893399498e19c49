"""The text of the status: slow, silent and missing ranks, and a table of several outputs."""

import json
import os
import time
from pathlib import Path

import msgspec

from prepcli.engine.ranks.claims import CLAIMS
from prepcli.engine.ranks.progress import new_progress, progress_file
from prepcli.engine.run.status import read_status
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.processes.owner import Life, Owner
from prepcli.processes.ranks import Rank
from tests.conftest import SHORT_CORPUS
from tests.support.running import prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"


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
        Life(workspace.root / CLAIMS, progress.rank_id).beat()
        os.utime(workspace.root / CLAIMS / f"rank-{progress.rank_id}", (now - silent,) * 2)
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
