"""`status --clean` removes the folders of unfinished runs, and never what the output or a rank at work needs."""

import json
from pathlib import Path

import pytest

from prepcli.engine.cleaning import bytes_of
from prepcli.engine.ranks.progress import new_progress, progress_file
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.processes.owner import Owner, new_rank_id
from prepcli.processes.ranks import Rank
from tests.conftest import MINI_CORPUS
from tests.support.running import Outcome, prepcli, prepcli_process

MANIFEST = MINI_CORPUS / "manifest.json"


def tarred(out: Path, shards: int, *options: object) -> Outcome:
    return prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", shards, *options)


def half(out: Path, shards: int) -> None:
    """One of two ranks of a run: the run is not finished."""
    words = ("manifest-to-tarred", MANIFEST, out, "--num-shards", shards, "--rank", 0, "--world-size", 2)
    done = prepcli_process(*words)  # which then has ended
    assert done.code == 0, done.err


def runs_of(out: Path) -> list[str]:
    return sorted(path.parent.name for path in out.with_name("out.prepcli").glob("*/plan.json"))


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_the_newest_of_several_that_have_not_finished_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    half(out, 4)
    (first,) = runs_of(out)
    half(out, 6)
    (second,) = set(runs_of(out)) - {first}
    size = bytes_of(tmp_path / "out.prepcli" / first)
    shown = prepcli("status", out, "--clean")
    assert runs_of(out) == [second]
    assert f"{out}: removed 1 unfinished run(s), " in shown.err
    assert size > 100_000
    assert tarred(out, 6).code == 0


def test_a_finished_output_needs_none(tmp_path: Path) -> None:
    out = tmp_path / "out"
    half(out, 6)
    assert tarred(out, 4).code == 0
    before, ledger = files(out), json.loads((tmp_path / "out.prepcli/owner.json").read_text())
    committed = [commit["folder"] for commit in ledger["commits"]]
    assert len(runs_of(out)) == 2
    status = json.loads(prepcli("status", out, "--json").out)
    assert [one["num_bytes"] > 100_000 for one in status] == [False, True]
    assert prepcli("status", out, "--clean").code == 0
    assert (runs_of(out), files(out)) == (committed, before)
    assert prepcli("verify", out).code == 0
    assert "removed 0 unfinished" in prepcli("status", out, "--clean").err


def test_an_output_that_is_made_again_needs_none(tmp_path: Path) -> None:
    out = tmp_path / "out"
    half(out, 6)
    assert tarred(out, 4).code == 0
    assert len(runs_of(out)) == 2
    assert tarred(out, 3, "--overwrite").code == 0
    assert len(runs_of(out)) == 1


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_run_that_is_at_work_stays(tmp_path: Path, is_alive: bool) -> None:
    out = tmp_path / "out"
    half(out, 6)
    (begun,) = runs_of(out)
    assert tarred(out, 4).code == 0
    workspace = Workspace(out)
    workspace.enter(tmp_path / "out.prepcli" / begun)
    owner = Owner.of_this_process(new_rank_id())
    progress = new_progress(Rank(0, 2), owner if is_alive else owner._replace(pid=1 << 22))
    progress.state = "done"  # it is about to commit
    write_json(progress_file(workspace, 0), progress)
    assert prepcli("status", out, "--clean").code == 0
    assert (begun in runs_of(out)) == is_alive


def test_an_unknown_output_is_refused_in_one_line(tmp_path: Path) -> None:
    refused = prepcli("status", tmp_path / "none", "--clean")
    assert refused.code == 2
    assert "no run of prepcli is known for" in refused.error_line
