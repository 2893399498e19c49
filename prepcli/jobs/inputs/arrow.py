"""Data sets in Arrow files, such as `save_to_disk` of Hugging Face datasets writes: refused with the way to Parquet."""

import json
import os
import shlex
from collections.abc import Collection
from pathlib import Path

from prepcli.errors import UsageError
from prepcli.manifest.sources import check_file
from prepcli.storage.addresses import is_address

ARROW_SUFFIXES = (".arrow", ".feather")
_SPLITS, _STATE = ("dataset_dict.json", "state.json")
_OF_FOLDER = "from datasets import load_from_disk; load_from_disk({path}).to_parquet({parquet})"
_OF_SPLITS = (
    "from datasets import load_from_disk; "
    '[d.to_parquet({parquet} + f"/{{k}}-00000-of-00001.parquet") for k, d in load_from_disk({path}).items()]'
)
_OF_STREAM = (
    "import pyarrow as a, pyarrow.parquet as p; "
    "p.write_table(a.ipc.open_stream(a.OSFile({path})).read_all(), {parquet}, row_group_size=100)"
)
_OF_FILE = (
    "import pyarrow.feather as f, pyarrow.parquet as p; "
    "p.write_table(f.read_table({path}), {parquet}, row_group_size=100)"
)
_MAGIC_OF_FILES = (b"ARROW1", b"FEA1")


def is_arrow(names: Collection[str]) -> bool:
    """Whether a folder with these names in it holds Arrow files, or splits in Arrow files."""
    return _SPLITS in names or any(name.endswith(ARROW_SUFFIXES[0]) for name in names)


def refusal_of_folder(folder: str, names: Collection[str]) -> UsageError:
    """The error for a folder with Arrow files, with a line that makes Parquet of it; `names`: the names in it."""
    stem = os.path.basename(os.path.normpath(folder))
    if _SPLITS in names:
        return _refusal(folder, _OF_SPLITS, f"{stem}_parquet", "a file of ")
    if _STATE in names:
        return _refusal(folder, _OF_FOLDER, f"{stem}.parquet")
    return refusal_of_file(os.path.join(folder, min(name for name in names if name.endswith(ARROW_SUFFIXES[0]))))


def refusal_of_file(path: str) -> UsageError:
    """The error for an Arrow file, with a line that makes Parquet of it."""
    parquet = f"{os.path.splitext(os.path.basename(path))[0]}.parquet"
    if is_address(check_file(path)):
        return UsageError(f"{path} is in Arrow's format, which is not read; copy it to this machine, and give the copy")
    with Path(path).open("rb") as file:
        is_file = file.read(6).startswith(_MAGIC_OF_FILES)
    return _refusal(path, _OF_FILE if is_file else _OF_STREAM, parquet)


def _refusal(path: str, code: str, parquet: str, part: str = "") -> UsageError:
    names = {"path": path, "parquet": parquet}
    line = code.format(**{name: json.dumps(text, ensure_ascii=False) for name, text in names.items()})
    return UsageError(
        f"{path} is in Arrow's format, which is not read; make Parquet of it, and give {part}{parquet}: "
        f"python -c {shlex.quote(line)}"
    )
