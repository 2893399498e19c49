"""What stands beside the files of a data set: lhotse's indexes, a second copy, pipes. Nothing counts twice or waits."""

import gzip
import os
import re
import shutil
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, SHORT_CORPUS, copy_set, make_set
from tests.support.running import Outcome, prepcli, prepcli_process


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Shar and a tarred set of two shards each."""
    folder = tmp_path_factory.mktemp("sets")
    make_set("manifest-to-shar", SHORT_CORPUS / "manifest_with_context.json", folder / "shar", "--shard-size", 24)
    make_set("manifest-to-tarred", SHORT_CORPUS / "manifest.json", folder / "tarred", "--num-shards", 2)
    return folder


def add_indexes(folder: Path) -> None:
    """As lhotse 2 leaves them beside every file that it has opened by position; those of tars begin with the pairs."""
    for path in list(folder.rglob("*")):
        offsets = []
        if path.suffix == ".tar":
            with tarfile.open(path) as tar:
                every = 1 if path.name.startswith("audio_") else 2
                offsets = [member.offset for member in tar.getmembers()[::every]]
        elif path.suffix in (".jsonl", ".json"):
            ends = [0, *(match.end() for match in re.finditer(b"\n", path.read_bytes()))]
            offsets = ends[:-1]
        else:
            continue
        index = struct.pack(f"<{len(offsets) + 1}Q", *offsets, path.stat().st_size)
        path.with_name(path.name + ".idx").write_bytes(index)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", ["shar", "tarred"])
def test_indexes_are_not_data(sets: Path, tmp_path: Path, name: str) -> None:
    out = copy_set(sets / name, tmp_path)
    plain = [prepcli("inspect", out, "--json").json, prepcli("estimate-bins", out, "-b", 3, "--json").json]
    if name == "shar":
        for path in (out / "cuts").iterdir():
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
    add_indexes(out)
    found = [prepcli("inspect", out, "--json"), prepcli("estimate-bins", out, "-b", 3, "--json")]
    assert [one.code for one in found] == [0, 0], found
    for before, after in zip(plain, found, strict=True):
        for key in ("records", "num_examples", "bucket_duration_bins", "files", "tars"):
            assert before.get(key) == after.json.get(key)
    assert prepcli("verify", out).code == 0
    stale = next(iter(sorted(out.rglob("*.idx"))))
    stale.write_bytes(b"\0" * 16)
    checked = prepcli("verify", out)
    assert (checked.code, f"{stale.name}: it " in checked.out) == (1, True), checked.out
    if name == "shar":
        flat = prepcli("estimate-bins", f"shar_path={out / 'cuts'}", "-b", 3, "--json")
        assert flat.json["num_examples"] == 48
        codes = prepcli("extend-codec-codes", out, "--codec-model", "x", "--devices", "cpu", "--dry-run", "--json")
        assert codes.json["records_in"] == 48


@pytest.mark.usefixtures("one_thread")
def test_a_shard_that_is_there_twice(sets: Path, tmp_path: Path) -> None:
    out = copy_set(sets / "shar", tmp_path)
    path = out / "cuts/cuts.000001.jsonl.gz"
    path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
    message = "holds cuts.000001.jsonl and cuts.000001.jsonl.gz, two files of the same shard; remove one of them"
    for call in (
        ("inspect", out),
        ("inspect", out / "cuts"),
        ("estimate-bins", out),
        ("estimate-bins", f"shar_path={out}"),
        ("extend-codec-codes", out, "--codec-model", "x", "--devices", "cpu"),
    ):
        done = prepcli(*call)
        assert (done.code, message in done.error_line) == (2, True), call
    checked = prepcli("verify", out)
    assert checked.code == 1
    assert message in checked.out


def test_verify_of_tars_without_manifests(sets: Path, tmp_path: Path) -> None:
    out = copy_set(sets / "tarred", tmp_path)
    (out / "tarred_audio_manifest.json").unlink()
    shutil.rmtree(out / "sharded_manifests")
    done = prepcli("verify", out)
    assert (done.code, done.err) == (1, "")


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


# In processes of their own, which a limit ends: what waits for a pipe waits for ever.


@pytest.mark.parametrize(
    "name",
    [
        "m.json",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("x.tar", "x.wav", "m.json.gz")),
        "cuts.000000.jsonl.gz",
    ],
)
def test_inspect_of_a_pipe(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    done = prepcli_process("inspect", tmp_path / name)
    assert done.code == 2
    assert f"{tmp_path / name} is a pipe, not a file" in done.error_line
    alone = prepcli_process("inspect", tmp_path)
    assert alone.code == 2
    assert "holds nothing that inspect knows" in alone.error_line
    shutil.copy(MINI_CORPUS / "segments.json", tmp_path / "segments.json")
    for both in (f"{tmp_path}/segments.json,{tmp_path / name}", f"{tmp_path / name},{tmp_path}/segments.json"):
        done = prepcli_process("inspect", both)
        assert (done.code, "is a pipe" in done.error_line) == (2, True)
    found = prepcli_process("inspect", tmp_path, "--json")
    assert (found.code, found.json["records"]) == (0, 6), found.err


def test_inspect_of_a_device() -> None:
    done = prepcli("inspect", "/dev/null")
    assert (done.code, "is a device, not a file" in done.error_line) == (2, True)


def inspect(out: Path) -> Outcome:
    return prepcli_process("inspect", out)


def verify(out: Path) -> Outcome:
    return prepcli_process("verify", out)


@pytest.mark.slow
@pytest.mark.parametrize("look", [inspect, verify])
@pytest.mark.parametrize(
    "name",
    [
        "shar/cuts/cuts.000001.jsonl.gz",
        "shar/target_audio/recording.000001.tar",
        "tarred/audio_1.tar",
        "tarred/sharded_manifests/manifest_1.json",
        "tarred/tarred_audio_manifest.json",
        "tarred/metadata.yaml",
    ],
)
def test_a_pipe_in_a_set(sets: Path, tmp_path: Path, name: str, look: Callable[[Path], Outcome]) -> None:
    out = copy_set(sets / name.partition("/")[0], tmp_path)
    replace_by_pipe(tmp_path / name)
    done = look(out)
    assert "a bug" not in done.err
    if look is verify:
        assert (done.code, done.err) == (1, "")
        assert os.path.basename(name) in done.out
