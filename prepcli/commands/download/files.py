"""Finds the files of a corpus in the folders of a copy, whatever their arrangement."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path


def find_files(roots: Sequence[Path], patterns: Sequence[re.Pattern[str]]) -> tuple[dict[str, str], ...]:
    """Return for each pattern the files whose whole name matches it: lower-case first group -> path.

    If several files have the same group, the first of the sorted paths is used on every machine. Links to folders are
    followed; each folder is visited once.
    """
    found: tuple[dict[str, str], ...] = tuple({} for _ in patterns)
    for path in sorted(_walk(roots)):
        name = os.path.basename(path)
        for pattern, files in zip(patterns, found, strict=True):
            matched = pattern.fullmatch(name)
            if matched is not None:
                files.setdefault(matched[1].lower(), path)
    return found


def _walk(roots: Sequence[Path]) -> Iterator[str]:
    seen: set[tuple[int, int]] = set()
    for root in roots:
        for folder, folders, files in os.walk(root, followlinks=True):
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in seen:
                folders.clear()
                continue
            seen.add((status.st_dev, status.st_ino))
            yield from (os.path.join(folder, file) for file in files)


def transcript_lines(path: str, comment: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a text file that are neither empty nor comments, with their numbers from 1."""
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            stripped = line.strip()
            if stripped and not stripped.startswith(comment):
                yield number, stripped
