"""Many small manifests are read as one: the columns of a hundred lines alone would take longer than the lines."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from prepcli.manifest.columns import LineBlocks
from prepcli.manifest.parts import Columns, Part, WholeFile

MAX_SMALL_BYTES = 128 << 10
"""A longer file is read alone."""
TOGETHER_BYTES = 512 << 10
"""About as many bytes of small files are read together."""
_BOM = b"\xef\xbb\xbf"


class SmallFile(NamedTuple):
    """The number of a manifest among those of a job, and its whole content."""

    number: int
    content: bytes


def scan_together(files: Sequence[SmallFile], columns: Columns) -> Iterator[tuple[int, Part | None]]:
    """The lines of consecutive small files: parts with the number of their first file.

    None instead of a part: something in the file is unusual, so that it must be read alone.
    """
    part = _part_of(files, columns)
    if part is not None:
        yield files[0].number, part
    elif len(files) == 1:
        yield files[0].number, None
    else:
        middle = len(files) // 2
        yield from scan_together(files[:middle], columns)
        yield from scan_together(files[middle:], columns)


def _part_of(files: Sequence[SmallFile], columns: Columns) -> Part | None:
    """The part with all lines of `files`, if each of them is certainly usable."""
    contents = [one.content for one in files]
    if not all(contents) or any(one.startswith(_BOM) for one in contents):
        return None
    whole = [one if one.endswith(b"\n") else one + b"\n" for one in contents]
    data = b"".join(whole)
    blocks = LineBlocks(columns)
    if not blocks.add_usable(data, 0):
        return None
    part = blocks.finish(b"", sum(map(len, contents)))
    part.found = columns.looks_for is not None and columns.looks_for(data)
    counts = [one.count(b"\n") for one in whole]
    lengths = list(map(len, whole))
    part.start -= np.repeat(np.cumsum([0, *lengths[:-1]]), counts)  # from the beginning of each file
    part.files = [
        WholeFile(hashlib.sha256(one).digest(), len(one), count) for one, count in zip(contents, counts, strict=True)
    ]
    return part
