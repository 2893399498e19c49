"""The form of a file is that of its content; its name decides only between two that fit."""

import pytest

from prepcli.errors import RecordRejected
from prepcli.formats.times.recognition import decoded, form_of

SRT = "1\n00:00:01,000 --> 00:00:02,000\na\n"
CTM = "talk 1 0.0 0.5 2\ntalk 1 0.5 0.5 3\n"


@pytest.mark.parametrize(
    ("head", "path", "expected"),
    [
        (SRT, "x.vtt.bak", "srt"),
        ("1\n00:00:01,5 --> 00:00:0x,000\ndamaged\n", "x.srt", "srt"),
        (SRT.replace(",", "."), "x.vtt", "vtt"),
        ("WEBVTT\n\n00:01.000 --> 00:02.000\na\n", "x.srt", "vtt"),
        ('File type = "ooTextFile"\nObject class = "TextGrid"\n', "x.txt", "textgrid"),
        ('  {"segments": []}', "x.txt", "json"),
        ('{"audio_filepath": "a.wav", "duration": 1.0}\n', "m.json", None),
        (";; comment\nSPEAKER talk 1 0 1 <NA> <NA> ann <NA> <NA>\n", "x.txt", "rttm"),
        ("0.5\t1.5\thello\n\\\t100\t200\n2\t3\n", "x.txt", "audacity"),
        ("0,5\t1,5\thello\n", "x.txt", "audacity"),
        (";; comment\ntalk 1 0.0 0.5 hello\n", "x.txt", "ctm"),
        ("talk 1 0.0 0.5 hello 0.9\ntalk 1 x 0.5 broken\ntalk 1 1.0 0.5 word\n", "x.txt", "ctm"),
        (CTM, "x.txt", "ctm"),
        (CTM, "segments", "kaldi"),
        ("u1 talk 0.0 0.5\nu2 talk 0.5 -1\n", "x.txt", "kaldi"),
        ("u1 talk 0.0 0.5 0\nu2 talk 0.5 1 1\n", "x.txt", "kaldi"),
        ("start\tend\ttext\n0\t1500\thello\n1500\t2000\tthere\n", "talk.tsv", None),  # Whisper's, in milliseconds
        ("hello world\nthis is a text\n", "talk.txt", None),
        ("", "talk.srt", None),
    ],
)
def test_forms(head: str, path: str, expected: str | None) -> None:
    assert form_of(head, path) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_and_line_ends(encoding: str) -> None:
    assert decoded("1 größer\r\nzwei\rdrei\n".encode(encoding), "x") == "1 größer\nzwei\ndrei\n"


def test_other_encodings_are_rejects() -> None:
    with pytest.raises(RecordRejected, match="not_utf8: x is not UTF-8; convert it"):
        decoded("größer".encode("latin-1"), "x")
