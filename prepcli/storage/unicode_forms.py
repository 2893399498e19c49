"""Names that look the same, but have other characters: `é` is one code point in NFC, and two in NFD."""

import unicodedata
from collections.abc import Iterator

OTHER_FORM = "a name that looks the same is there, in another form of Unicode (NFC or NFD)"
"""Text for messages if a file exists under a name from `other_forms`. macOS writes NFD."""


def other_forms(name: str) -> Iterator[str]:
    """Yield the name in NFC and in NFD, which look the same, if they differ from `name`."""
    if not name.isascii():
        yield from {unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)} - {name}
