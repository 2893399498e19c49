"""Makes entries of an `input_cfg`, and the text of a training config with which NeMo reads records by indexes."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prepcli.formats.names import MIRROR, absolute_folder
from prepcli.storage.addresses import join
from prepcli.storage.paths import AnyPath, path_of

INDEXED_CONFIG = "config_with_indexes"
"""Key in the details of a report. Its value is the text to paste into a training config."""


def tarred_entry(manifests: Any, tars: Any) -> dict[str, Any]:
    """The entry in an `input_cfg` for a tarred set; `manifests` and `tars` are each a path, a pattern, or a list."""
    return {"type": "nemo_tarred", "manifest_filepath": manifests, "tarred_audio_filepaths": tars}


def shar_entry(fields: Any) -> dict[str, Any]:
    """The entry in an `input_cfg` for a Shar set; `fields` is the value of `shar_path`, usually a mapping by field."""
    return {"type": "lhotse_shar", "shar_path": fields}


def parquet_entry(files: Iterable[str | AnyPath]) -> dict[str, Any]:
    """The entry in an `input_cfg` for Parquet files: a list of all of them, because NeMo expands no patterns there."""
    return {"type": "parquet", "manifest_filepath": [_absolute(path_of(file)) for file in files]}


def _absolute(file: AnyPath) -> str:
    return str(path_of(absolute_folder(str(file.parent))) / file.name)


def indexed_config(entries: Sequence[dict[str, Any]], indexes_root: Path | str | None = None) -> str:
    """The YAML of a training config whose `input_cfg` has `entries`, and with which NeMo reads records by indexes.

    `indexes_root` is the mirror; None if the indexes are next to the data files. The paths of the entries are absolute.
    """
    import yaml

    config: dict[str, Any] = {"input_cfg": list(entries), "indexed": True, "use_stateful_dataloader": True}
    if indexes_root is not None:
        config["indexes_root"] = str(indexes_root)
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=1_000_000)
    return "# needs lhotse 2 and NeMo after 3.0\n" + text.rstrip("\n")


def indexed_shar_config(fields: Mapping[str, str | AnyPath], out: AnyPath) -> str:
    """The YAML of a training config for a Shar set whose mirror of indexes is in `out`.

    `fields` has the path or pattern of each field's files; a relative path is taken as relative to `out`.
    """
    root = absolute_folder(str(out))
    paths = {name: join(root, str(pattern)) for name, pattern in fields.items()}
    return indexed_config([shar_entry(paths)], f"{root}/{MIRROR}")
