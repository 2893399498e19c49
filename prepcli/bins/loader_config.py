"""Bins as options of a data loader's config, in a YAML file that may be there already."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prepcli.errors import UsageError

PLACES = (("model", "train_ds"), ("data", "train_ds"), ("train_ds",))
"""Where training configs have the options of the training data's loader; the first that is there is taken."""

_ONE_A_BIN = ("bucket_batch_size", "max_tps", "max_tpt")


def write_loader_config(path: Path, options: Mapping[str, Any]) -> list[str]:
    """Put `options` into the config at `path`, whose other keys and their order stay; returns notes for the user.

    They go to the first of `PLACES` that the file has, or to its top; a file that is not there is made, with the
    options at its top. Comments are lost. Lists of one number a bin that are for another number of bins
    (`bucket_batch_size`, `max_tps`, `max_tpt`) no longer fit, NeMo would refuse them, and so they are taken out.
    Raises `UsageError` when the file is no YAML mapping or cannot be written.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        document = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"--write-config {path}: it is no readable YAML: {' '.join(str(error).split())}") from None
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise UsageError(f"--write-config {path}: it holds no mapping of options")
    place, section = _section(document)
    section.update(options)
    notes = []
    for name in _ONE_A_BIN:
        values = section.get(name)
        if isinstance(values, list) and len(values) != len(options["bucket_duration_bins"]):
            del section[name]
            notes.append(f"{path}: took {name} out of {place}: it was for {len(values)} bins")
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        partial.write_text(
            yaml.safe_dump(document, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120),
            encoding="utf-8",
        )
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"--write-config {path}: cannot write it: {error.strerror}") from None
    return notes


def _section(document: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    for names in PLACES:
        section: Any = document
        for name in names:
            section = section.get(name) if isinstance(section, dict) else None
        if isinstance(section, dict):
            return ".".join(names), section
    return "the file", document
