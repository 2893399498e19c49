"""extend-codec-codes and a Shar set that changes: other audio under the same cuts, copies, an unfinished set."""

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, copy_set, make_set, read_lines, tree, write_lines
from tests.support.hub import hub_server
from tests.support.running import Outcome, prepcli
from tests.support.shar_sets import make
from tests.support.tools import need_package
from tests.support.toy_codec import use_toy_codec

pytestmark = pytest.mark.usefixtures("one_thread", "toy")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    use_toy_codec(monkeypatch.setattr)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quarter of the mini corpus, with contexts."""
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")[::4]
    for record in records:
        for field in ("audio_filepath", "context_audio_filepath"):
            record[field] = str(MINI_CORPUS / record[field])
    return write_lines(tmp_path_factory.mktemp("manifest") / "m.json", records)


@pytest.fixture(scope="module")
def corpus(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("corpus") / "shar"
    make(manifest, out, "--shard-size", 6, "--audio-format", "wav")
    return out


@pytest.fixture(params=[True, False], ids=["own", "foreign"])
def shar(corpus: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of it, with the records of its making or as a set of somebody else."""
    return copy_set(corpus, tmp_path, records=request.param)


def extend(shar: Path | str, *more: object) -> Outcome:
    # A unit for each shard.
    arguments = ("--codec-model", "toy", "--codec-name", "x", "--devices", "cpu", "--pool-duration", 1, "--json")
    return prepcli("extend-codec-codes", shar, *arguments, "--num-workers", 1, *more)


def replace_audio(tar: Path) -> None:
    """Other audio of the same length and size, and an older date."""

    before = tar.stat()
    with tarfile.open(tar) as members:
        first = members.getmembers()[0]
    data = bytearray(tar.read_bytes())
    start = first.offset_data + first.size // 4 * 2
    data[start : start + 8000] = bytes(byte ^ 0x35 for byte in data[start : start + 8000])
    tar.write_bytes(data)
    os.utime(tar, ns=(before.st_atime_ns, before.st_mtime_ns - 10**9))


@pytest.mark.parametrize("field", ["target_audio", "context_audio"])
def test_replaced_audio_is_noticed(shar: Path, field: str) -> None:
    assert extend(shar).json["status"] == "done"
    before = tree(shar / "codes_x")
    tar = shar / field / "recording.000001.tar"
    replace_audio(tar)
    done = extend(shar)
    assert done.code == 2
    assert f"{tar} holds other audio than the codes in {shar} were made of" in done.error_line
    assert tree(shar / "codes_x") == before
    assert extend(shar, "--overwrite").json["status"] == "done"
    assert tree(shar / "codes_x") != before
    assert extend(shar).json["status"] == "nothing_to_do"


def test_replaced_audio_of_a_unit_that_is_not_done(shar: Path) -> None:
    ranks = ("--world-size", 2, "--launch-id", "a", "--no-steal")
    assert extend(shar, "--rank", 0, *ranks).json["units_done"] == 1
    done = {path.name[7:13] for path in shar.with_name("shar.prepcli").glob("codes_x/*/units/*")}
    (other,) = {"000000", "000001"} - done
    replace_audio(shar / f"target_audio/recording.{other}.tar")
    assert extend(shar).json["status"] == "done"
    replace_audio(shar / f"target_audio/recording.{done.pop()}.tar")
    assert extend(shar).code == 2


def test_the_same_bytes_with_another_date_or_in_a_copy(shar: Path, tmp_path: Path) -> None:
    assert extend(shar).json["status"] == "done"
    for tar in shar.glob("*/recording.*.tar"):
        os.utime(tar, (1, 1))
    assert extend(shar).json["status"] == "nothing_to_do"
    for tar in shar.glob("*/recording.*.tar"):
        shutil.copy(tar, tmp_path / "copy")
        os.replace(tmp_path / "copy", tar)
    assert extend(shar).json["status"] == "nothing_to_do"
    # What was found to be the same is not read again.
    (units,) = shar.with_name("shar.prepcli").glob("codes_x/*/units")
    records = tree(units)
    assert any(name.endswith(".seen.json") for name in records)
    assert extend(shar).json["status"] == "nothing_to_do"
    assert tree(units) == records
    replace_audio(shar / "target_audio/recording.000000.tar")
    assert extend(shar).code == 2


def test_codes_of_an_earlier_version_have_no_such_record(shar: Path) -> None:
    assert extend(shar).json["status"] == "done"
    for path in shar.with_name("shar.prepcli").glob("codes_x/*/units/*/unit.json"):
        shutil.rmtree(path.parent / "parts", ignore_errors=True)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"work_files": {}}))
    assert extend(shar).json["status"] == "nothing_to_do"


