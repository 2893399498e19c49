"""Keys are opaque: `d//e`, `d/./e` and `d/e` are three objects. What obstore cannot name is refused."""

from pathlib import Path

import pytest

from prepcli.storage.paths import StorePath, path_of
from tests.conftest import read_lines, write_lines
from tests.storage.buckets import Bucket
from tests.support.audio_files import write_audio
from tests.support.running import Prepcli, prepcli

WHY = "a part of a key must not be empty, '.' or '..', nor hold a control character"


def audio(folder: Path, seed: int) -> bytes:
    write_audio(folder / "x.wav", 1.0, seed=seed)
    return (folder / "x.wav").read_bytes()


@pytest.fixture
def two_objects(bucket: Bucket, tmp_path: Path) -> Bucket:
    """`d/e.wav` and `d//e.wav`, with different audio."""
    bucket.put_raw("d/e.wav", audio(tmp_path, 1))
    bucket.put_raw("d//e.wav", audio(tmp_path, 2))
    return bucket


def test_records_that_name_another_object_are_rejects(two_objects: Bucket, run: Prepcli, tmp_path: Path) -> None:
    paths = [two_objects / key for key in ("d/e.wav", "d//e.wav", "d/./e.wav", "d/../d/e.wav", "d/e.wav/")]
    manifest = write_lines(tmp_path / "m.json", [{"audio_filepath": path, "duration": 1.0} for path in paths])
    done = run("manifest-to-tarred", manifest, tmp_path / "out", "--num-shards", 1, "--max-rejects", 4)
    assert done.code == 0, done.err
    rejects = read_lines(tmp_path / "out.prepcli" / "rejects.jsonl")
    assert [record["audio_filepath"] for record in rejects] == paths[1:]
    assert {record["reject_reason"] for record in rejects} == {"bad_field"}
    assert [WHY in record["reject_detail"] for record in rejects] == [True, True, True, False]


def test_relative_paths_in_a_store(two_objects: Bucket, run: Prepcli, tmp_path: Path) -> None:
    """As in URLs, `.` and `..` are resolved, and empty parts stay; `verify` looks where the run has looked."""
    lines = "".join(
        f'{{"audio_filepath": "{path}", "duration": 1.0}}\n' for path in ("./e.wav", "../d/e.wav", "..//d/e.wav")
    )
    manifest = two_objects.put("d/m.json", lines)
    done = run("fix-durations", manifest, tmp_path / "m.json", "--max-rejects", 1)
    assert (done.code, done.err.count(WHY)) == (0, 0)
    assert [record["audio_filepath"] for record in read_lines(tmp_path / "m.json")] == ["./e.wav", "../d/e.wav"]
    verified = run("verify", tmp_path / "m.json")
    assert verified.code == 0, verified.out
    write_lines(tmp_path / "m.json", [{"audio_filepath": "none.wav", "duration": 1.0}])
    assert f"{two_objects.name}/d/none.wav does not exist" in run("verify", tmp_path / "m.json").out


@pytest.mark.parametrize(
    "words",
    [
        ("manifest-to-tarred", "m.json", "s3://bucket//out", "--num-shards", "1"),
        ("manifest-to-shar", "m.json", "out", "--audio-base-dir", "s3://bucket/./audio"),
        ("inspect", "s3://bucket/a/../m.json"),
        ("estimate-bins", "s3://bucket/{0..1}//m.json"),
        ("verify", "s3://bucket//set"),
        ("index", "s3://bucket/set//"),
        ("status", "s3://bucket//"),
    ],
    ids=" ".join,
)
def test_options_that_name_no_usable_key(words: tuple[str, ...], tmp_path: Path) -> None:
    write_lines(tmp_path / "m.json", [{"audio_filepath": "a.wav", "duration": 1.0}])
    before = sorted(tmp_path.iterdir())
    done = prepcli(*words, cwd=tmp_path)
    assert (done.code, WHY in done.error_line, sorted(tmp_path.iterdir())) == (2, True, before), done.err


def test_a_folder_with_a_key_that_cannot_be_named(two_objects: Bucket, run: Prepcli) -> None:
    done = run("verify", two_objects / "d")
    assert done.code == 2
    assert f"{two_objects / 'd'} cannot be listed because of the object 'd//'" in done.error_line


def test_markers_of_folders_are_ignored(
    bucket: Bucket, stored_corpus: str, run: Prepcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consoles make an empty object `folder/` for each new folder."""
    for key in ("out/", "out/sharded_manifests/"):
        bucket.put_raw(key)
    words = ("manifest-to-tarred", f"{stored_corpus}/segments.json", bucket / "out", "--num-shards", 2)
    done = run(*words, "--work-dir", tmp_path)
    assert done.code == 0, done.err
    assert run("verify", bucket / "out", "--work-dir", tmp_path).code == 0
    for name, value in bucket.store.environ.items():
        monkeypatch.setenv(name, value)
    names = {f"audio_{n}.tar{end}" for n in (0, 1) for end in ("", ".idx")} | {"sharded_manifests"}
    out = path_of(bucket / "out")
    assert {path.name for path in out.iterdir()} == {*names, "metadata.yaml", "tarred_audio_manifest.json"}
    assert "sharded_manifests" not in StorePath(str(out)).infos()
