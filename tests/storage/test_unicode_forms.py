"""Names that look the same: the messages about missing files name the other form."""

import unicodedata
from pathlib import Path

from tests.conftest import read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli

COMPOSED = "é.wav"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


def test_names_in_another_form_of_unicode(tmp_path: Path) -> None:
    """They look the same, and so the message alone could not be understood."""
    write_audio(tmp_path / "a" / DECOMPOSED, 1.0)
    write_audio(tmp_path / "a" / "x.wav", 1.0)
    records = [{"audio_filepath": f"a/{name}", "duration": 1.0} for name in (COMPOSED, "x.wav")]
    hint = "a name that looks the same is there, in another form of Unicode (NFC or NFD)"
    manifest = write_lines(tmp_path / "m.json", records[:1])
    words = ("fix-durations", manifest, tmp_path / "out.json", "--max-rejects", 1)
    refused = prepcli("manifest-to-wenet", manifest, tmp_path / "wenet")
    assert (refused.code, hint in refused.error_line) == (2, True)
    write_lines(manifest, records)
    assert prepcli(*words).code == 0
    (tmp_path / "t.txt").write_text(f"{COMPOSED.removesuffix('.wav')} one\nx two\n")
    made = ("make-manifest", tmp_path / "a", tmp_path / "made.json", "--transcripts", tmp_path / "t.txt")
    assert prepcli(*made, "--max-rejects", 1).code == 0
    for name in ("out.json", "made.json"):
        (reject,) = read_lines(tmp_path / f"{name}.prepcli" / "rejects.jsonl")
        assert hint in reject["reject_detail"]
