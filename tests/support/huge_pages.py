"""Huge pages for what the server of warm processes keeps, because it forks for each command.

A fork copies the page table: 512 entries for 2 MiB of small pages, one for a huge page. Of a server with PyTorch, a
command that does nothing takes 24 ms instead of 34 ms.
"""

import ctypes
import re
from pathlib import Path

SIZE = 2 << 20
_MADV_COLLAPSE = 25
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 +(?:\[heap\])?$", re.MULTILINE)
"""Memory in `_PROC/maps` that belongs to no file."""
_PROC = Path("/proc/self")


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
