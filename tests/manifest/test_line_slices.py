"""Files of lines are cut into units without losing, repeating or renumbering a line."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from prepcli.errors import InputChangedError
from prepcli.manifest import line_slices
from prepcli.manifest.line_slices import LineSlices, slice_catalog, slice_lines

BOM = b"\xef\xbb\xbf"
LINES = [b"line %d" % number for number in range(1, 200)]


@pytest.fixture(autouse=True)
def short_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_slices, "MIN_UNIT_BYTES", 30)
    monkeypatch.setattr(line_slices, "_BLOCK_BYTES", 100)


def all_lines(found: LineSlices) -> list[tuple[int, bytes]]:
    return [line for unit in found.units for line in found.lines(unit)]


def test_numbers_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(BOM + b"\r\n \n\n".join(LINES))  # the last line without a line end
    seen: list[bytes] = []
    found = slice_lines([str(path)], None, seen.append)
    assert all_lines(found) == [(3 * place + 1, line) for place, line in enumerate(LINES)]
    assert found.num_records == sum(unit.num_records for unit in found.units) == len(LINES)
    assert len(found.units) > 50
    assert b"".join(seen) == path.read_bytes()
    assert found.inputs[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_mark_is_removed_only_at_the_start_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"".join(BOM + line + b"\n" for line in LINES))
    first, *others = [line for _, line in all_lines(slice_lines([str(path)], None))]
    assert first == LINES[0]
    assert others == [BOM + line for line in LINES[1:]]


@pytest.mark.parametrize("has_spool", [False, True])
def test_a_sample_is_spread_over_all_files(tmp_path: Path, has_spool: bool) -> None:
    paths = [tmp_path / name for name in ("a.txt", "b.txt.gz", "empty.txt")]
    paths[0].write_bytes(b"\n\n".join(LINES[:100]))
    paths[1].write_bytes(gzip.compress(b"\n\n".join(LINES[100:])))
    paths[2].touch()
    found = slice_lines([str(path) for path in paths], tmp_path / "spool" if has_spool else None)
    assert [one.sha256 for one in found.inputs[2:]] == [hashlib.sha256().hexdigest()]
    places = [place * (len(LINES) - 1) // 19 for place in range(20)]
    assert list(found.sample()) == [(int(place >= 100), LINES[place]) for place in places]


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\n".join(LINES))

    def change(block: bytes) -> None:
        os.utime(path, ns=(1, 1))

    with pytest.raises(InputChangedError):
        slice_lines([str(path)], None, change)


def test_lines_of_a_file_without_a_name(tmp_path: Path) -> None:
    with (tmp_path / "a").open("w+b") as file:
        file.write(b"\n".join(LINES))
        found = slice_catalog(file, 60, 1)
        assert max(unit.length for unit in found.units) < 60 + len(LINES[-1]) + 1
        assert [line for _, line in all_lines(found)] == LINES
        assert found.inputs[0].sha256 == hashlib.sha256(b"\n".join(LINES)).hexdigest()
