"""Compressed manifests are unpacked once, also by several ranks, and damaged ones are named."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from prepcli.errors import InputChangedError, UsageError
from prepcli.manifest import index as index_module
from prepcli.manifest import scan
from prepcli.manifest.index import index_manifests
from prepcli.manifest.reader import LineReader
from tests.manifest.test_index import GOOD, manifest, same


@pytest.mark.parametrize("spool", [True, False])
def test_a_compressed_manifest(tmp_path: Path, spool: bool) -> None:
    plain = manifest(tmp_path / "m.json", 500)
    packed = tmp_path / "m.json.gz"
    # Two members, as `cat a.gz b.gz` makes them.
    half = len(plain.read_bytes()) // 2
    packed.write_bytes(gzip.compress(plain.read_bytes()[:half]) + gzip.compress(plain.read_bytes()[half:]))
    spool_dir = tmp_path / "spool dir" if spool else None
    expected = index_manifests([str(plain)])
    for _ in range(2):
        index = index_manifests([str(packed)], spool_dir=spool_dir)
        assert same(index, expected)
        assert index.sources[0].path == str(packed)
    if spool_dir:
        (unpacked,) = spool_dir.iterdir()
        assert unpacked.read_bytes() == plain.read_bytes()
        packed.unlink()
    with LineReader(index) as reader:
        assert reader.line(499) == plain.read_bytes().splitlines()[499]


def test_a_copy_that_another_rank_makes_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both may find none, and the later one puts the same content into the place of the earlier one's."""
    packed = tmp_path / "m.json.gz"
    packed.write_bytes(gzip.compress(b'{"audio_filepath": "a.wav", "duration": 1.0}\n' * 5))
    spool = tmp_path / "spool"
    real_scan = scan.scan

    def scan_while_replaced(*arguments: Any) -> Any:
        yield from real_scan(*arguments)
        (copy,) = spool.iterdir()
        other = tmp_path / "other"
        other.write_bytes(copy.read_bytes())
        os.utime(other, ns=(1, 1))
        other.replace(copy)

    monkeypatch.setattr(index_module, "scan", scan_while_replaced)
    monkeypatch.setattr(index_module, "_read_here", lambda one, num_bytes: True)
    assert len(index_manifests([str(packed)], spool_dir=spool)) == 5


def test_spooling_again_uses_what_is_there(tmp_path: Path) -> None:
    packed = tmp_path / "m.json.gz"
    packed.write_bytes(gzip.compress(GOOD[0]))
    index_manifests([str(packed)], spool_dir=tmp_path / "spool")
    (unpacked,) = (tmp_path / "spool").iterdir()
    before = unpacked.stat().st_mtime_ns
    index_manifests([str(packed)], spool_dir=tmp_path / "spool")
    assert unpacked.stat().st_mtime_ns == before


def test_a_copy_that_was_emptied(tmp_path: Path) -> None:
    """Who reads it is told, and the next run makes it again."""
    packed, spool = tmp_path / "m.json.gz", tmp_path / "spool"
    packed.write_bytes(gzip.compress(b"\n".join(GOOD)))
    index = index_manifests([str(packed)], spool_dir=spool)
    (unpacked,) = spool.iterdir()
    os.truncate(unpacked, 0)
    with LineReader(index) as reader, pytest.raises(InputChangedError) as raised:
        reader.line(0)
    assert f"{unpacked}, the copy of {packed}, has become shorter" in str(raised.value)
    with LineReader(index_manifests([str(packed)], spool_dir=spool)) as reader:
        assert reader.line(0) == GOOD[0]
    assert list(spool.iterdir()) == [unpacked]


@pytest.mark.parametrize("spool", [True, False])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[:-20], "cut short"),
        (lambda data: b"plain text", "not a gzip file"),
        (lambda data: data[:200] + bytes(50) + data[250:], "damaged"),
    ],
)
def test_damaged_compressed_manifests(tmp_path: Path, spool: bool, damage, words: str) -> None:  # type: ignore[no-untyped-def]
    plain = manifest(tmp_path / "m.json", 500)
    packed = tmp_path / "m.json.gz"
    packed.write_bytes(damage(gzip.compress(plain.read_bytes())))
    with pytest.raises(UsageError, match=rf"m\.json\.gz is .*{words}"):
        index_manifests([str(packed)], spool_dir=tmp_path / "spool" if spool else None)
    assert not list((tmp_path / "spool").glob("*")) if spool else True
