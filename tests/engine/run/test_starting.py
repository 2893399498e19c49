"""No command replaces or removes one of its inputs, and a run stops when one of them changes."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from prepcli.engine.ranks.progress import new_progress, progress_file
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.starting import revisions_of
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.processes.owner import Owner, start_time, this_place
from prepcli.processes.ranks import Rank
from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.recipes.test_prepare_manifest import prepare
from tests.support.running import HANG_SECONDS, prepcli
from tests.support.tools import need_package

MINI = SHORT_CORPUS / "manifest.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`pm/` with a manifest of the name that the recipe's first step writes."""
    (tmp_path / "pm").mkdir()
    lines = [{**line, "speaker": "| Language:en Dataset:x Speaker:1 |"} for line in read_lines(MINI)[:4]]
    write_lines(tmp_path / "pm/manifest.json", lines)
    return tmp_path


def by_name(folder: Path) -> Path:
    return folder / "pm/manifest.json"


def by_link_to_it(folder: Path) -> Path:
    (folder / "link.json").symlink_to("pm/manifest.json")
    return folder / "link.json"


def by_link_to_its_folder(folder: Path) -> Path:
    (folder / "linked").symlink_to("pm")
    return folder / "linked/manifest.json"


def by_second_name(folder: Path) -> Path:
    os.link(folder / "pm/manifest.json", folder / "second.json")
    return folder / "second.json"


def by_link_in_the_output(folder: Path) -> Path:
    (folder / "pm/manifest.json").rename(folder / "m.json")
    (folder / "pm/manifest.json").symlink_to("../m.json")
    return folder / "m.json"


@pytest.mark.parametrize("name", [by_name, by_link_to_it, by_link_to_its_folder, by_second_name, by_link_in_the_output])
@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_an_input_in_the_place_of_an_output(name: Callable[[Path], Path], options: list[str], folder: Path) -> None:
    given = name(folder)
    before = tree(folder)
    done = prepare(given, folder / "pm", "--audio-base-dir", SHORT_CORPUS, *options)
    assert done.code == 2
    assert str(given) in done.error_line
    assert "--overwrite" not in done.error_line
    assert tree(folder) == before


def test_the_output_of_a_run_is_not_its_next_input(folder: Path) -> None:
    """Its content is that of the first input, so the plan is the same: only the path shows it."""
    shutil.copy(folder / "pm/manifest.json", folder / "m.json")
    arguments = [folder / "out", "--audio-base-dir", SHORT_CORPUS]
    assert prepare(folder / "m.json", *arguments).code == 0
    os.link(folder / "out/manifest.json", folder / "second.json")
    before = tree(folder)
    for name in ("second.json", "out/manifest.json"):
        assert prepare(folder / name, *arguments).out.startswith("prepare_manifest: nothing to do")
        assert prepare(folder / name, *arguments, "--overwrite").code == 2
    assert prepare(folder / "m.json", *arguments).code == 0
    assert tree(folder) == before


@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_rejects_of_a_run_do_not_go_back_into_it(options: list[str], tmp_path: Path) -> None:
    lines = read_lines(MINI)[:5]
    lines[2]["audio_filepath"] = "nowhere.wav"
    write_lines(tmp_path / "m.json", lines)
    more = ["--num-shards", 1, "--audio-base-dir", SHORT_CORPUS, "--max-rejects", 9]
    assert prepcli("manifest-to-tarred", tmp_path / "m.json", tmp_path / "out", *more).code == 0
    before = tree(tmp_path)
    rejects = tmp_path / "out.prepcli/rejects.jsonl"
    done = prepcli("manifest-to-tarred", rejects, tmp_path / "out", *more, *options)
    assert (done.code, tree(tmp_path)) == (2, before)
    assert "belongs to the state of" in done.error_line
    assert prepcli("manifest-to-tarred", rejects, tmp_path / "other", *more).code == 0  # all are rejects again


