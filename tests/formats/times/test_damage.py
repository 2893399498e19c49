"""Whatever happens to a file with times, it is read, or refused with one clear line."""

import json
import os
from pathlib import Path

import pytest

from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.times.recognition import FORMS
from prepcli.formats.times.times import Times
from tests.support.seeds import draw_for

SEEDS = {
    "a.srt": "1\n00:00:01,000 --> 00:00:02,500\none <i>x</i>\ntwo\n\n2\n00:00:03,000 --> 00:00:04,000\n{\\an8}on\n",
    "a.vtt": "WEBVTT\n\nNOTE x\n\nSTYLE\n::cue {}\n\nid\n00:01.000 --> 00:02.000 align:start\n<v Ann>hi &amp; b\n",
    "part/a.TextGrid": 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n3\n5\n<exists>\n1\n"IntervalTier"\n"a"\n'
    '3\n5\n1\n3\n4\n"x"\n',
    "a.TextGrid": 'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = 2\ntiers? <exists>\n'
    'size = 2\nitem [1]:\nclass = "IntervalTier"\nname = "words"\nxmin = 0\nxmax = 2\nintervals: size = 1\n'
    'intervals [1]:\nxmin = 0\nxmax = 1\ntext = "a ""b"""\nitem [2]:\nclass = "TextTier"\nname = "p"\nxmin = 0\n'
    'xmax = 2\npoints: size = 1\npoints [1]:\nnumber = 1\nmark = "x"\n',
    "a.json": '{"segments": [{"start": 0, "end": 2.5, "text": " A b", "words": [{"word": "A", "start": 0, "end": 1}, '
    '{"word": "b", "start": null}], "speaker": "x"}]}',
    "ms/a.json": '{"audio_duration": 3, "utterances": [{"start": 0, "end": 2500, "text": "A b", "words": [{"text": '
    '"A", "start": 0, "end": 1000}, {"text": "b", "start": 1000, "end": 2500}], "speaker": "x"}], "words": null}',
    "all.json": json.dumps(
        [
            {"key": "a", "text": "你好 world", "timestamp": [[0, 200], [200, 400], [400, 900]]},
            {"key": "b", "sentence_info": [{"text": "x", "start": 0, "end": 1, "spk": 0, "timestamp": [[0, 1]]}]},
        ],
        ensure_ascii=False,
    ),
    "a.ctm": ";; c\na 1 0.0 0.5 hello 0.9\na 1 0.5 0.5 wor<space>ld\nb 2 0 1 x\n",
    "a.rttm": "SPEAKER a 1 0.0 0.5 <NA> <NA> ann <NA> <NA>\nSPKR-INFO a 1 <NA> <NA> <NA> unknown ann <NA>\n",
    "a.txt": "0.5\t1.5\thello\n\\\t1\t2\n2,0\t3,0\tx\n",
    "segments": "u1 a 0.0 1.0\nu2 a 1 -1 0\n",
    "text": "u1 one\nu2 two\n",
}
PIECES = (
    *(
        b"",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b"-->",
        b'"',
        b"0",
        b"-1",
        b"1e999",
        b"nan",
        b"NaN",
        b"null",
        b"[]",
        b"{}",
        b"true",
    ),
    *(b"\xff", b"\xff\xfe", b"\0", b",", b":", b"9" * 400, b"<v ", b"&#x110000;", b"!", b"WEBVTT", b"NOTE", b"\\ud800"),
    *(b"1_0", "٣".encode(), "²".encode(), b"\xe2\x80\xa8", b"[" * 2000),
)
TABLES = {"text": "segments", "segments": "text"}
"""Each of the two files of a data directory, and the other one."""
NUM_FILES = int(os.environ.get("PREPCLI_FUZZ_EXAMPLES", "1500"))


def test_damaged_files_are_read_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw = draw_for("test_damaged_files_are_read_or_refused")
    num_read = 0
    for _ in range(NUM_FILES):
        seed = draw.choice(sorted(SEEDS))
        name, data = Path(seed).name, SEEDS[seed].encode()
        beside = TABLES.get(name, name)
        Path(beside).write_text(SEEDS.get(beside, ""))
        for _ in range(draw.choice((0, 1, 1, 2, 5))):
            start = draw.randrange(len(data) + 1)
            data = data[:start] + draw.choice(PIECES) + data[start + draw.choice((0, 0, 1, 5, 20)) :]
        Path(name).write_bytes(data)
        try:
            path = draw.choice(("segments" if name in TABLES else name, "."))
            times = Times(path, draw.choice((*["auto"] * 6, *FORMS)), ["a.wav"])
            for id in (None, "b"):
                seconds = draw.choice((0.5, 2.0, 2000.0))
                items = times.of("a.wav", id, draw.choice((None, None, 0, 1)), lambda seconds=seconds: seconds)
                num_read += 1
                for item in items:
                    assert all(timed.end >= timed.start for timed in (item, *item.words))
                    json.dumps(items, ensure_ascii=False).encode()
            list(times.unused())
        except (RecordRejected, UsageError) as error:
            assert str(error).isprintable(), error
        for path in {name, beside}:
            Path(path).unlink()
    assert num_read > NUM_FILES / 5
