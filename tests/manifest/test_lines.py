"""Lines that are usable: byte order marks and line ends, UTF-16, and lines without an end."""

from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.manifest import scan
from prepcli.manifest.index import index_manifests
from prepcli.manifest.reader import LineReader
from tests.manifest.test_index import GOOD


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join([GOOD[0], b"", GOOD[1]]) + b"\r\n")
    index = index_manifests([str(path)])
    assert (len(index), index.problems, index.line_number(1)) == (2, [], 3)
    with LineReader(index) as reader:
        assert (reader.line(0), reader.line(1)) == (GOOD[0], GOOD[1])


def test_utf_16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes("\n".join([GOOD[0].decode()] * 5).encode("utf-16"))
    with pytest.raises(UsageError, match=r"UTF-16 text\); convert it: iconv"):
        index_manifests([str(path)])


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(scan, "_BLOCK_BYTES", 100)
    path = tmp_path / "m.json"
    path.write_bytes(GOOD[0] + b"\n" + b"x" * 1500)
    with pytest.raises(UsageError, match=rf"line at byte {len(GOOD[0]) + 1} is longer"):
        index_manifests([str(path)])
    monkeypatch.setattr(scan, "RANGE_BYTES", 500)  # the same when the line is finished beyond its range
    with pytest.raises(UsageError, match="is longer"):
        index_manifests([str(path)])
