"""Common Voice: tables by their headers, without quotes, of a new and an early release; compared with lhotse."""

import csv
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.commands.download.miniatures import checksum_list, common_voice, tar_gz, write_files
from tests.conftest import Lines, read_lines
from tests.support.running import prepcli

RELEASE = "cv-corpus-25.0-2026-03-09"


def download(data: Path, *more: object) -> Any:
    words = ("download", "common-voice", "--data-root", data, "--language", "en", "--max-rejects", 9, "--json")
    done = prepcli(*words, *more)
    assert done.code == 0, done.err
    return done.json


def records_of_lhotse(corpus: Path, part: str, work: Path) -> Lines:
    from lhotse.recipes.commonvoice import prepare_commonvoice

    made = prepare_commonvoice(corpus, work, "en", [part])["en"][part]
    return [
        {
            "audio_filepath": str(
                Path(made["recordings"][one.recording_id].sources[0].source).relative_to(corpus / "en")
            ),
            "text": one.text,
            "speaker": f"| Language:en Dataset:CommonVoice Speaker:{one.speaker} |",
            "lang": one.language,
        }
        | {name: value for name, value in {**one.custom, "gender": one.gender}.items() if value}
        for one in made["supervisions"]
    ]


@pytest.mark.torch  # lhotse imports it
def test_records_are_those_of_lhotse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the durations: those of MP3 are estimates there."""
    from lhotse.recipes import commonvoice

    monkeypatch.setattr(commonvoice, "ProcessPoolExecutor", InThisProcess)
    copy = write_files(common_voice(), tmp_path / "copy")
    report = download(copy, "--extracted", copy, "--data-sets", "ALL")
    assert (report["records_in"], report["records_out"]) == (32, 29)
    for part in ("train", "dev", "test", "validated", "invalidated"):
        records = read_lines(copy / RELEASE / f"en/{part}.json")
        for record in records:
            assert (record.pop("up_votes"), record.pop("down_votes")) == (2, 0)
            assert record.pop("duration") > 0.05
        assert records == records_of_lhotse(copy / RELEASE, part, tmp_path / "lhotse")
    rejects = read_lines(tmp_path / "copy.prepcli/sets/common-voice_25.0-2026-03-09-en/rejects.jsonl")
    assert [(one["reject_reason"], one["reject_detail"].partition(": ")[0]) for one in rejects] == [
        ("missing_audio", f"{RELEASE}/en/other.tsv:3"),
        ("unreadable_audio", f"{RELEASE}/en/other.tsv:4"),
        ("missing_field", f"{RELEASE}/en/other.tsv:5"),
    ]


class InThisProcess:
    """In the place of a pool of processes, which would import PyTorch for each clip."""

    def __init__(self, **_: object) -> None: ...

    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, function: Any, *arguments: Any) -> Any:
        done: Future[Any] = Future()
        done.set_result(function(*arguments))
        return done


def test_an_archive_as_it_is_handed_out(tmp_path: Path) -> None:
    name = f"{RELEASE}-en.tar.gz"
    (tmp_path / name).write_bytes(tar_gz(common_voice()))
    words = ("download", "common-voice", "--data-root", tmp_path / "data", "--language", "en")
    without = prepcli(*words)
    assert without.code == 2
    assert f"nobody publishes {name}: give your copy with --archive or --extracted" in without.error_line
    damaged = prepcli(*words, "--archive", tmp_path / name)
    assert damaged.code == 2
    assert "instead of sha256:5fc6abeb1832af175a72bd13b79bf90866d3eb0096463daea612fdae6d7cc692)" in damaged.err
    (tmp_path / "sums").write_text(checksum_list({name: (tmp_path / name).read_bytes()}))
    report = download(tmp_path / "data", "--archive", tmp_path / name, "--checksums", tmp_path / "sums")
    assert (report["records_out"], report["rejects"]) == (12, 0)
    other = prepcli(*words, "--archive", tmp_path / name, "--data-sets", "other")
    assert (other.code, "give --overwrite" in other.err) == (2, True)


def test_an_early_release(tmp_path: Path) -> None:
    """Other columns in another order, clips without .mp3, and no table of durations."""
    columns = ["path", "client_id", "sentence", "accent", "age", "gender", "up_votes", "down_votes"]
    files = common_voice("4-2019-12-10", columns=columns)
    del files["cv-corpus-4-2019-12-10/en/clip_durations.tsv"]
    copy = write_files(files, tmp_path / "copy")
    now = write_files(common_voice(), tmp_path / "now")
    download(copy, "--extracted", copy, "--release", "4-2019-12-10")
    download(now, "--extracted", now)
    for part in ("train", "dev", "test"):
        early = read_lines(copy / f"cv-corpus-4-2019-12-10/en/{part}.json")
        new = read_lines(now / RELEASE / f"en/{part}.json")
        assert [record.get("accents") for record in early] == [None, "england", None, None]
        for record in (*early, *new):
            record.pop("accents", None)
        assert early == new


def test_a_table_of_something_else(tmp_path: Path) -> None:
    copy = write_files(common_voice(), tmp_path / "copy")
    table = copy / RELEASE / "en/dev.tsv"
    table.write_text(table.read_text().replace("client_id", "speaker"))
    words = ("download", "common-voice", "--data-root", tmp_path / "data", "--extracted", copy, "--language")
    done = prepcli(*words, "en")
    assert (done.code, f"{table}:1: there is no column client_id" in done.error_line) == (2, True)
    assert "--language ../en is not a part of an archive's name" in prepcli(*words, "../en").error_line
    table.unlink()
    done = prepcli(*words, "en")
    assert (done.code, "dev.tsv" in done.error_line) == (1, True)


def test_quotes_are_text() -> None:
    """With quotes as `csv` reads them, rows of the miniature would be lost."""
    lines = common_voice()[f"{RELEASE}/en/train.tsv"].decode().splitlines()
    assert len(list(csv.DictReader(lines, delimiter="\t"))) < len(lines) - 1
