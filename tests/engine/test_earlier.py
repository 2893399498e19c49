"""Sets that prepcli 0.3 has made: they are looked at, replaced and extended; its unfinished runs are refused."""

import shutil
from pathlib import Path

import pytest

from prepcli.engine.commits import read_ledger
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.engine.folder_runs import as_of_earlier, run
from tests.engine.toy import ToyJob
from tests.support.running import Outcome, prepcli


def run_earlier(out: Path, job: ToyJob | None = None) -> None:
    run(out, job)
    as_of_earlier(out)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_nothing_is_to_be_done(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_earlier(out)
    before = tree(tmp_path)
    assert run(out).status == "nothing_to_do"
    assert tree(tmp_path) == before
    (commit,) = read_ledger(Workspace(out)).commits
    assert (commit.folder, commit.part, commit.command) == ("", "", "toy")


def test_other_settings_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_earlier(out)
    with pytest.raises(UsageError, match="--seed was 0, now 1"):
        run(out, ToyJob(out, seed=1))


@pytest.mark.parametrize("seed", [0, 1])
def test_overwriting_removes_its_files_and_its_state(seed: int, tmp_path: Path) -> None:
    out, new = tmp_path / "out", tmp_path / "new"
    run_earlier(out)
    run(out, ToyJob(out, num_units=2, seed=seed), overwrite=True)
    run(new, ToyJob(new, num_units=2, seed=seed))
    assert tree(out) == tree(new)
    left = [
        {name for name in names(tmp_path / f"{one}.prepcli") if len(name) < 16 and name != "owned"}
        for one in ("out", "new")
    ]
    assert left[0] == left[1]


def test_lost_files_are_made_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_earlier(out)
    before = tree(out)
    (out / "unit_003.txt").unlink()
    assert run(out).status == "done"
    assert tree(out) == before


def test_rejects_are_tried_again(tmp_path: Path) -> None:
    out, new = tmp_path / "out", tmp_path / "new"
    run_earlier(out, ToyJob(out, bad=frozenset({4, 9})))
    assert run(out, retry_rejects=True).rejects == 1
    run(new)
    assert tree(out) == tree(new)


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_earlier(out)
    (tmp_path / "out.prepcli/done/finish.json").unlink()
    before = tree(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="was begun by an earlier version of prepcli, and is not finished"):
            run(out, overwrite=overwrite)
    assert tree(tmp_path) == before


# --- a tarred set with an addition -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    lines = read_lines(SHORT_CORPUS / "manifest.json")
    for name, some in (("a", lines[:12]), ("b", lines[12:20]), ("c", lines[20:26])):
        write_lines(folder / f"{name}.json", some)
    return folder


@pytest.fixture(scope="module")
def made(corpus: Path) -> Path:
    """A set of 0.3, and one addition to it."""
    assert tarred(corpus / "a.json", corpus / "out").code == 0
    assert tarred(corpus / "b.json", "--concat-to", corpus / "out").code == 0
    as_of_earlier(corpus / "out")
    return corpus / "out"


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    for path in (made, made.with_name("out.prepcli")):
        shutil.copytree(path, tmp_path / path.name)
    return tmp_path / "out"


def tarred(*words: object) -> Outcome:
    return prepcli("manifest-to-tarred", *words, "--num-shards", 2, "--audio-base-dir", SHORT_CORPUS)


def test_a_set_of_it_is_looked_at(out: Path) -> None:
    assert prepcli("verify", out).code == 0
    assert prepcli("inspect", out).code == 0
    status = prepcli("status", out)
    assert (status.code, status.out.count("finished")) == (0, 2)


def test_it_is_extended_and_reduced(out: Path, corpus: Path) -> None:
    states = [tree(out)]
    assert tarred(corpus / "c.json", "--concat-to", out).code == 0
    verified = prepcli("verify", out)
    assert (verified.code, "26 in 26 members" in verified.out) == (0, True)
    for _ in range(2):
        undone = prepcli("manifest-to-tarred", "--concat-to", out, "--undo-concat")
        assert undone.code == 0, undone.err
        states.append(tree(out))
        assert prepcli("verify", out).code == 0
    assert states[0] == states[1]
    assert not any("version" in name for name in states[2])
    assert tarred(corpus / "a.json", out).out.startswith("manifest-to-tarred: nothing to do")
