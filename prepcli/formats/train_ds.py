"""A section for a training config: what NeMo's Lhotse loader needs to read a data set, ready to paste."""

import os
from collections.abc import Mapping
from typing import Any

from prepcli.engine.workspace import Workspace, atomic_file

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
