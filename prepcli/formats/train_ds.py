"""Writes a section for a training config with the keys that NeMo's Lhotse loader needs to read a data set."""

import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.owned import write_editable
from prepcli.engine.state.workspace import Workspace, atomic_file
from prepcli.storage.addresses import is_address
from prepcli.storage.paths import AnyPath, absolute

FILE_NAME = "train_ds.yaml"
_BEFORE = "train_ds_before.yaml"
"""The name of a copy of `main_file` in the folder of a version. `publish_section` makes the copy before it changes
`main_file`; the copy is empty if `main_file` did not exist.
"""
_HEAD = (
    "# Made by prepcli {command}: paste this section into the config of a NeMo model (model.train_ds).\n"
    "# Add what depends on the model and the GPU: sample_rate, and batch_duration (seconds) or batch_size.\n"
)


def write_train_ds(
    workspace: Workspace,
    command: str,
    keys: Mapping[str, Any],
    lhotse: str = "",
    others: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> str:
    """Write a section `train_ds` for a training config, with `keys`, to a file in OUT.prepcli.

    No program reads the file, so users may edit it. An edited file is moved to `OUT.prepcli/kept/` before the new one
    is written.

    Args:
        workspace: workspace of the run.
        command: name of the command.
        keys: keys of the section in addition to `use_lhotse` and `shuffle`.
        lhotse: Python code that opens the same data with lhotse; the file gets it as a comment.
        others: sections for other loaders, each after a line that explains it; the file gets them as comments.

    Returns:
        The path of the file.
    """
    import yaml

    text = _HEAD.format(command=command) + (f"# With lhotse alone: {lhotse}\n" if lhotse else "")

    def section(of_loader: Mapping[str, Any], flow: bool | None) -> str:
        document = {"train_ds": dict(of_loader)}
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1 << 20, default_flow_style=flow)

    text += section({"use_lhotse": True, "shuffle": True, **keys}, flow=None)
    for about, other in others:
        text += f"\n# {about}\n{textwrap.indent(section(other, flow=False), '# ')}"
    return os.path.abspath(write_editable(workspace, FILE_NAME, text.encode("utf-8", "replace")))


def main_file(workspace: Workspace) -> Path:
    """The path of the main file: the `train_ds.yaml` of the whole output.

    A run that adds a version also writes a `train_ds.yaml` of its own, in the folder of the version.
    """
    return Path(os.path.abspath(workspace.main_root / FILE_NAME))


def publish_section(workspace: Workspace) -> None:
    """Copy the file with the section for the version of `workspace` over the main file (see `main_file`).

    `restore_section` undoes this. Nothing is copied if a user has changed the main file after the first call.
    """
    main, own, before = main_file(workspace), workspace.root / FILE_NAME, workspace.root / _BEFORE
    if not own.exists():
        return
    if not before.exists():
        _copy(main, before)
    if _content(main) == _content(before):
        _copy(own, main)


def restore_section(workspace: Workspace) -> bool:
    """Undo `publish_section`: restore the former content of the main file, or remove it if there was no file.

    Returns:
        False if a user has changed the main file after `publish_section`; nothing is restored then. Otherwise True.
    """
    main, own, before = main_file(workspace), workspace.root / FILE_NAME, workspace.root / _BEFORE
    if not before.exists() or _content(main) == _content(before):
        return True
    if _content(main) != _content(own):
        return False
    if _content(before):
        _copy(before, main)
    else:
        main.unlink()
    return True


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _copy(source: Path, target: Path) -> None:
    with atomic_file(target) as file:
        file.write(_content(source))


def write_shar_train_ds(workspace: Workspace, command: str, fields: Mapping[str, AnyPath], shards: str) -> str:
    """Write the section `train_ds` for a Shar set.

    Args:
        workspace: workspace of the run.
        command: name of the command.
        fields: the path of each field's files, with `shards` in place of the number of a shard.
        shards: the text that stands for the numbers of all shards, as `shard_range` returns it, but not `*`.

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
    """A Python expression for the sorted paths of a field's shards: a `glob` for local files, a list for addresses.

    Args:
        pattern: the paths, with `*` for the number of the shard.
        shards: the range of the numbers, as `shard_range` returns it.
    """
    if not is_address(pattern):
        return f"sorted(glob({pattern!r}))"
    numbers = re.findall(r"\d+", shards)
    name = pattern.replace("*", f"{{number:0{len(numbers[0])}d}}")
    return f"[f{name!r} for number in range({int(numbers[0])}, {int(numbers[-1]) + 1})]"
