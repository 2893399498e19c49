"""A section for a training config: what NeMo's Lhotse loader needs to read a data set, ready to paste."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prepcli.engine.workspace import Workspace, atomic_file
from prepcli.storage.addresses import is_address
from prepcli.storage.paths import absolute

FILE_NAME = "train_ds.yaml"
_HEAD = (
    "# Made by prepcli {command}: paste this section into the config of a NeMo model (model.train_ds).\n"
    "# Add what depends on the model and the GPU: sample_rate, and batch_duration (seconds) or batch_size.\n"
)


def write_train_ds(workspace: Workspace, command: str, keys: Mapping[str, Any], lhotse: str = "") -> str:
    """Write the section into OUT.prepcli; nothing reads it again, so that users may edit it.

    Args:
        workspace: that of the run.
        command: its name.
        keys: what belongs into the section beside `use_lhotse`.
        lhotse: the same as an expression of lhotse's, for a comment.

    Returns:
        The path of the file.
    """
    import yaml

    text = _HEAD.format(command=command) + (f"# With lhotse alone: {lhotse}\n" if lhotse else "")
    section = {"train_ds": {"use_lhotse": True, "shuffle": True, **keys}}
    text += yaml.safe_dump(section, sort_keys=False, allow_unicode=True, width=1 << 20, default_flow_style=None)
    path = workspace.root / FILE_NAME
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "replace"))
    return os.path.abspath(path)


def write_shar_train_ds(workspace: Workspace, command: str, fields: Mapping[str, Path], shards: str) -> str:
    """Write the section for a Shar set; `fields` are patterns of files, in which `shards` names all shards.

    Returns:
        The path of the file.
    """
    paths = {name: absolute(path) for name, path in fields.items()}
    parts = {name: path.rpartition("/") for name, path in paths.items()}
    patterns = {name: f"{folder}/{file.replace(shards, '*')}" for name, (folder, _, file) in parts.items()}
    globs = (f"{name!r}: {_files(pattern, shards)}" for name, pattern in patterns.items())
    lhotse = f"CutSet.from_shar(fields={{{', '.join(globs)}}})"
    return write_train_ds(workspace, command, {"shar_path": paths}, lhotse)


def _files(pattern: str, shards: str) -> str:
    """Python for the names of the shards; a store has no `glob`."""
    if not is_address(pattern):
        return f"sorted(glob({pattern!r}))"
    numbers = re.findall(r"\d+", shards)
    name = pattern.replace("*", f"{{number:0{len(numbers[0])}d}}")
    return f"[f{name!r} for number in range({int(numbers[0])}, {int(numbers[-1]) + 1})]"
