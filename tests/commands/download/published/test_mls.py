"""Multilingual LibriSpeech: what is written, compared with lhotse's recipe; the small training parts; both archives."""

from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import mls, write_files
from tests.conftest import Lines, read_lines
from tests.support.running import prepcli

TREE = "mls_polish_opus"


def download(data: Path, *more: object) -> Any:
    done = prepcli("download", "mls", "--language", "polish", "--data-root", data, "--max-rejects", 9, "--json", *more)
    assert done.code == 0, done.err
    return done.json


def records_of_lhotse(corpus: Path) -> dict[str, Lines]:
    from lhotse.recipes.mls import prepare_mls

    made = prepare_mls(corpus)["polish"]
    return {
        part: [
            {
                "audio_filepath": str(
                    Path(sets["recordings"][one.recording_id].sources[0].source).relative_to(corpus / TREE)
                ),
                "duration": pytest.approx(one.duration, abs=0.0001),
                "text": one.text,
                "speaker": f"| Language:pl Dataset:MLS Speaker:{one.speaker} |",
                "lang": "pl",
                "gender": one.gender,
            }
            for one in sets["supervisions"]
        ]
        for part, sets in made.items()
    }


@pytest.mark.slow
@pytest.mark.torch  # lhotse imports it
def test_records_are_those_of_lhotse(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    report = download(data, "--base-url", serve().url, "--checksums", checksums)
    assert report["rejects_by_reason"] == {"missing_audio": 1, "missing_field": 2}
    table, dev = data / TREE / "metainfo.txt", data / TREE / "dev/transcripts.txt"
    kept = [line for line in dev.read_text().splitlines() if line.split("\t")[0].endswith(("_000000", "_000003"))]
    dev.write_text(
        "".join(f"{line}\n" for line in kept)
    )  # lhotse ends at a line without audio, and at one without text
    table.write_text(table.read_text() + "1104 | ? |")  # … and at a speaker that is not in the table
    for part, theirs in records_of_lhotse(data).items():
        ours = {record["audio_filepath"]: record for record in read_lines(data / TREE / f"{part}.json")}
        for record in theirs:
            found = {"gender": "?"} | ours[record["audio_filepath"]]
            assert found == record
        assert len(ours) >= len(theirs) > 1
        assert part == "dev" or len(ours) == len(theirs)


@pytest.mark.parametrize("archive_format", ["opus", "flac"])
def test_both_archives_and_the_small_parts(archive_format: str, tmp_path: Path) -> None:
    tree = TREE if archive_format == "opus" else "mls_polish"
    copy = write_files(mls(tree), tmp_path / "copy")
    report = download(copy, "--extracted", copy, "--archive-format", archive_format)
    assert (report["records_in"], report["records_out"]) == (12 + 4 + 7 + 6 + 6, 35 - 3)
    assert {Path(path).name for path in report["outputs"].values()} == {
        *("train.json", "train_9hr.json", "train_1hr.json", "dev.json", "test.json")
    }
    train = {record["audio_filepath"]: record for record in read_lines(copy / tree / "train.json")}
    for name, subsets in (("9hr", ["9hr"] * 4), ("1hr", [f"1hr/{number}" for number in range(6)])):
        records = read_lines(copy / tree / f"train_{name}.json")
        assert [record["subset"] for record in records] == subsets
        for record in records:
            assert train[record["audio_filepath"]] == {key: record[key] for key in record if key != "subset"}
    rates = set()
    for path, record in train.items():
        info = soundfile.info(copy / tree / path)
        rates.add(info.samplerate)
        assert record["duration"] == pytest.approx(info.duration, abs=0.0001)
    assert (rates == {48000}) == (archive_format == "opus")
    rejects = read_lines(tmp_path / f"copy.prepcli/sets/mls_polish_{archive_format}/rejects.jsonl")
    assert [one["reject_detail"].partition(": ")[0].removeprefix(f"{tree}/") for one in rejects] == [
        *("train/limited_supervision/1hr/5/handles.txt:2", "dev/transcripts.txt:2", "dev/transcripts.txt:3")
    ]
