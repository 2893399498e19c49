"""No command replaces or removes one of its inputs, and a run stops when one of them changes."""

import gzip
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prepcli.commands.manifest_to_tarred.job import TarredJob
from prepcli.errors import InputChangedError
from prepcli.storage.input_files import check_unchanged, state_of
from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.recipes.test_prepare_manifest import prepare
from tests.support.running import prepcli
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
    assert prepare(folder / "second.json", *arguments).code == 2
    assert prepare(folder / "out/manifest.json", *arguments).code == 2
    assert prepare(folder / "out/manifest.json", *arguments, "--overwrite").code == 2
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


def in_place(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.write(content)


def by_rename(path: Path, content: bytes) -> None:
    path.with_suffix(".new").write_bytes(content)
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize("rewrite", [in_place, by_rename])
@pytest.mark.parametrize("packed", [False, True])
def test_a_manifest_rewritten_during_a_run(
    rewrite: Callable[[Path, bytes], None], packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old and new lines must not be mixed, and nothing made of new lines may be taken for the old ones' output."""
    manifest = tmp_path / ("m.json.gz" if packed else "m.json")
    old = MINI.read_bytes()
    new = old.replace(b'"text": "', b'"text": "X')
    pack: Callable[[bytes], bytes] = gzip.compress if packed else bytes

    def write_old() -> None:
        manifest.write_bytes(pack(old))
        os.utime(manifest, (1_000_000_000, 1_000_000_000))  # metadata.yaml tells it

    write_old()
    arguments = [manifest, "--audio-base-dir", SHORT_CORPUS, "--num-shards", 3, "--num-workers", 1]
    assert prepcli("manifest-to-tarred", arguments[0], tmp_path / "reference", *arguments[1:]).code == 0
    process = TarredJob.process

    def slow(self: TarredJob, plan: Any, unit: Any, writer: Any, advance: Any) -> None:
        process(self, plan, unit, writer, advance)
        rewrite(manifest, pack(new))

    monkeypatch.setattr(TarredJob, "process", slow)
    done = prepcli("manifest-to-tarred", arguments[0], tmp_path / "out", *arguments[1:])
    assert done.code == 1
    assert f"{manifest} was changed during the run" in done.error_line
    assert not (tmp_path / "out/tarred_audio_manifest.json").exists()
    monkeypatch.undo()
    refused = prepcli("manifest-to-tarred", arguments[0], tmp_path / "out", *arguments[1:])
    assert refused.code == 2
    assert "has another content" in refused.error_line
    write_old()
    assert prepcli("manifest-to-tarred", arguments[0], tmp_path / "out", *arguments[1:]).code == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "reference")


def with_the_time_of_before(path: Path, content: bytes) -> None:
    """Size and time of modification are the same."""
    before = path.stat()
    in_place(path, content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def replaced_with_the_time_of_before(path: Path, content: bytes) -> None:
    before = path.stat()
    by_rename(path, content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


OTHER = re.sub(rb'("text": ")(.)', lambda found: found[1] + found[2].swapcase(), MINI.read_bytes())


@pytest.mark.parametrize("rewrite", [with_the_time_of_before, replaced_with_the_time_of_before])
@pytest.mark.parametrize("units_before", [0, 2])
def test_a_manifest_rewritten_with_the_size_and_time_that_it_had(
    units_before: int, rewrite: Callable[[Path, bytes], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the beginning, and after the last line was read."""
    manifest = Path(shutil.copy(MINI, tmp_path / "m.json"))
    process, done = TarredJob.process, tmp_path / "done"

    def slow(self: TarredJob, plan: Any, unit: Any, writer: Any, advance: Any) -> None:
        if units_before == 0:
            rewrite(manifest, OTHER)
        process(self, plan, unit, writer, advance)
        with done.open("a") as file:
            file.write("x")
        if done.stat().st_size == units_before:
            rewrite(manifest, OTHER)

    monkeypatch.setattr(TarredJob, "process", slow)
    options = ["--audio-base-dir", SHORT_CORPUS, "--num-shards", 2, "--num-workers", 1]
    stopped = prepcli("manifest-to-tarred", manifest, tmp_path / "out", *options)
    assert stopped.code == 1
    assert f"{manifest} was changed during the run" in stopped.error_line


def test_other_permissions_and_another_name_are_not_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They change `ctime`, as a network file system may change the inode: then the content decides."""
    manifest = Path(shutil.copy(MINI, tmp_path / "m.json"))
    process = TarredJob.process

    def slow(self: TarredJob, plan: Any, unit: Any, writer: Any, advance: Any) -> None:
        manifest.chmod(0o640)
        os.link(manifest, tmp_path / f"{unit.id}.json")
        process(self, plan, unit, writer, advance)

    monkeypatch.setattr(TarredJob, "process", slow)
    options = ["--audio-base-dir", SHORT_CORPUS, "--num-shards", 2, "--num-workers", 1, "--json"]
    done = prepcli("manifest-to-tarred", manifest, tmp_path / "out", *options)
    assert (done.code, done.json["records_out"]) == (0, 48)


def test_another_inode_alone_is_not_a_change(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    before = state_of(file)
    assert check_unchanged(file, before._replace(inode=before.inode + 1)) == before
    with pytest.raises(InputChangedError):
        check_unchanged(file, before._replace(ctime_ns=before.ctime_ns - 1))
    with pytest.raises(InputChangedError):  # not where the content says so
        check_unchanged(file, before._replace(inode=before.inode + 1), same_content=lambda: False)


def test_an_output_directory_with_other_files_is_named_and_kept(folder: Path) -> None:
    """Also where it is the folder of the audio; `--overwrite` removes what the command has made, and nothing else."""
    corpus = Path(shutil.copytree(SHORT_CORPUS, folder / "corpus"))
    before = tree(corpus)
    arguments = ["manifest-to-tarred", corpus / "manifest.json", corpus, "--num-shards", 2]
    done = prepcli(*arguments)
    assert done.code == 0
    assert done.error_line.startswith(
        f"note: {corpus} already holds {len(os.listdir(SHORT_CORPUS))} file(s) or folder(s)"
    )
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
