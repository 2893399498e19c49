"""Names that differ only in case or Unicode form: two files on some file systems, one on others."""

import os
import unicodedata
from collections.abc import Iterable, Iterator


def folded(name: str) -> str:
    """The name without differences that some file systems ignore: case, and whether `é` is one code point or two."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


OTHER_FORM = "a name that looks the same is there, in another form of Unicode (NFC or NFD)"
"""Text for messages if a file exists under a name from `other_forms`. macOS writes NFD."""


def other_forms(name: str) -> Iterator[str]:
    """Yield the name in NFC and in NFD, which look the same, if they differ from `name`."""
    if not name.isascii():
        yield from {unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)} - {name}


def are_one_file(one: str, other: str) -> bool:
    """Whether two absolute paths name one file, because the file system ignores case or Unicode forms.

    Only for paths that both exist and whose `folded` texts are equal.
    """
    folder = "/"
    for own, its in zip(one.split("/"), other.split("/"), strict=True):
        if own != its and {own, its} <= set(os.listdir(folder)):
            return False
        folder = os.path.join(folder, own)
    return True


def same_when_folded(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of different names whose `folded` names are equal.

    If there are none, only a number per name is held in memory, in addition to the names.
    """
    names = list(names)
    hashes = [hash(folded(name)) for name in names]
    if len(set(hashes)) == len(names):
        return
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(folded(name), name)
        if other != name:
            yield other, name
