"""The splits of data sets: which one a file or a member belongs to, by its name."""

import re
from collections.abc import Sequence

from prepcli.errors import UsageError

_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_WORD = re.compile(r"[A-Za-z]+")
_SPLIT_FILE = re.compile(r"(.+?)-(\d{5})-of-(\d{5})(?:-[0-9a-f]+)?\.parquet$")


def split_of(name: str) -> str:
    """The split that a file belongs to, by the rules of Hugging Face datasets (data_files.py); `train` by default."""
    return split_in(name) or "train"


def split_in(name: str) -> str | None:
    """The split that the name of a file and those of its folders name; None if they name none."""
    if match := re.search(r"(?:^|/)split=([^/]+)/", name):
        return match[1]
    if match := _SPLIT_FILE.match(name.rpartition("/")[2]):
        return match[1]
    for part in (*name.split("/")[:-1], name.rpartition("/")[2].rpartition(".")[0]):
        for word in _WORD.findall(part.lower()):
            if (split := canonical(word)) in _SPLITS:
                return split
    return None


def canonical(word: str) -> str:
    """The usual name of a split: `test` for `eval`."""
    return next((split for split, words in _SPLITS.items() if word.lower() in words), word)


def config_of(name: str) -> str:
    """The configuration that a file belongs to: the path of its folder, from the folder of the data set.

    Folders that name a split, `data`, and a key such as `lang=deu_Latn` are left out. Empty if no folder is left.
    """
    parts = name.split("/")[:-1]
    plain = [part for part in parts if "=" not in part and part != "data" and canonical(part) not in _SPLITS]
    return "/".join(part for part in plain if not any(canonical(word) in _SPLITS for word in _WORD.findall(part)))


def folder_split(name: str) -> str | None:
    """The split that a folder in the name of a member is called after; None if there is no such folder."""
    return next((split for part in name.split("/")[:-1] if (split := canonical(part)) in _SPLITS), None)


def check_numbers(paths: Sequence[str]) -> None:
    """Raise `UsageError` if a numbered file is missing: `a-00000-of-00018.parquet` is one of 18 numbered files."""
    counts: dict[tuple[str, int], set[int]] = {}
    for path in paths:
        if match := _SPLIT_FILE.match(path):
            counts.setdefault((match[1], int(match[3])), set()).add(int(match[2]))
    for (stem, count), numbers in counts.items():
        if missing := sorted(set(range(count)) - numbers):
            raise UsageError(f"{stem}-{missing[0]:05d}-of-{count:05d}.parquet is missing; download it too")
