"""download librispeech: what it writes, that it goes on where it was, and what it says."""

from pathlib import Path

import soundfile

from tests.conftest import prepcli, read_lines
from tests.corpora.conftest import Serve
from tests.corpora.miniatures import utterances

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
        "duration": 1.06,
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
