"""The tests' own use of huge pages."""

import mmap
import re
from pathlib import Path

import numpy as np
import pytest

from tests.support import huge_pages


def test_what_a_process_holds_stays_as_it_is() -> None:
    values = np.arange(3 * huge_pages.SIZE // 8)
    if huge_pages.collapse() == 0:
        pytest.skip("the kernel has no MADV_COLLAPSE")
    assert np.array_equal(values, np.arange(len(values)))
    sizes = re.findall(r"AnonHugePages: +(\d+) kB", Path("/proc/self/smaps_rollup").read_text())
    assert int(sizes[0]) << 10 >= 2 * huge_pages.SIZE


def test_what_a_process_takes_later_is_collapsed_too() -> None:
    huge_pages.collapse_if_grown()
    before = huge_pages.in_small_pages()
    size = 5 * huge_pages.GROWTH
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as more:
        more.write(b"a" * size)
        huge_pages.collapse_if_grown()
        after = huge_pages.in_small_pages()
        if huge_pages.collapse() == 0:
            pytest.skip("the kernel has no MADV_COLLAPSE")
        assert after < before + 2 * huge_pages.GROWTH
        assert more[:] == b"a" * size


def test_other_systems_have_no_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huge_pages, "_PROC", tmp_path / "none")
    huge_pages.collapse_if_grown()
    assert huge_pages.collapse() == 0
    assert huge_pages.in_small_pages() == 0
