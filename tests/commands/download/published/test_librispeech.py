"""download librispeech: what it writes, that it goes on where it was, and what it says."""

import fcntl
import json
import shutil
from pathlib import Path

import pytest
import soundfile

from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import utterances
from tests.commands.download.server import Site
from tests.conftest import SHORT_CORPUS, read_lines, tree
from tests.support.running import Outcome, prepcli

MINI = ["download", "librispeech", "--data-sets", "mini", "--num-workers", 2]


def test_what_is_written(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = prepcli(*MINI, "--data-root", data, "--base-url", serve().url, "--checksums", checksums)
    assert (done.code, done.err) == (0, "")
    records = read_lines(data / "dev_clean_2.json")
    assert len(records) == 12
    assert len(read_lines(data / "train_clean_5.json")) == 18
    assert records[0] == {
        "audio_filepath": "LibriSpeech/dev-clean-2-processed/101-1011-0000.wav",
        "duration": 0.1,
        "text": "good morning to you.",
        "speaker": "| Language:en Dataset:LibriSpeech Speaker:101 |",
        "chapter": "1011",
    }
    assert [record["audio_filepath"] for record in records] == sorted(record["audio_filepath"] for record in records)
    for record, (published, text) in zip(records, [*utterances("s01"), *utterances("s02")], strict=True):
        assert record["text"] == text.lower()
        samples, rate = soundfile.read(data / record["audio_filepath"], dtype="int16")
        expected, expected_rate = soundfile.read(published, dtype="int16")
        assert (rate, record["duration"]) == (expected_rate, len(expected) / expected_rate)
        assert (samples == expected).all()
    assert (data / "LibriSpeech/README.TXT").exists()
    assert len(list(data.glob("LibriSpeech/dev-clean-2/*/*/*.flac"))) == 12
    assert not (data / "archives").exists()
    assert sorted(path.name for path in data.iterdir()) == ["LibriSpeech", "dev_clean_2.json", "train_clean_5.json"]


def mini(data: Path, site: Site, checksums: Path, *more: object) -> Outcome:
    return prepcli(*MINI, "--data-root", data, "--base-url", site.url, "--checksums", checksums, *more)


def test_flac_stays_flac(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert mini(data, serve(), checksums, "--audio-format", "flac").code == 0
    records = read_lines(data / "dev_clean_2.json")
    assert records[0]["audio_filepath"] == "LibriSpeech/dev-clean-2/101/1011/101-1011-0000.flac"
    assert (data / records[0]["audio_filepath"]).read_bytes() == (SHORT_CORPUS / "s01/s01_u1.flac").read_bytes()
    assert not list(data.rglob("*.wav"))


def test_finished_is_a_quiet_no_op_even_without_archive_and_server(
    serve: Serve, checksums: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    site = serve()
    assert mini(data, site, checksums).code == 0
    before, asked = tree(data), len(site.asked)
    again = mini(data, site, checksums)
    assert (again.code, again.err) == (0, "")
    assert again.out.splitlines() == [
        f"download librispeech dev_clean_2: nothing to do, {data} is complete",
        f"download librispeech train_clean_5: nothing to do, {data} is complete",
    ]
    assert (tree(data), len(site.asked)) == (before, asked)


def test_a_data_set_can_be_added_later(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert mini(data, serve(), checksums, "--data-sets", "dev_clean_2").code == 0
    assert not (data / "train_clean_5.json").exists()
    assert mini(data, serve(), checksums, "--data-sets", "train_clean_5,dev-clean-2").code == 0
    whole = tmp_path / "whole"
    assert mini(whole, serve(), checksums, "--num-workers", 1).code == 0
    assert tree(data) == tree(whole)


def test_other_settings_are_refused_and_overwrite_takes_the_unpacked_tree(
    serve: Serve, checksums: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    site = serve()
    assert mini(data, site, checksums).code == 0
    refused = mini(data, site, checksums, "--audio-format", "flac")
    assert refused.code == 2
    assert "audio_format was wav, now flac" in refused.error_line
    assert mini(data, site, checksums, "--audio-format", "flac", "--overwrite").code == 0
    assert len(site.asked) == 2
    assert not list(data.rglob("*.wav"))
    assert read_lines(data / "dev_clean_2.json")[0]["audio_filepath"].endswith(".flac")


def test_overwrite_fetches_a_tree_that_is_gone(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    site = serve()
    assert mini(data, site, checksums).code == 0
    before = tree(data)
    shutil.rmtree(data / "LibriSpeech/dev-clean-2")
    assert mini(data, site, checksums).code == 0  # what was made of it is all there
    (data / "LibriSpeech/dev-clean-2-processed/101-1011-0000.wav").unlink()
    gone = mini(data, site, checksums)
    assert gone.code == 2
    assert "give --overwrite to fetch it again" in gone.error_line
    assert mini(data, site, checksums, "--overwrite").code == 0
    assert tree(data) == before
    assert len(site.asked) == 3


def test_fetch_only_and_then_ranks(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data, whole = tmp_path / "data", tmp_path / "whole"
    ranks = [["--rank", rank, "--world-size", 2] for rank in range(2)]
    site = serve()
    early = mini(data, site, checksums, *ranks[0])
    assert early.code == 2
    assert "dev_clean_2, train_clean_5: one process must fetch and unpack them first" in early.error_line
    assert mini(data, site, checksums, "--fetch-only").code == 0
    assert not list(data.rglob("*.wav"))
    assert not (data / "archives").exists()
    for rank in ranks:
        assert mini(data, site, checksums, *rank).code == 0
    assert len(site.asked) == 2
    assert mini(whole, site, checksums).code == 0
    assert tree(data) == tree(whole)


def test_fetch_only_with_other_settings_later(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    """The index that unpacking leaves is made for the settings of then; the settings of now count."""
    data = tmp_path / "data"
    assert mini(data, serve(), checksums, "--fetch-only").code == 0
    assert mini(data, serve({}), checksums, "--audio-format", "flac").code == 0
    assert read_lines(data / "dev_clean_2.json")[0]["audio_filepath"].endswith(".flac")


def test_dry_run_writes_nothing(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    site = serve()
    planned = mini(data, site, checksums, "--dry-run", "--json").json["data_sets"]
    assert list(planned) == ["dev_clean_2", "train_clean_5"]
    assert planned["dev_clean_2"]["fetch"] == {
        "archive": "dev-clean-2.tar.gz",
        "from": f"{site.url}/dev-clean-2.tar.gz",
        "num_bytes": 126046265,
        "num_bytes_there": 0,
        "checksum": "md5:" + checksums.read_text().split()[0],
    }
    assert "126.0 MB" in mini(data, site, checksums, "--dry-run").out
    assert (list(tmp_path.iterdir()), site.asked) == ([], [])
    assert mini(data, site, checksums, "--fetch-only").code == 0
    plan = mini(data, site, checksums, "--dry-run", "--json").json["data_sets"]["dev_clean_2"]
    assert (plan["records_in"], plan["units"]) == (12, 1)


def test_json_is_one_object(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    done = mini(tmp_path / "data", serve(), checksums, "--json")
    sets = done.json["data_sets"]
    assert [sets[name]["records_out"] for name in ("dev_clean_2", "train_clean_5")] == [12, 18]
    assert sets["dev_clean_2"]["details"] == {"dev_clean_2": str(tmp_path / "data/dev_clean_2.json")}


def test_status_shows_each_data_set(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    mini(data, serve(), checksums)
    status = json.loads(prepcli("status", data, "--json").out)
    assert [one["command"] for one in status] == [
        "download librispeech dev_clean_2",
        "download librispeech train_clean_5",
    ]
    assert {one["state"] for one in status} == {"finished"}


def test_status_before_anything_is_unpacked(serve: Serve, tmp_path: Path) -> None:
    prepcli("download", "librispeech", "--data-root", tmp_path / "data", "--base-url", serve({}).url)
    done = prepcli("status", tmp_path / "data")
    assert done.code == 2
    assert "dev_clean is still being fetched or unpacked" in done.error_line


def test_an_awkward_directory_that_is_moved_later(serve: Serve, checksums: Path, awkward: Path) -> None:
    """Paths are relative to the manifest: the other commands take it, and it can be moved."""
    assert mini(awkward / "data", serve(), checksums).code == 0
    (awkward / "data").rename(awkward / "moved")
    done = prepcli("manifest-to-tarred", awkward / "moved/train_clean_5.json", awkward / "tarred", "--num-shards", 2)
    assert done.code == 0, done.err
    assert prepcli("verify", awkward / "tarred").code == 0
    assert prepcli("estimate-bins", awkward / "moved/train_clean_5.json", "-b", 3).code == 0


def test_two_at_once(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    """The second says so instead of spoiling the first's work."""
    root = tmp_path / "data.prepcli/sets/dev_clean_2"
    root.mkdir(parents=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = mini(tmp_path / "data", serve(), checksums)
    assert done.code == 2
    assert "another process is fetching dev_clean_2" in done.error_line


@pytest.mark.nemo
def test_nemo_finds_the_audio(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    manifest_utils = pytest.importorskip("nemo.collections.asr.parts.utils.manifest_utils")
    from nemo.collections.common.parts.preprocessing.manifest import item_iter

    data = tmp_path / "data"
    assert mini(data, serve(), checksums).code == 0
    assert len(manifest_utils.read_manifest(str(data / "dev_clean_2.json"))) == 12
    for item in item_iter(str(data / "dev_clean_2.json")):
        assert Path(item["audio_file"]).is_file()
