"""Lines are read by the numbers of their records, and a file that changes is noticed."""

import json
import os
import pickle
import random
from pathlib import Path

import pytest

from prepcli.errors import InputChangedError
from prepcli.manifest.index import index_manifests
from prepcli.manifest.reader import MAX_LINES, LineReader
from prepcli.storage.input_files import read_at
from tests.manifest.test_index import manifest
from tests.manifest.test_scan import write_manifest


def test_a_reader_travels_and_notices_a_file_that_changed(tmp_path: Path) -> None:
    path = manifest(tmp_path / "m.json", 20)
    reader = LineReader(index_manifests([str(path)]))
    first = reader.line(3)
    assert pickle.loads(pickle.dumps(reader)).line(3) == first
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputChangedError, match="was changed during the run"):
        reader.line(0)
    path.unlink()
    with pytest.raises(InputChangedError, match="was removed"):
        pickle.loads(pickle.dumps(reader)).line(0)


def test_a_change_is_noticed_with_the_next_block(tmp_path: Path) -> None:
    """Lines of a block were read before the change, so they are correct."""
    path = tmp_path / "a.json"
    lines = write_manifest(path, 400)
    with LineReader(index_manifests([str(path)])) as reader:
        assert [reader.line(number) for number in range(3)] == lines[:3]
        path.write_bytes(path.read_bytes().replace(b"word", b"WORD"))
        os.utime(path, ns=(1, 1))
        with pytest.raises(InputChangedError):
            for number in range(3, 400):
                assert reader.line(number) == lines[number]


def test_lines_that_are_read_together_are_those_that_are_read_alone(tmp_path: Path, draw: random.Random) -> None:
    """In any order, from several manifests with gaps of blank lines, with a record that occurs again."""
    paths = []
    for name in "abc":
        path = tmp_path / f"{name}.json"
        lines = write_manifest(path, draw.randint(1, 700))
        ends = [draw.choice([b"\n", b"\r\n", b"\n" + b" " * draw.randint(2, 9000) + b"\n"]) for _ in lines]
        path.write_bytes(b"".join(line + end for line, end in zip(lines, ends, strict=True)))
        paths.append(str(path))
    index = index_manifests(paths)
    alone = [LineReader(index).line(number) for number in range(len(index))]
    numbers = draw.choices(range(len(index)), k=600)
    with LineReader(index) as reader:
        at = 0
        while at < len(numbers):
            count = reader.take(numbers[at:])
            assert 0 < count <= MAX_LINES
            assert [reader.line(number) for number in numbers[at : at + count]] == [
                alone[number] for number in numbers[at : at + count]
            ]
            at += count
        assert [reader.line(number) for number in range(len(index))] == alone


def test_long_lines_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    line = b'{"audio_filepath": "a.wav", "duration": 1, "text": "' + b"x" * 300_000 + b'"}'
    path.write_bytes((line + b"\n") * 9)
    with LineReader(index_manifests([str(path)])) as reader:
        assert [reader.take(range(at, 9)) for at in (0, 3, 8)] == [3, 3, 1]


def test_what_lies_between_lines_that_are_far_apart_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.json"
    line = json.dumps({"audio_filepath": "a.wav", "duration": 1.0, "text": "x" * 3000}).encode()
    path.write_bytes((line + b"\n") * 600)
    sizes = []

    def counting(file: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return read_at(file, size, offset)

    monkeypatch.setattr("prepcli.manifest.reader.read_at", counting)
    with LineReader(index_manifests([str(path)])) as reader:
        assert reader.take([0, 1, 300, 302, 599]) == 5
    assert sizes == [2 * len(line) + 1, 3 * len(line) + 2, len(line)]
