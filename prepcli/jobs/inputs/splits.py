"""The splits of data sets: which one a file or a member belongs to, by its name."""

import re

_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_WORD = re.compile(r"[A-Za-z]+")
SPLIT_FILE = re.compile(r"(.+?)-(\d{5})-of-(\d{5})(?:-[0-9a-f]+)?\.parquet$")


def split_of(name: str) -> str:
    """The split that a file belongs to, by the rules of Hugging Face datasets (data_files.py); `train` by default."""
    return split_in(name) or "train"


def split_in(name: str) -> str | None:
    """The split that the name of a file and those of its folders name; None if they name none."""
    if match := re.search(r"(?:^|/)split=([^/]+)/", name):
        return match[1]
    if match := SPLIT_FILE.match(name.rpartition("/")[2]):
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
