"""Paths with `..` behind a symbolic link: the file that is read is the one that the system opens."""

from pathlib import Path

import pytest

from prepcli.engine.state.workspace import Workspace
from tests.commands.manifest_to_tarred.test_job import make, shard
from tests.conftest import read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.shar_sets import make as make_shar


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """`here/link/../a.wav` is `there/a.wav`; `here/a.wav` is another file."""
    (tmp_path / "there/folder").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here/link").symlink_to(tmp_path / "there/folder")
    write_audio(tmp_path / "there/a.wav", 1.0, seed=1)
    write_audio(tmp_path / "here/a.wav", 1.0, seed=2)
    return tmp_path


def test_paths_in_a_manifest(linked: Path, tmp_path: Path) -> None:
    records = [{"audio_filepath": name, "duration": 1.0, "text": name} for name in ("link/../a.wav", "a.wav")]
    manifest = write_lines(linked / "here/m.json", records)
    make(manifest, tmp_path / "out", "--num-shards", 1)
    lines, members = shard(tmp_path / "out", 0)
    assert members[lines[0]["audio_filepath"]] == (linked / "there/a.wav").read_bytes()
    assert members[lines[1]["audio_filepath"]] == (linked / "here/a.wav").read_bytes()


@pytest.mark.parametrize("base", ["link/..", "./link//.././", "link/../../there"])
def test_the_base_directory(linked: Path, tmp_path: Path, base: str) -> None:
    manifest = write_lines(linked / "m.json", [{"audio_filepath": "a.wav", "duration": 1.0, "text": ""}])
    arguments = [manifest, tmp_path / "out", "--num-shards", 1, "--audio-base-dir", base]
    assert prepcli("manifest-to-tarred", *arguments, cwd=linked / "here").code == 0
    _, members = shard(tmp_path / "out", 0)
    assert list(members.values()) == [(linked / "there/a.wav").read_bytes()]


def test_the_manifests_own_folder(linked: Path, tmp_path: Path) -> None:
    write_lines(linked / "there/m.json", [{"audio_filepath": "a.wav", "duration": 1.0, "text": ""}])
    make(linked / "here/link/../m.json", tmp_path / "out", "--num-shards", 1)
    _, members = shard(tmp_path / "out", 0)
    assert list(members.values()) == [(linked / "there/a.wav").read_bytes()]


def test_shar(linked: Path, tmp_path: Path) -> None:
    """The record and its context are different files, whatever their names look like."""
    record = {"audio_filepath": "a.wav", "duration": 1.0, "text": "a", "context_audio_filepath": "link/../a.wav"}
    manifest = write_lines(linked / "here/m.json", [record | {"context_audio_duration": 1.0}])
    make_shar(manifest, tmp_path / "out", "--audio-format", "original")
    contents = [path.read_bytes() for path in sorted((tmp_path / "out").glob("*_audio/recording.000000.tar"))]
    stored = [
        (linked / folder / "a.wav").read_bytes() in content for folder in ("there", "here") for content in contents
    ]
    assert stored == [True, False, False, True]


def test_inspect_looks_at_the_same_file(linked: Path) -> None:
    (linked / "here/a.wav").unlink()
    manifest = write_lines(linked / "here/m.json", [{"audio_filepath": "link/../a.wav", "duration": 1.0, "text": ""}])
    (audio,) = prepcli("inspect", manifest, "--json").json["audio"]
    assert (audio["looked_at"], audio["missing"]) == (1, 0)


def test_settings_without_links_are_short(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    write_audio(tmp_path / "a/x.wav", 1.0)
    manifest = write_lines(tmp_path / "m.json", [{"audio_filepath": "x.wav", "duration": 1.0, "text": ""}])
    arguments = [manifest, "out", "--num-shards", 1, "--audio-base-dir"]
    assert prepcli("manifest-to-tarred", *arguments, "a/b/..", cwd=tmp_path).code == 0
    # The same folder, by another name: no other settings.
    again = prepcli("manifest-to-tarred", *arguments, "a/b/..", "--json", cwd=tmp_path)
    assert again.json["status"] == "nothing_to_do"
    plan = Workspace(tmp_path / "out").plan_file.read_text()
    assert f'"{tmp_path}/a"' in plan
    assert read_lines(tmp_path / "out/tarred_audio_manifest.json")[0]["audio_filepath"] == "x.wav"
