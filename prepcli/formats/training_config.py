"""Text to paste into the config of a training run that resumes by index."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prepcli.formats.indexes import MIRROR
from prepcli.formats.names import absolute_folder
from prepcli.formats.sets import shar_entry
from prepcli.storage.addresses import join
from prepcli.storage.paths import AnyPath

INDEXED_CONFIG = "config_with_indexes"
"""The key of this text in the details of a report."""


def indexed_config(entries: Sequence[dict[str, Any]], indexes_root: Path | str | None = None) -> str:
    """The YAML for entries of an `input_cfg` with absolute paths, as readers need them with indexes in a mirror."""
    import yaml

    config: dict[str, Any] = {"input_cfg": list(entries), "indexed": True, "use_stateful_dataloader": True}
    if indexes_root is not None:
        config["indexes_root"] = str(indexes_root)
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=1_000_000)
    return "# needs lhotse 2 and NeMo after 3.0\n" + text.rstrip("\n")


def indexed_shar_config(fields: Mapping[str, str | AnyPath], out: AnyPath) -> str:
    """The YAML for a Shar set with its mirror in `out`; relative files of the fields are below `out`."""
    root = absolute_folder(str(out))
    paths = {name: join(root, str(pattern)) for name, pattern in fields.items()}
    return indexed_config([shar_entry(paths)], f"{root}/{MIRROR}")
