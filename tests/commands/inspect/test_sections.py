"""The facts as text for a terminal."""

import json
from pathlib import Path

from tests.conftest import MINI_CORPUS
from tests.support.running import prepcli


def test_words(tmp_path: Path) -> None:
    done = prepcli("inspect", MINI_CORPUS / "manifest.json")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{MINI_CORPUS}/manifest.json: a NeMo manifest\nContents\n")
    for words in (
        "48\n",
        "22050 Hz: 48",
        "flac PCM_16: 48",
        "mono: 48",
        "48 checked, all readable",
        "First records",
    ):
        assert words in done.out


def test_texts_cannot_command_the_terminal(tmp_path: Path) -> None:
    record = {"audio_filepath": "a.wav", "duration": 1, "text": "\x1b]0;owned\x07 \ud800", "speaker": "\x1b[2J"}
    path = tmp_path / "m.json"
    path.write_text(json.dumps(record) + "\n")
    done = prepcli("inspect", path)
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out and "\x07" not in done.out
