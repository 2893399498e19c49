"""A note on stderr for a damaged document in OUT.prepcli."""

import sys
from pathlib import Path


def note_damaged(path: Path) -> None:
    """Print the note once per file, even if several parts of a command read the file."""
    if path not in _damaged:
        _damaged.add(path)
        print(
            f"note: {ascii(str(path))[1:-1]} is damaged (did the machine lose power?); it is treated as missing",
            file=sys.stderr,
        )


_damaged: set[Path] = set()
"""Files that `note_damaged` has named."""
