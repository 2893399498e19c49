"""Hi-Fi TTS: what is written, compared with lhotse's recipe with one job; paths that fit the preset of --group-by."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import hifitts, write_files
from tests.conftest import read_lines
from tests.support.running import prepcli

TREE = "hi_fi_tts_v0"


def download(data: Path, *more: object) -> Any:
    done = prepcli("download", "hifitts", "--data-root", data, "--max-rejects", 9, "--json", *more)
    assert done.code == 0, done.err
    return done.json


@pytest.mark.torch  # lhotse imports it
def test_records_are_those_of_lhotse(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    """Whose speakers are names, and whose normalized text is among the custom fields."""
    from lhotse.recipes.hifitts import prepare_hifitts

    data = tmp_path / "data"
    report = download(data, "--base-url", serve().url, "--checksums", checksums)
    assert (report["records_in"], report["records_out"]) == (24 + 4, 24)
    assert report["rejects_by_reason"] == {
        "bad_field": 1,
        "missing_audio": 1,
        "missing_field": 1,
        "missing_transcript": 1,
    }
    manifest = data / TREE / "92_manifest_clean_train.json"
    good = [line for line in manifest.read_text().splitlines() if not any(bad in line for bad in ("0099", "..", ": 7"))]
    manifest.write_text("".join(f"{line}\n" for line in good))  # lhotse ends at the others
    made = prepare_hifitts(data / TREE)
    assert len(made) == 12
    theirs: dict[str, list[dict[str, Any]]] = {}
    for name, sets in made.items():
        reader, quality, part = name.split("_")
        for one in sets["supervisions"]:
            source = Path(sets["recordings"][one.recording_id].sources[0].source)
            record = {
                "audio_filepath": str(source.relative_to(data / TREE / "audio")),
                "duration": sets["recordings"][one.recording_id].duration,
                "text": one.text,
                "normalized_text": one.custom["text_punct"],
                "speaker": f"| Language:en Dataset:HiFiTTS Speaker:{reader}_{quality} |",
            }
            theirs.setdefault(f"{quality}_{part}", []).append(record)
    for name, records in theirs.items():
        ours = read_lines(data / TREE / f"audio/{name}.json")
        for record in ours:
            assert record.pop("text_no_preprocessing").endswith(" in 1455")
        assert sorted(ours, key=str) == sorted(records, key=str)


def test_the_preset_of_group_by_keeps_the_books_apart(tmp_path: Path) -> None:
    copy = write_files(hifitts(), tmp_path / "copy")
    download(copy, "--extracted", copy / TREE)
    records = read_lines(copy / TREE / "audio/other_train.json")
    assert records[0]["audio_filepath"] == "6097_other/12352/prideofjennico_01_castle_0000.flac"
    assert records[0]["text_no_preprocessing"].endswith("in 1455")
    assert records[0]["normalized_text"].endswith("in fourteen fifty-five")
    words = ("extend-context-audio", copy / TREE / "audio/other_train.json", tmp_path / "out", "--group-by", "hifitts")
    done = prepcli(*words, "--dry-run", "--json")
    assert done.json["rejects_by_reason"] == {"speaker_has_one_utterance": 2}  # the second of each reader's two books


def test_a_copy_without_manifests(tmp_path: Path) -> None:
    (tmp_path / TREE).mkdir()
    done = prepcli("download", "hifitts", "--data-root", tmp_path / "data", "--extracted", tmp_path)
    assert (done.code, "92_manifest_clean_train.json" in done.error_line) == (1, True)
