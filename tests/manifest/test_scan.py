"""Lines that are read in order come from blocks of the file; every order gives the same lines."""

import gzip
import json
import random
from pathlib import Path

import pytest

from prepcli.manifest import scan
from prepcli.manifest.index import index_manifests
from prepcli.manifest.lines import read_line
from prepcli.manifest.reader import LineReader
from prepcli.manifest.scan import lines_of, ranges_of
from prepcli.storage.paths import size_of


def write_manifest(path: Path, count: int) -> list[bytes]:
    lines = [
        json.dumps({"audio_filepath": f"{n}.wav", "duration": 1.0, "text": "word " * (n * 7919 % 300)}).encode()
        for n in range(count)
    ]
    lines[count // 2] = json.dumps({"audio_filepath": "x.wav", "duration": 1.0, "text": "x" * 200_000}).encode()
    path.write_bytes(b"\r\n".join(lines))  # the last one without a line end
    return lines


def test_any_order_of_two_manifests(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    lines = [line for path in paths for line in write_manifest(path, 400)]
    with LineReader(index_manifests([str(path) for path in paths])) as reader:
        assert [reader.line(number) for number in range(800)] == lines
        numbers = [*range(700, 100, -1), *random.Random(1).choices(range(800), k=500), *range(390, 410), 0, 1, 2]
        assert [reader.line(number) for number in numbers] == [lines[number] for number in numbers]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.parametrize("range_bytes", [11, 5000, 1 << 20])
def test_lines_for_a_command_without_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, range_bytes: int
) -> None:
    """Each line comes once, blank ones too, however the file is divided."""
    monkeypatch.setattr(scan, "RANGE_BYTES", range_bytes)
    text = b'\xef\xbb\xbf{"a": 1}\n\n  \n{"audio_filepath": "x.wav", "duration": 2.5}\r\n{"_skipme": true}'
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    lines = [line for part in ranges_of(str(path), size_of(path)) for line in lines_of(part)]
    assert lines == text[3:].split(b"\n")
    usable = read_line(lines[3], cuts=False)
    assert usable is not None and usable.duration == 2.5
    assert [read_line(lines[number], cuts=False) for number in (1, 2, 4)] == [None] * 3
