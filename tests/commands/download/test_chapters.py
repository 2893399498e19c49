"""download hifitts2: chapters fetched or of a copy, compared with their durations, cut as the publisher's tool does."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import Files, hifitts2, write_files
from tests.conftest import read_lines, tree
from tests.support.running import Outcome, prepcli

REJECTS = {"bad_field": 2, "beyond_audio": 1, "duration_mismatch": 3, "missing_audio": 4, "unreadable_audio": 3}
SETS = ("train", "dev_seen", "dev_unseen", "test_seen", "test_unseen")


@pytest.fixture(scope="module")
def published() -> Files:
    return hifitts2()


def download(data: Path, *more: object, code: int = 0) -> Outcome:
    done = prepcli("download", "hifitts2", "--data-root", data, "--max-rejects", 20, "--json", *more)
    assert done.code == code, done.err
    return done


def site_of(published: Files) -> Files:
    return {name.removeprefix("chapters/"): data for name, data in published.items()}


def all_records(data: Path) -> dict[str, dict[str, Any]]:
    records = [record for one in SETS for record in read_lines(data / f"hifitts2_22khz/{one}.json")]
    return {record["audio_filepath"]: record for record in records}


@pytest.mark.slow
def test_utterances_are_those_of_the_publishers_tool(published: Files, tmp_path: Path) -> None:
    """Its steps: librosa.load at the rate, time_to_samples, a slice, soundfile.write."""
    import librosa

    copy = write_files(published, tmp_path / "copy")
    before = tree(copy)
    report = download(tmp_path / "data", "--metadata", copy, "--chapters", copy / "chapters").json
    assert tree(copy) == before
    assert report["rejects_by_reason"] == REJECTS
    assert report["records_in"] == len(read_lines(copy / "manifest_22khz.json")) == report["records_out"] + 13
    found = all_records(tmp_path / "data")
    assert len(found) == report["records_out"] > 20
    source = {line["audio_filepath"]: line for line in read_lines(copy / "manifest_22khz.json")}
    compared = 0
    for line in (copy / "chapters_22khz.json").read_text().splitlines():
        row = json.loads(line)
        kept = [one for one in row.get("utterances", []) if one["audio_filepath"] in found]
        if not kept:
            continue
        samples, rate = librosa.load(copy / "chapters" / row["chapter_filepath"], sr=22050)
        for one in kept:
            start, end = (
                librosa.time_to_samples(at, sr=rate) for at in (one["offset"], one["offset"] + one["duration"])
            )
            buffer = io.BytesIO()
            soundfile.write(buffer, samples[start:end], 22050, format="FLAC")
            buffer.seek(0)
            theirs, _ = soundfile.read(buffer, dtype="int16")
            path = tmp_path / "data/hifitts2_22khz" / one["audio_filepath"]
            ours, ours_rate = soundfile.read(path, dtype="int16")
            assert (ours_rate, ours.shape) == (22050, theirs.shape)
            assert abs(ours.astype(int) - theirs).max() <= 1
            published_line = source[one["audio_filepath"]]
            speaker = f"| Language:en Dataset:HiFiTTS2 Speaker:{published_line['speaker']} |"
            changed = {"duration": len(ours) / 22050, "speaker": speaker}
            assert found[one["audio_filepath"]] == published_line | changed
            assert abs(changed["duration"] - one["duration"]) < 0.001
            compared += 1
    assert compared == len(found)


@pytest.mark.slow
def test_fetched_chapters_give_the_same_bytes_for_any_ranks(published: Files, serve: Serve, tmp_path: Path) -> None:
    site = serve(site_of(published))
    copy = write_files(published, tmp_path / "copy")
    download(tmp_path / "copied", "--metadata", copy, "--chapters", copy / "chapters")
    planned = prepcli("download", "hifitts2", "--data-root", tmp_path / "data", "--base-url", site.url, "--dry-run")
    assert (planned.code, "manifest_22khz.json is not here yet" in planned.error_line) == (2, True)
    download(tmp_path / "data", "--base-url", site.url, "--fetch-only")
    assert len(site.asked) == 2
    for rank in range(3):
        download(tmp_path / "data", "--base-url", site.url, "--rank", rank, "--world-size", 3)
    assert tree(tmp_path / "data") == tree(tmp_path / "copied")
    rejects = read_lines(tmp_path / "data.prepcli/sets/hifitts2_22khz/rejects.jsonl")
    assert "404 Not Found" in str([one["reject_detail"] for one in rejects])
    assert not list((tmp_path / "data.prepcli").rglob("*.mp3"))
    asked = len(site.asked)
    assert download(tmp_path / "data", "--base-url", site.url).json["status"] == "nothing_to_do"
    assert len(site.asked) == asked


def test_a_chapter_that_a_server_refuses_is_tried_again_later(published: Files, serve: Serve, tmp_path: Path) -> None:
    """Servers that answer 503 for one item do so for days: it makes rejects, and the other chapters go on."""
    copy = write_files(published, tmp_path / "copy")
    files = site_of(published)
    site = serve(files, refusals=[(503, {"Retry-After": "0"})] * 6)
    words = (tmp_path / "data", "--metadata", copy, "--base-url", site.url, "--num-workers", 1)
    report = download(*words).json
    refused = {"missing_audio": 4 + 4, "beyond_audio": 0}  # all of the first chapter, also the one that ends after it
    assert {"beyond_audio": 0} | report["rejects_by_reason"] == REJECTS | refused
    again = download(*words, "--retry-rejects").json
    assert again["rejects_by_reason"] == REJECTS


def test_without_a_network_the_run_is_incomplete(published: Files, tmp_path: Path, monkeypatch: Any) -> None:
    from prepcli.storage import transfer

    monkeypatch.setattr(transfer, "BACKOFF", 0.0)
    copy = write_files(published, tmp_path / "copy")
    words = (tmp_path / "data", "--metadata", copy)
    done = download(*words, code=4)
    assert "Continue with: prepcli download hifitts2" in done.err
    assert done.json["status"] == "incomplete"
    assert not list((tmp_path / "data").rglob("*.json"))
    report = download(*words, "--chapters", copy / "chapters").json
    assert report["rejects_by_reason"] == REJECTS


def test_connections_that_break_and_damage_of_a_chapter(published: Files, serve: Serve, tmp_path: Path) -> None:
    copy = write_files(published, tmp_path / "copy")
    site = serve(site_of(published), cut_after=[100, 200, 5000])
    words = ("--metadata", copy, "--base-url", site.url, "--num-workers", 1)
    assert download(tmp_path / "data", *words).json["rejects_by_reason"] == REJECTS


def test_ids_that_come_twice(published: Files, tmp_path: Path) -> None:
    """In the manifest, the second is a reject that names both lines; in the list of chapters, both are."""
    lines = published["manifest_22khz.json"].decode().splitlines()
    other = json.loads(lines[0]) | {"text": "other words"}
    rows = published["chapters_22khz.json"].decode().splitlines()
    several = json.loads(rows[1])["utterances"][0]
    row = json.loads(rows[0])
    row["utterances"].append(several | {"offset": 0.25})
    changed = {
        "manifest_22khz.json": "".join(f"{line}\n" for line in [*lines, json.dumps(other)]).encode(),
        "chapters_22khz.json": "".join(f"{line}\n" for line in [json.dumps(row), *rows[1:]]).encode(),
    }
    copy = write_files(published | changed, tmp_path / "copy")
    report = download(tmp_path / "data", "--metadata", copy, "--chapters", copy / "chapters").json
    assert report["rejects_by_reason"] == REJECTS | {"bad_field": REJECTS["bad_field"] + 2}
    rejects = read_lines(tmp_path / "data.prepcli/sets/hifitts2_22khz/rejects.jsonl")
    manifest, id = copy / "manifest_22khz.json", other["audio_filepath"]
    twice = f"the id {id} is there twice, in {manifest}:1 and in {manifest}:{len(lines) + 1}; the first is used"
    assert [one["audio_filepath"] for one in rejects if one["reject_detail"] == twice] == [id]
    several_times = f"{copy / 'chapters_22khz.json'} has it several times: which one is meant?"
    assert [one["audio_filepath"] for one in rejects if one["reject_detail"] == several_times] == [
        several["audio_filepath"]
    ]
    assert all_records(tmp_path / "data")[id]["text"] != "other words"


def test_wrong_use(published: Files, tmp_path: Path) -> None:
    done = prepcli("download", "hifitts2", "--data-root", tmp_path / "data", "--metadata", tmp_path)
    assert done.code == 2
    assert f"{tmp_path}/manifest_22khz.json does not exist: --metadata holds the published" in done.error_line
    words = ("--metadata", write_files(published, tmp_path / "copy"), "--sampling-rate", "44khz")
    assert prepcli("download", "hifitts2", "--data-root", tmp_path / "data", *words).code == 2
    done = download(tmp_path / "data", *words[:2], "--base-url", "ftp://server", code=2)
    assert "--base-url ftp://server is not an address" in done.error_line
