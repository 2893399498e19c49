"""A wrong or forgotten `--audio-base-dir`: found before the work, and refused in a run that is continued."""

import errno
import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.support.running import Outcome, prepcli


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """The mini corpus' manifest, away from its audio."""
    return Path(shutil.copy(SHORT_CORPUS / "manifest.json", tmp_path / "m.json"))


def tarred(manifest: Path, *more: object) -> Outcome:
    return prepcli("manifest-to-tarred", manifest, manifest.parent / "out", "--num-shards", 2, *more)


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--overwrite"]])
def test_no_audio_is_found_before_the_work(manifest: Path, options: list[str]) -> None:
    done = tarred(manifest, *options)
    assert done.code == 2
    line = done.error_line
    assert "none of the 20 audio files" in line
    first = read_lines(manifest)[0]["audio_filepath"]
    assert str(manifest.parent / first) in line
    assert "--audio-base-dir" in line
    assert [path.name for path in manifest.parent.iterdir()] == ["m.json"]


@pytest.mark.parametrize("scheme", ["gs://bucket", "https://host", "file:///data"])
def test_audio_that_is_named_by_addresses_of_other_stores(manifest: Path, scheme: str) -> None:
    """All of it; where only some is, the others are packed, and these are rejects."""
    lines = read_lines(manifest)
    for line in lines:
        line["audio_filepath"] = f"{scheme}/{line['audio_filepath']}"
    write_lines(manifest, lines)
    done = tarred(manifest)
    assert done.code == 2
    first = lines[0]["audio_filepath"]
    assert f"the manifest names its audio by addresses that cannot be read, such as {first}, only" in done.error_line
    assert [path.name for path in manifest.parent.iterdir()] == ["m.json"]

    lines[0]["audio_filepath"] = str(SHORT_CORPUS / read_lines(SHORT_CORPUS / "manifest.json")[0]["audio_filepath"])
    write_lines(manifest, lines)
    done = tarred(manifest, "--max-rejects", len(lines) - 1, "--json")
    assert (done.code, done.json["rejects_by_reason"]) == (0, {"missing_audio": len(lines) - 1})


COMMANDS: list[list[object]] = [
    ["manifest-to-shar"],
    ["extend-context-audio", "--speaker-model", "resemblyzer"],
    ["manifest-to-wenet"],
    ["manifest-to-wenet", "--raw"],
    ["manifest-to-mels", "--lists-only"],
    ["manifest-to-parquet"],
    ["convert-audio"],
    ["fix-durations"],
    ["segment", "--by", "windows"],
    ["make-manifest"],
]


@pytest.mark.torch
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "".join(map(str, command)))
@pytest.mark.parametrize("options", [[], ["--dry-run"]], ids=["", "dry"])
def test_every_command_that_reads_audio_looks(manifest: Path, command: list[object], options: list[str]) -> None:
    """However few records there are."""
    lines = read_lines(manifest)[:12]
    write_lines(manifest, lines)
    if command[0] == "make-manifest":
        manifest.write_text("".join(f"{line['audio_filepath']}\n" for line in lines))
    done = prepcli(command[0], manifest, manifest.parent / "out", *command[1:], *options)
    assert done.code == 2
    assert "none of the 12 audio files looked for exists" in done.error_line
    assert str(manifest.parent / lines[0]["audio_filepath"]) in done.error_line
    assert "--audio-base-dir" in done.error_line
    assert [path.name for path in manifest.parent.iterdir()] == ["m.json"]


def test_a_compressed_manifest_is_sampled_as_well(manifest: Path) -> None:
    """In a dry run it is not unpacked to a file."""
    packed = manifest.with_name("m.json.gz")
    packed.write_bytes(gzip.compress(manifest.read_bytes() * 500))
    done = prepcli("fix-durations", packed, manifest.parent / "out.json", "--dry-run")
    assert (done.code, "none of the 20 audio files" in done.error_line) == (2, True)
    whole = prepcli(
        "fix-durations", packed, manifest.parent / "out.json", "--dry-run", "--audio-base-dir", SHORT_CORPUS
    )
    assert whole.code == 0


def test_the_only_record(manifest: Path) -> None:
    """Several segments of one file are one file."""
    line = read_lines(manifest)[0]
    write_lines(manifest, [{**line, "offset": offset, "duration": 0.1} for offset in (0, 0.1, 0.2)])
    done = tarred(manifest)
    assert done.code == 2
    path = manifest.parent / line["audio_filepath"]
    assert f"the audio file {path} does not exist, and the manifest names no other" in done.error_line


def test_of_a_few_records_those_without_audio_are_rejects(manifest: Path) -> None:
    lines = [
        {**line, "audio_filepath": str(SHORT_CORPUS / line["audio_filepath"])} for line in read_lines(manifest)[:3]
    ]
    write_lines(manifest, [lines[0], {**lines[1], "audio_filepath": "away.wav"}, lines[2]])
    done = tarred(manifest, "--json")
    assert (done.code, done.json["records_out"], done.json["rejects_by_reason"]) == (3, 2, {"missing_audio": 1})


