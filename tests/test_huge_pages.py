"""The tests' own use of huge pages."""

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


def test_other_systems_have_no_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huge_pages, "_PROC", tmp_path / "none")
    assert huge_pages.collapse() == 0
