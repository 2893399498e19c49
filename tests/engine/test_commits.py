"""A change of the output, killed at any call: the old set is whole, or the change is pending and the next run ends it.

The suite takes some of the calls, from a random one. All of them, about half an hour:

PREPCLI_FAULTS=all python -m pytest tests/engine/test_commits.py
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from prepcli.engine import runs as engine
from prepcli.engine.commits import recover
from prepcli.engine.ledger import Commit, Ledger, Pending
from prepcli.engine.lock import LOCK_FILE
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.faults.commits import CHANGES, Kills, prepared
from tests.faults.test_every_call import EVERYTHING
from tests.support.running import Outcome, prepcli, prepcli_process
from tests.support.tools import slow

Record = Callable[[str, object], None]


def some(moments: list[int], step: int, draw: random.Random) -> list[int]:
    """Every so many of the moments, from a random one."""
    return moments if EVERYTHING else moments[draw.randrange(step) :: step]


@contextmanager
def changed(name: str, record_property: Record) -> Iterator[tuple[Kills, list[str]]]:
    found: list[str] = []
    with prepared(name) as kills:
        yield kills, found
    assert found == []
    record_property("faults", kills.num_disturbed)


@pytest.mark.parametrize("name", ["overwrite", slow("concat"), slow("undo")])
def test_some_kills(name: str, draw: random.Random, record_property: Record) -> None:
    with changed(name, record_property) as (kills, found):
        for moment in some(kills.moments, 20, draw):
            found += [f"{moment}: {fault}" for fault in kills.faults(moment)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_kills(name: str, draw: random.Random, record_property: Record) -> None:
    with changed(name, record_property) as (kills, found):
        for moment in some(kills.moments, 16, draw):
            found += [f"{moment}: {fault}" for fault in kills.faults(moment)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CHANGES if name != "score"])
def test_an_addition_after_a_kill(name: str, draw: random.Random, record_property: Record) -> None:
    with changed(name, record_property) as (kills, found):
        for moment in some(kills.moments, 32, draw):
            found += [f"{moment}: {fault}" for fault in kills.faults_with_an_addition(moment)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_disk_that_fills(name: str, draw: random.Random, record_property: Record) -> None:
    with changed(name, record_property) as (kills, found):
        for nth in some([*kills.writes], 32, draw):
            found += [f"{nth}: {fault}" for fault in kills.faults_of_full_disk(nth)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fresh", "overwrite", "same", "retry", "concat"])
def test_a_process_that_stands_still(name: str, draw: random.Random, record_property: Record) -> None:
    """Another machine takes its lock and completes the change; when it goes on, it must not undo that."""
    with changed(name, record_property) as (kills, found):
        for moment in some(kills.moments, 16, draw):
            found += [f"{moment}: {fault}" for fault in kills.faults_of_stopping(moment)]


MANIFEST = SHORT_CORPUS / "manifest.json"


def records(folder: Path, first: int, count: int, name: str = "manifest.json") -> Path:
    lines = read_lines(MANIFEST)[first : first + count]
    for line in lines:
        line["audio_filepath"] = str(SHORT_CORPUS / line["audio_filepath"])
    return write_lines(folder / name, lines)


def tarred(*arguments: object) -> Outcome:
    return prepcli("manifest-to-tarred", *arguments)


def succeed(*arguments: object) -> Outcome:
    done = tarred(*arguments)
    assert done.code == 0, done.err
    return done


def state(out: Path) -> Path:
    return out.with_name(f"{out.name}.prepcli")


def ledger(out: Path) -> Ledger:
    return msgspec.json.decode((state(out) / "owner.json").read_bytes(), type=Ledger)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return records(tmp_path, 0, 6)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@contextmanager
def before_the_commit(action: Callable[[], object]) -> Iterator[None]:
    """Within the context, `action` is called when the first run has made its units, and is about to commit."""
    commit = engine.FolderRun._commit
    called: list[bool] = []

    def late(run: engine.FolderRun) -> object:
        if not called:
            called.append(True)
            action()
        return commit(run)

    with patch.object(engine.FolderRun, "_commit", late):
        yield
    assert called


def test_two_runs_of_other_settings_at_once(manifest: Path, out: Path, tmp_path: Path) -> None:
    """The first to commit has the output; the other one keeps its units, and gives them with --overwrite."""
    succeed(manifest, tmp_path / "two", "--num-shards", 2)
    others: list[Outcome] = []
    with before_the_commit(lambda: others.append(run("--num-shards", 2))):

        def run(*options: object) -> Outcome:
            return prepcli_process("manifest-to-tarred", manifest, out, *options)

        done = tarred(manifest, out, "--num-shards", 3)
    assert others[0].code == 0, others[0].err
    assert done.code == 2
    assert "was made by another run of manifest-to-tarred meanwhile" in done.error_line
    assert tree(out) == tree(tmp_path / "two")
    assert len(list(state(out).glob("*/units/shard_*/files/audio_*.tar"))) == 3
    assert ledger(out).pending is None
    assert not (state(out) / LOCK_FILE).exists()


def test_two_runs_of_the_same_settings_at_once(manifest: Path, out: Path) -> None:
    others: list[Outcome] = []
    words = ("manifest-to-tarred", manifest, out, "--num-shards", 2)
    with before_the_commit(lambda: others.append(prepcli_process(*words))):
        done = prepcli(*words)
    assert (done.code, others[0].code) == (0, 0)
    assert len(ledger(out).commits) == 1
    assert prepcli("verify", out).code == 0


@pytest.mark.parametrize("shards", [2, 3])
def test_two_generations_at_once(manifest: Path, out: Path, tmp_path: Path, shards: int) -> None:
    """Both overwrite: with the same settings both may; with others, the second one would replace what it never saw."""
    for number in (2, 3):
        succeed(manifest, tmp_path / f"of_{number}", "--num-shards", number)
    succeed(manifest, out, "--num-shards", 1)
    others: list[Outcome] = []
    words = ("manifest-to-tarred", manifest, out, "--overwrite", "--num-shards")
    with before_the_commit(lambda: others.append(prepcli_process(*words, shards))):
        done = prepcli(*words, 2)
    assert others[0].code == 0, others[0].err
    assert done.code == (0 if shards == 2 else 2), done.err
    assert tree(out) == tree(tmp_path / f"of_{shards}")
    assert prepcli("verify", out).code == 0
    assert not (state(out) / "kept").exists()


def test_two_retries_at_once(tmp_path: Path, out: Path) -> None:
    """They begin at the same moment and keep units of the same run; for the second to commit, these are gone."""
    lines = read_lines(MANIFEST)[:6]
    for number, line in enumerate(lines):
        line["audio_filepath"] = str(shutil.copy(SHORT_CORPUS / line["audio_filepath"], tmp_path / f"{number}.wav"))
    manifest, options = write_lines(tmp_path / "manifest.json", lines), ("--num-shards", 3, "--max-rejects", 1)
    succeed(manifest, tmp_path / "whole", *options)
    aside = (tmp_path / "4.wav").rename(tmp_path / "aside")
    succeed(manifest, out, *options)
    aside.rename(tmp_path / "4.wav")
    words = ("manifest-to-tarred", manifest, out, *options, "--retry-rejects")

    def run_other() -> None:
        hidden = [run.rename(tmp_path / run.name) for run in state(out).glob("*.*/") if (run / "plan.json").exists()]
        assert len(hidden) == 1
        assert prepcli_process(*words).code == 0
        hidden[0].rename(state(out) / hidden[0].name)

    with before_the_commit(run_other):
        done = prepcli(*words)
    assert done.code == 2
    assert "was made again by another run meanwhile" in done.error_line
    assert tree(out) == tree(tmp_path / "whole")
    assert prepcli("verify", out).code == 0
    assert prepcli(*words).code == 0
    assert tree(out) == tree(tmp_path / "whole")
    assert not (state(out) / "kept").exists()


def test_a_retry_after_a_retry_that_was_interrupted(tmp_path: Path, out: Path) -> None:
    """The second generation keeps units of the first, which are not those whose files are in the output."""
    lines = read_lines(MANIFEST)[:6]
    for number, line in enumerate(lines):
        line["audio_filepath"] = str(shutil.copy(SHORT_CORPUS / line["audio_filepath"], tmp_path / f"{number}.wav"))
    manifest, options = write_lines(tmp_path / "manifest.json", lines), ("--num-shards", 3, "--max-rejects", 2)
    succeed(manifest, tmp_path / "whole", *options)
    for number in (1, 4):
        (tmp_path / f"{number}.wav").rename(tmp_path / f"aside_{number}")
    succeed(manifest, out, *options)
    (tmp_path / "aside_1").rename(tmp_path / "1.wav")
    with patch.object(engine.FolderRun, "_commit", side_effect=KeyboardInterrupt):
        assert tarred(manifest, out, *options, "--retry-rejects").code
    (tmp_path / "aside_4").rename(tmp_path / "4.wav")
    done = succeed(manifest, out, *options, "--retry-rejects")
    assert "kept" not in done.err
    assert tree(out) == tree(tmp_path / "whole")
    assert len(list(state(out).glob("*/plan.json"))) == 1


def copy_of(out: Path, target: Path) -> Path:
    """The output and its state by `cp -r`, which gives all files another time."""
    for source, place in ((out, target), (state(out), state(target))):
        shutil.copytree(source, place, copy_function=shutil.copyfile)
    return target


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_copy_is_as_good_as_the_original(manifest: Path, out: Path, tmp_path: Path, is_moved: bool) -> None:
    more = records(tmp_path, 6, 3, "more.json")
    succeed(manifest, out, "--num-shards", 2)
    set_of_2 = tree(out)
    succeed(more, "--concat-to", out)
    with_more, before = tree(out), tree(tmp_path)
    copy = tmp_path / "copy"
    if is_moved:
        out.rename(copy)
        state(out).rename(state(copy))
    else:
        copy_of(out, copy)
    succeed("--undo-concat", copy)
    assert tree(copy) == set_of_2
    succeed(more, "--concat-to", copy)
    assert tree(copy) == with_more
    succeed("--undo-concat", copy)
    succeed(manifest, copy, "--num-shards", 3, "--overwrite")
    assert prepcli("verify", copy).code == 0
    assert len(list(copy.glob("*.tar"))) == 3
    assert not (state(copy) / "kept").exists()
    assert [commit.part for commit in ledger(copy).commits] == [""]
    if not is_moved:
        assert {name: digest for name, digest in tree(tmp_path).items() if not name.startswith("copy")} == before


def test_without_its_state_a_set_is_of_others(manifest: Path, out: Path) -> None:
    succeed(manifest, out, "--num-shards", 2)
    shutil.rmtree(state(out))
    before = tree(out)
    for options in ((), ("--overwrite",)):
        done = tarred(manifest, out, "--num-shards", 3, *options)
        assert done.code == 2
        assert tree(out) == before


def test_a_removal_and_the_same_addition_again(manifest: Path, out: Path, tmp_path: Path) -> None:
    """The folder of the run has the name of the one that was removed; another process must not remove it again."""
    more = records(tmp_path, 6, 3, "more.json")
    succeed(manifest, out, "--num-shards", 2)
    succeed(more, "--concat-to", out)
    whole = tree(out)
    succeed("--undo-concat", out)
    with before_the_commit(lambda: recover(Workspace(out))):
        succeed(more, "--concat-to", out)
    assert tree(out) == whole


def test_a_file_that_somebody_changed_is_kept(manifest: Path, out: Path) -> None:
    """It appears after the last look at the output, so the change goes on."""
    succeed(manifest, out, "--num-shards", 2)
    complete = "prepcli.engine.commits._clear"

    def clear(*_: object) -> None:
        for path in out.rglob("audio_0.tar"):
            path.write_text("mine")

    with patch(complete, clear):
        done = succeed(manifest, out, "--num-shards", 2, "--overwrite")
    kept = state(out) / "kept/audio_0.tar"
    assert f"{out / 'audio_0.tar'} is not as prepcli has noted it; it is kept as {kept}" in done.err
    assert kept.read_text() == "mine"
    assert prepcli("verify", out).code == 0


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_something_of_others_in_the_way(manifest: Path, out: Path, kind: str) -> None:
    """It appears while the units are made; nothing is moved, and the units are kept."""
    path = out / "sharded_manifests"

    def put() -> None:
        if kind == "file":
            path.write_text("mine")
        elif kind == "folder":
            (path / "manifest_0.json").mkdir(parents=True)
        else:
            path.symlink_to("nowhere")

    with before_the_commit(put):
        done = tarred(manifest, out, "--num-shards", 2)
    assert done.code == 2
    named = path / "manifest_0.json" if kind == "folder" else path
    why = "is a directory, but a file belongs there" if kind == "folder" else "is there already"
    assert f"{named} {why}" in done.error_line
    assert [entry.name for entry in out.iterdir()] == [path.name]
    assert not (state(out) / "owner.json").exists()
    shutil.rmtree(path) if kind == "folder" else path.unlink()
    succeed(manifest, out, "--num-shards", 2)
    assert prepcli("verify", out).code == 0


def test_a_folder_on_another_file_system(manifest: Path, out: Path, tmp_path: Path) -> None:
    others = next((path for path in map(Path, ("/dev/shm", "/tmp", "/var/tmp")) if differs(path, tmp_path)), None)
    if others is None:
        pytest.skip("there is only one file system")
    folder = others / f"prepcli-test-{os.getpid()}"
    folder.mkdir()
    try:
        out.mkdir()
        (out / "sharded_manifests").symlink_to(folder)
        done = tarred(manifest, out, "--num-shards", 2)
        assert done.code == 2
        assert f"{out / 'sharded_manifests'} is on another file system than {state(out)}" in done.error_line
        assert [entry.name for entry in out.iterdir()] == ["sharded_manifests"]
        (out / "sharded_manifests").unlink()
        succeed(manifest, out, "--num-shards", 2)
    finally:
        folder.rmdir()


def differs(one: Path, other: Path) -> bool:
    return one.is_dir() and os.access(one, os.W_OK) and one.stat().st_dev != other.stat().st_dev


def test_an_output_that_is_a_link(manifest: Path, out: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    out.symlink_to("elsewhere")
    succeed(manifest, out, "--num-shards", 2)
    succeed(manifest, out, "--num-shards", 3, "--overwrite")
    assert out.is_symlink()
    assert len(list((tmp_path / "elsewhere").glob("*.tar"))) == 3
    assert (tmp_path / "elsewhere.prepcli/owner.json").exists()


@pytest.mark.parametrize("name", ["units/shard_000001/unit.json", "plan.json"])
def test_a_document_that_a_change_lacks(manifest: Path, out: Path, name: str) -> None:
    """A fault of the disk between the record of a change and the change itself: no shard is left out silently."""
    succeed(manifest, out, "--num-shards", 2)
    commits = ledger(out).commits
    document = next(state(out).glob(f"*/{name}"))
    document.unlink()
    (state(out) / "owner.json").write_bytes(msgspec.json.encode(Ledger((), Pending(commits, is_cleared=True))))
    done = tarred(manifest, out, "--num-shards", 2)
    assert done.code == 1
    assert f"{document} is missing or damaged, so {out} cannot be completed" in done.error_line


def test_owner_json(manifest: Path, out: Path, tmp_path: Path) -> None:
    succeed(manifest, out, "--num-shards", 2)
    first = ledger(out).commits[0]
    assert (first.command, first.part) == ("manifest-to-tarred", "")
    assert (state(out) / first.folder / "plan.json").exists()
    succeed(records(tmp_path, 6, 3, "more.json"), "--concat-to", out)
    second = ledger(out).commits[1]
    assert second.part == "version_1"
    assert ledger(out) == Ledger((first, second))
    assert first.digest.startswith(first.folder)
    succeed("--undo-concat", out)
    assert ledger(out) == Ledger((first,))
    assert isinstance(first, Commit)
    assert sorted(path.name for path in state(out).iterdir() if path.is_dir()) == [first.folder]


def test_a_writer_whose_folder_a_commit_has_removed(tmp_path: Path) -> None:
    """It stops, and makes no folder that nobody would remove."""
    workspace = Workspace(tmp_path / "out")
    workspace.enter(workspace.root / "0123456789abcdef")
    workspace.prepare()
    with UnitWriter(workspace, "digest", Unit("unit", 1.0, 1)) as writer:
        writer.open("a/b/first").write(b"first")
        shutil.rmtree(workspace.tmp)
        with pytest.raises(FileNotFoundError):
            writer.open("c/second")
        with pytest.raises(FileNotFoundError):
            writer.open("a/b/third")
    assert not workspace.tmp.exists()