def test_absolute_paths_ask_for_the_mount(manifest: Path) -> None:
    lines = [{**line, "audio_filepath": f"/mnt/away/{line['audio_filepath']}"} for line in read_lines(manifest)]
    write_lines(manifest, lines)
    done = tarred(manifest)
    assert (done.code, "is the folder mounted?" in done.error_line) == (2, True)
    assert "--audio-base-dir" not in done.error_line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_that_may_not_be_entered(manifest: Path) -> None:
    audio = Path(shutil.copytree(SHORT_CORPUS / "s01", manifest.parent / "s01"))
    write_lines(manifest, [line for line in read_lines(manifest) if line["audio_filepath"].startswith("s01/")])
    audio.chmod(0)
    try:
        done = tarred(manifest)
    finally:
        audio.chmod(0o700)
    assert (done.code, f"the permissions of {audio} do not allow it" in done.error_line) == (2, True)


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_folder_that_refuses_this_user(manifest: Path, options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As `test_a_folder_that_may_not_be_entered`, also for root."""
    closed, find = manifest.parent / "s01", os.stat
    closed.mkdir()
    write_lines(manifest, [line for line in read_lines(manifest) if line["audio_filepath"].startswith("s01/")])

    def refusing(path: Any, *rest: Any, **more: Any) -> os.stat_result:
        if str(path).startswith(f"{closed}{os.sep}"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return find(path, *rest, **more)

    monkeypatch.setattr(os, "stat", refusing)
    done = tarred(manifest, *options)
    assert (done.code, f"the permissions of {closed} do not allow it" in done.error_line) == (2, True)
    assert sorted(path.name for path in manifest.parent.iterdir()) == ["m.json", "s01"]


def test_one_file_of_the_sample_is_enough(manifest: Path) -> None:
    first = read_lines(manifest)[0]["audio_filepath"]
    (manifest.parent / first).parent.mkdir()
    shutil.copy(SHORT_CORPUS / first, manifest.parent / first)
    assert tarred(manifest, "--dry-run").code == 0


def test_whoever_allows_it_gets_rejects(manifest: Path) -> None:
    """And a set of manifests alone needs no audio; nor does a run that is finished."""
    assert tarred(manifest, "--max-rejects", 48).out.startswith("manifest-to-tarred: done")
    other = prepcli("manifest-to-tarred", manifest, manifest.parent / "o", "--num-shards", 2, "--only-manifests")
    assert other.code == 0


def test_a_finished_run_needs_no_audio(tmp_path: Path) -> None:
    corpus = Path(shutil.copytree(SHORT_CORPUS, tmp_path / "corpus"))
    arguments = ["manifest-to-tarred", corpus / "manifest.json", tmp_path / "out", "--num-shards", 2]
    assert prepcli(*arguments).code == 0
    corpus.rename(tmp_path / "away")
    shutil.copytree(tmp_path / "away", corpus, ignore=shutil.ignore_patterns("s0*"))
    again = prepcli(*arguments)
    assert (again.code, again.out.startswith("manifest-to-tarred: nothing to do")) == (0, True)
    assert prepcli(*arguments, "--retry-rejects").code == 0  # there are no rejects
    assert prepcli(*arguments, "--overwrite").code == 2


@pytest.fixture
def failed(manifest: Path) -> Path:
    """OUT of a run of which all records are rejects; there is a file of the user's in it."""
    out = manifest.parent / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert tarred(manifest, "--max-rejects", 48, "--shuffle").code == 0
    assert (out / "audio_1.tar").is_file()
    return out


def test_a_corrected_setting_needs_overwrite(manifest: Path, failed: Path) -> None:
    """Also if no record has succeeded before: files are only removed on request."""
    right = ("--audio-base-dir", SHORT_CORPUS)
    before = tree(manifest.parent)
    refused = tarred(manifest, *right)
    assert (refused.code, tree(manifest.parent)) == (2, before)
    assert f"--audio-base-dir was not given (the manifest's folder), now {SHORT_CORPUS}" in refused.error_line
    assert "give --overwrite to start again" in refused.error_line
    assert tarred(manifest, *right, "--overwrite").code == 0
    assert (failed / "notes.txt").read_text() == "mine"
    (failed / "notes.txt").unlink()
    assert prepcli("manifest-to-tarred", manifest, manifest.parent / "w", "--num-shards", 2, *right).code == 0
    assert tree(failed) == tree(manifest.parent / "w")


def test_its_own_empty_folders_are_not_files_of_others(manifest: Path) -> None:
    """A run that is killed after it has cleared leaves them."""
    (manifest.parent / "out/sharded_manifests").mkdir(parents=True)
    done = tarred(manifest, "--audio-base-dir", SHORT_CORPUS)
    assert (done.code, done.err) == (0, "")


def test_fewer_shards_leave_nothing_of_the_failed_run(manifest: Path, failed: Path) -> None:
    (failed / "notes.txt").unlink()
    words = ("manifest-to-tarred", manifest, failed, "--num-shards", 1, "--audio-base-dir", SHORT_CORPUS, "--overwrite")
    assert prepcli(*words).code == 0
    assert not (failed / "audio_1.tar").exists()
    assert prepcli("verify", failed).code == 0


def test_the_default_is_named_in_the_refusal(tmp_path: Path) -> None:
    arguments = ["manifest-to-tarred", SHORT_CORPUS / "manifest.json", tmp_path / "out", "--num-shards", 2]
    assert prepcli(*arguments).code == 0
    corpus = shutil.copytree(SHORT_CORPUS, tmp_path / "corpus")
    done = prepcli(*arguments, "--audio-base-dir", corpus, "--force-codec", "flac")
    assert done.code == 2
    assert f"--audio-base-dir was not given (the manifest's folder), now {corpus}" in done.error_line
    assert "--force-codec was not given (unchanged), now flac" in done.error_line
