"""Huge pages for what a process keeps, because it forks a worker or more for most of the commands that it runs.

A fork copies the page table: 512 entries for 2 MiB of small pages, one for a huge page. With 500 MB in small pages,
`manifest-to-tarred` and `verify` take 1.5 times as long.
"""

import ctypes
import re
from pathlib import Path

SIZE = 2 << 20
GROWTH = 8 << 20
"""Bytes in small pages, beside those that stay there, that are worth the milliseconds of each huge page."""
_MADV_COLLAPSE = 25
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 +(?:\[heap\])?$", re.MULTILINE)
"""Memory in `_PROC/maps` that belongs to no file."""
_SIZES = re.compile(r"^(Anonymous|AnonHugePages): +(\d+) kB$", re.MULTILINE)
_PROC = Path("/proc/self")

_stays = 0
"""Bytes that were in small pages after the last time: data of shared libraries, and the ends of mappings."""


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
    """Do so when the process has `GROWTH` more in small pages than stayed there; to look takes a millisecond."""
    global _stays
    now = in_small_pages()
    if now - _stays > GROWTH:
        collapse()
        _stays = in_small_pages()
    _stays = min(_stays, now)


def in_small_pages() -> int:
    """Bytes of this process in small pages that a fork copies the table of; 0 where the system does not tell."""
    summary = _PROC / "smaps_rollup"
    if not summary.exists():
        return 0
    sizes = {name: int(kib) << 10 for name, kib in _SIZES.findall(summary.read_text())}
    return sizes["Anonymous"] - sizes["AnonHugePages"]
