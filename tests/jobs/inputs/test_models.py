"""Contexts and codes of audio in containers are those of the same audio in files."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MINI_CORPUS, make_set, read_lines
from tests.support.running import prepcli
from tests.support.toy_codec import ToyCodec, use_toy_codec

MANIFEST = MINI_CORPUS / "manifest.json"


def _with(command: str, source: object, out: Path) -> list[dict[str, Any]]:
    done = prepcli(command, source, out, "--speaker-model", "toy")
    assert done.code == 0, done.err
    return read_lines(next(out.glob("*.json")))


@pytest.mark.slow
@pytest.mark.usefixtures("toy_voice", "one_thread")
def test_contexts(tmp_path: Path) -> None:
    make_set("manifest-to-tarred", MANIFEST, tmp_path / "set", "--num-shards", 2)
    plain = _with("extend-context-audio", MANIFEST, tmp_path / "plain")
    found = _with("extend-context-audio", tmp_path / "set", tmp_path / "contained")
    assert [one["text"] for one in found] == [one["text"] for one in plain]
    for field in ("context_audio_text", "context_audio_duration", "context_speaker_similarity"):
        assert [one[field] for one in found] == [one[field] for one in plain]
    assert all("audio_0.tar::" in one["audio_filepath"] or "audio_1.tar::" in one["audio_filepath"] for one in found)
    # The result is an input: its contexts are read out of the tars.
    done = prepcli("manifest-to-shar", next((tmp_path / "contained").glob("*.json")), tmp_path / "shar", "--json")
    assert (done.json["records_out"], done.json["rejects"]) == (48, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toy_codec(monkeypatch.setattr, lambda _: ToyCodec())
    make_set("manifest-to-parquet", MANIFEST, tmp_path / "set")
    for name, source in (("plain", MANIFEST), ("contained", tmp_path / "set")):
        options = ("--codec-model", "toy", "--devices", "cpu", "--output-dir", tmp_path / name)
        done = prepcli("extend-codec-codes", source, *options)
        assert done.code == 0, done.err
    plain, found = (
        sorted(path.read_bytes() for path in (tmp_path / name).rglob("*.pt")) for name in ("plain", "contained")
    )
    assert len(plain) == len(found) == 48
    assert prepcli("verify", tmp_path / "contained").code == 0
    lines = read_lines(next((tmp_path / "contained").glob("*.json")))
    assert len(lines) == 48
    assert all("data-000000.parquet::" in one["audio_filepath"] for one in lines)
