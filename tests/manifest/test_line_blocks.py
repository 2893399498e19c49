"""Lines that are read in order come from blocks of the file; every order gives the same lines."""

import json
import os
import random
from pathlib import Path

import pytest

from prepcli.errors import InputChangedError
from prepcli.manifest.index import index_manifests
from prepcli.manifest.reader import LineReader


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
