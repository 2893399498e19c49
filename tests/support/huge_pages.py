"""Huge pages for what a process keeps, because it forks a worker or more for most of the commands that it runs.

A fork copies the page table: 512 entries for 2 MiB of small pages, one for a huge page. With 500 MB in small pages,
`manifest-to-tarred` and `verify` take 1.5 times as long.
"""

import ctypes
import mmap
import re
from pathlib import Path

SIZE = 2 << 20
GROWTH = 64 << 20
"""Bytes by which a process grows, and at least by a quarter, before it is worth the milliseconds of each huge page."""
_MADV_COLLAPSE = 25
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 +(?:\[heap\])?$", re.MULTILINE)
"""Memory in `_PROC/maps` that belongs to no file."""
_PROC = Path("/proc/self")

_at_last = 0


def collapse() -> int:
    """Put the memory of this process into huge pages; returns how many: none before Linux 6.1, and on other systems."""
    if not _PROC.exists():
        return 0
    libc = ctypes.CDLL(None)
    found = 0
    for start, end in _MAPPING.findall((_PROC / "maps").read_text()):
        first, last = -(-int(start, 16) // SIZE), int(end, 16) // SIZE
        for page in range(first, last):
            found += libc.madvise(ctypes.c_void_p(page * SIZE), ctypes.c_size_t(SIZE), _MADV_COLLAPSE) == 0
    return found


def collapse_if_grown() -> None:
    """Do so at first, and whenever the process has grown much."""
    global _at_last
    resident = int((_PROC / "statm").read_text().split()[1]) * mmap.PAGESIZE if _PROC.exists() else 0
    if resident - _at_last > max(GROWTH, _at_last // 4):
        collapse()
        _at_last = resident