def test_an_unfinished_set(manifest: Path, tmp_path: Path) -> None:
    shar = tmp_path / "shar"
    make_it = ("manifest-to-shar", manifest, shar, "--shard-size", 3)
    assert prepcli(*make_it, "--rank", 0, "--world-size", 2, "--launch-id", "a", "--no-steal").code == 0
    for options in ((), ("--partial",)):
        done = extend(shar, *options)
        assert done.code == 2
        assert f"{shar} is not finished: 2 of 4 units are done; continue with: cd " in done.error_line
    assert prepcli(*make_it).code == 0
    for name in ("cuts.000001.jsonl.gz", "cuts.000003.jsonl.gz"):
        (shar / "cuts" / name).rename(tmp_path / name)
    before = tree(tmp_path)
    done = extend(shar)
    assert done.code == 2
    assert f"{shar} is not complete: 2 of 4 units are there. Continue it first: cd " in done.error_line
    assert "--partial" in done.error_line
    assert tree(tmp_path) == before
    part = extend(shar, "--partial")
    assert (part.code, part.json["records_in"]) == (0, 6)
    assert any("2 of 4 units" in note and "--overwrite" in note for note in part.json["notes"])
    assert extend(shar, "--partial").json["status"] == "nothing_to_do"

    assert prepcli(*make_it).code == 0  # which makes them again
    for options in ((), ("--partial",)):
        done = extend(shar, *options)
        assert done.code == 2
        assert "--partial was 2 of 4 units of the Shar, now not given" in done.error_line
        assert "--overwrite to start again" in done.error_line
    whole = extend(shar, "--overwrite")
    assert (whole.code, whole.json["records_in"]) == (0, 12)
    assert extend(shar, "--partial").json["status"] == "nothing_to_do"


def test_a_shard_of_the_set_was_taken_away(corpus: Path, tmp_path: Path) -> None:
    shar = copy_set(corpus, tmp_path, records=True)
    for path in shar.glob("*/*.000001.*"):
        path.unlink()
    assert "1 of 2 units are there" in extend(shar).error_line
    assert extend(shar, "--partial").json["records_in"] == 6


def test_a_set_without_records_is_taken_as_it_is(corpus: Path, tmp_path: Path) -> None:
    shar = copy_set(corpus, tmp_path)
    for path in shar.glob("*/*.000000.*"):
        path.unlink()
    assert extend(shar).json["records_in"] == 6


def test_records_of_another_kind_beside_the_set_have_no_say(manifest: Path, tmp_path: Path) -> None:
    shar = tmp_path / "shar"
    make_set("manifest-to-shar", manifest, shar, "--shard-size", 6)
    shutil.rmtree(tmp_path / "shar.prepcli")
    assert extend(shar).json["records_in"] == 12  # makes shar.prepcli/codes_x
    assert extend(shar, "--codec-name", "y").json["records_in"] == 12


def test_verify_sees_codes_of_other_audio(corpus: Path, tmp_path: Path) -> None:
    """Of the Shar set as it was before it was made again; but not where only dates have changed."""
    folder = copy_set(corpus, tmp_path)
    assert extend(folder).code == 0
    tar = folder / "target_audio/recording.000001.tar"
    tar.touch()
    assert prepcli("verify", folder).code == 0
    replace_audio(tar)
    checked = prepcli("verify", folder, "--json")
    assert checked.code == 1
    assert f"codes_x: made of other audio than {tar} holds now" in checked.json["problems"][0]
    out = tmp_path / "elsewhere"
    assert extend(folder, "--output-dir", out).code == 0
    assert prepcli("verify", out).code == 0
    replace_audio(tar)
    assert prepcli("verify", out).code == 1


@pytest.mark.slow
def test_a_data_set_in_folders_of_a_folder(manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As most data sets on the hub have their Parquet files, there and as a copy."""
    need_package("huggingface_hub")
    make_set("manifest-to-parquet", manifest, tmp_path / "parquet")
    shutil.copytree(tmp_path / "parquet", tmp_path / "set/data")
    assert extend(tmp_path / "set", "--output-dir", tmp_path / "out").json["records_in"] == 12
    files = {str(one.relative_to(tmp_path / "set")): one.read_bytes() for one in (tmp_path / "set").rglob("*.parquet")}
    with hub_server() as hub:
        for name, value in hub.environ.items():
            monkeypatch.setenv(name, value)
        hub.push("own/set", files)
        done = extend("hf://datasets/own/set", "--output-dir", tmp_path / "hub")
        assert not [path for path in hub.asked if "::" in path]
    assert (done.json["records_in"], done.json["rejects"]) == (12, 0)
    assert tree(tmp_path / "hub/codes_x") == tree(tmp_path / "out/codes_x")
    (tmp_path / "empty").mkdir()
    assert "is not a data set" in extend(tmp_path / "empty", "--output-dir", tmp_path / "none").err
