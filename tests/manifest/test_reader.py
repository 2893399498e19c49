"""Lines are read by the numbers of their records, and a file that changes is noticed."""

import os
import pickle
from pathlib import Path

import pytest

from prepcli.errors import InputChangedError
from prepcli.manifest.index import index_manifests
from prepcli.manifest.reader import LineReader
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
