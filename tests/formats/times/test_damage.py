"""Whatever happens to a file with times, it is read, or refused with one clear line."""

import json
import os
from functools import partial
from pathlib import Path

import pytest

from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.times.recognition import FORMS
from prepcli.formats.times.times import Times
from tests.support.seeds import draw_for
from tests.support.timed_texts import SEEDS, TABLES

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
                items = times.of("a.wav", id, draw.choice((None, None, 0, 1)), partial(float, seconds))
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
