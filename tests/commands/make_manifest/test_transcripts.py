"""Transcripts in files next to the audio."""

from pathlib import Path

from tests.commands.make_manifest.test_formats import make, rejects


def test_transcripts_that_are_not_utf8(audio: Path, tmp_path: Path) -> None:
    (audio / "a/x.txt").write_bytes("text".encode("utf-16"))
    (audio / "b/x.txt").write_bytes("text, more".encode("utf-16-le"))
    (audio / "b/y.txt").write_bytes(b"te\0xt")
    make(audio, tmp_path / "m.json", "--text-suffix", ".txt")
    details = [reject["reject_detail"] for reject in rejects(tmp_path / "m.json")]
    assert [detail.partition("txt ")[2] for detail in details] == [
        "is UTF-16; convert it: iconv -f UTF-16 -t UTF-8",
        "is UTF-16; convert it: iconv -f UTF-16LE -t UTF-8",
        "has a NUL character",
    ]