@pytest.mark.slow
@pytest.mark.torch
def test_context_audio_keeps_its_input(tmp_path: Path) -> None:
    need_package("resemblyzer")
    manifest = tmp_path / "c/x_withContextAudioMinDur3.0MinSSIM0.6.json"
    manifest.parent.mkdir()
    shutil.copy(MINI, manifest)
    before = tree(tmp_path)
    arguments = [manifest, tmp_path / "c", "--audio-base-dir", SHORT_CORPUS, "--speaker-model", "resemblyzer"]
    done = prepcli("extend-context-audio", *arguments, "--overwrite")
    assert done.code == 0, done.err
    assert before.items() <= tree(tmp_path).items()


def test_an_output_directory_with_other_files_is_named_and_kept(folder: Path) -> None:
    """Also where it is the folder of the audio; `--overwrite` removes what the command has made, and nothing else."""
    corpus = Path(shutil.copytree(SHORT_CORPUS, folder / "corpus"))
    before = tree(corpus)
    arguments = ["manifest-to-tarred", corpus / "manifest.json", corpus, "--num-shards", 2]
    done = prepcli(*arguments)
    assert done.code == 0
    assert done.error_line.startswith(f"note: {corpus} already holds {len(before)} files, such as ")
    assert "they are kept" in done.error_line
    assert prepcli(*arguments).err == ""  # it is not new then
    assert prepcli(*arguments, "--overwrite").code == 0
    assert tree(corpus).items() >= before.items()
    added = prepcli("manifest-to-tarred", folder / "pm/manifest.json", "--concat-to", corpus, "--num-shards", 1)
    assert "already holds" not in added.err


def test_an_empty_output_directory_is_not_reported(folder: Path) -> None:
    (folder / "out").mkdir()
    done = prepcli("manifest-to-tarred", MINI, folder / "out", "--num-shards", 2)
    assert (done.code, done.err) == (0, "")


def test_a_rank_that_is_at_work_on_this_machine(tmp_path: Path) -> None:
    """A second run is told how to share the work; `--overwrite` removes nothing of what that rank makes."""
    out = tmp_path / "out"
    arguments = ["manifest-to-tarred", MINI, out, "--num-shards", 2]
    assert prepcli(*arguments, "--rank", 1, "--world-size", 2).code == 0
    file = progress_file(Workspace(out), 0)
    other = subprocess.Popen(["sleep", str(HANG_SECONDS)])
    running = new_progress(Rank(), Owner("other", this_place(), other.pid, start_time(other.pid) or 0))
    try:
        write_json(file, running)
        noted = prepcli(*arguments)
        assert noted.code == 0
        assert "Stop one of them, or share the work: give each its own --rank, and both --world-size 2" in noted.err
    finally:
        other.kill()
        other.wait()
    write_json(file, running)
    assert prepcli(*arguments, "--overwrite").code == 0


def test_revisions_of_data_sets_are_those_of_the_run_that_continues(tmp_path: Path) -> None:
    """A generation that was begun with `--overwrite` has its own; only a start of another launch looks for new ones."""
    out = tmp_path / "out"

    def revisions(rank: Rank | None = None, overwrite: bool = False) -> object:
        return revisions_of(Workspace(out), RunOptions(rank=rank or Rank(), overwrite=overwrite))

    assert revisions() == {}
    assert prepcli("manifest-to-tarred", MINI, out, "--num-shards", 1).code == 0
    (committed,) = (tmp_path / "out.prepcli").glob("*/plan.json")
    plan = json.loads(committed.read_text())
    committed.write_text(json.dumps(plan | {"revisions": {"hf://a": "old"}}))
    assert (revisions(), revisions(overwrite=True)) == ({"hf://a": "old"}, {})
    begun = committed.parent.with_name(f"{committed.parent.name}.launch7")
    begun.mkdir()
    (begun / "plan.json").write_text(json.dumps(plan | {"revisions": {"hf://a": "new"}}))
    assert revisions() == {"hf://a": "new"}
    assert revisions(Rank(launch_id="launch7"), overwrite=True) == {"hf://a": "new"}
    assert revisions(Rank(launch_id="launch8"), overwrite=True) == {}
