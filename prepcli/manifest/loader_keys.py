"""Finds the section of a training config that a data loader reads, and reads its keys.

It reads the keys that decide which examples are used and how long they are.
"""

import contextlib
import math
import re
from dataclasses import dataclass, fields
from typing import Any

from prepcli.errors import UsageError
from prepcli.formats.loader_sections import PLACES, section_at, sections_of_parts

DATA_KEYS = ("manifest_filepath", "shar_path", "cuts_path", "input_cfg")
"""The keys that name data, in a training config and in inputs on the command line."""
INHERITED_KEYS = ("text_field", "lang_field", "audio_locator_tag", "token_equivalent_duration")
"""Keys that a section, a group and an entry of an `input_cfg` may have; the innermost value takes precedence."""

_WITHOUT_EFFECT = re.compile(
    r"(batch|bucket|bucketing|quadratic|shuffle|shard|tarred|use|num|force|cuda)_\w+"
    r"|(noise|rir|lowpass|compression|clipping|sampler)_\w+"
    r"|shuffle|seed|drop_last|pin_memory|sample_rate|channel_selector|concurrent_bucketing|pretokenize|multi_config"
    r"|is_tarred|defer_setup|skip_missing_manifest_entries|max_open_streams|slice_length|metadata_only"
    r"|db_norm|keep_excessive_supervisions|indexed|indexes_root"
)
"""Keys that change neither the selection of examples nor their lengths."""


@dataclass(frozen=True)
class LoaderKeys:
    """The keys of a loader's section that determine the examples and their lengths; None: not given.

    Durations are in seconds. `max_tpt` is a single limit; a list with one limit per bin is not read, because it belongs
    to bins that were estimated earlier.
    """

    text_field: str | None = None
    lang_field: str | None = None
    min_duration: float | None = None
    max_duration: float | None = None
    min_tokens: float | None = None
    max_tokens: float | None = None
    max_tpt: float | None = None
    token_equivalent_duration: float | None = None
    measure_total_length: bool | None = None
    audio_locator_tag: str | None = None
    prompt_format: str | None = None


_NAMES = tuple(field.name for field in fields(LoaderKeys))
_TEXTS = ("text_field", "lang_field", "audio_locator_tag", "prompt_format")
_ONE_PER_BIN = ("max_tps", "max_tpt")


def find_section(config: dict[str, Any], part: str = "") -> tuple[str, dict[str, Any]] | None:
    """Find the section that names data; `part`: the one with this name in a `multi_config`.

    Returns:
        Its place, such as `model.train_ds` or "" for the top, and the section; None if no section names data.
    """
    parts = sections_of_parts(config)
    for names in [parts[part][0]] if part in parts else [] if part else [*PLACES, ()]:
        section = section_at(config, names)
        if section is None or "type" in section:  # only an entry of an `input_cfg` has a type
            continue
        if any(is_given(section.get(key)) for key in DATA_KEYS):
            return ".".join(names), section
    return None


def is_given(value: Any) -> bool:
    """Whether a value is given: neither null nor OmegaConf's mark of a missing value."""
    return value is not None and value != "???"


def entries_in(section: dict[str, Any]) -> Any:
    """The `input_cfg` of a section or, without one, a list with an entry for the data that the section names."""
    if is_given(section.get("input_cfg")):
        return section["input_cfg"]
    from prepcli.formats.training_config import shar_entry, tarred_entry  # imported here, because it needs NumPy

    key = next(key for key in ("shar_path", "cuts_path", "manifest_filepath") if is_given(section.get(key)))
    if key == "shar_path":
        return [shar_entry(section[key])]
    tars = section.get("tarred_audio_filepaths")
    if key == "manifest_filepath" and is_given(tars):
        return [tarred_entry(section[key], tars)]
    return [{"type": "nemo" if key == "manifest_filepath" else "lhotse", key: section[key]}]


def read_loader_keys(section: dict[str, Any], where: str) -> tuple[LoaderKeys, list[str]]:
    """Read the keys of a section.

    Args:
        section: the mapping that names data.
        where: the file, for messages.

    Returns:
        The known keys, and the names of other keys that may change the examples.

    Raises:
        UsageError: a value has the wrong type.
    """
    values: dict[str, Any] = {}
    others: list[str] = []
    for name, value in section.items():
        if name in DATA_KEYS or _WITHOUT_EFFECT.fullmatch(str(name)) or _is_default(value):
            continue
        if isinstance(value, list) and name in _ONE_PER_BIN:
            continue
        if name in _NAMES and not is_reference(value):
            values[name] = typed_value(name, value, where)
        elif value is not False:
            others.append(str(name))
    return LoaderKeys(**values), others


def _is_default(value: Any) -> bool:
    """Whether a value sets no limit: it is missing, or -1 or infinity, which are defaults of NeMo."""
    return not is_given(value) or (not isinstance(value, bool) and value in (-1, float("inf")))


def is_reference(value: Any) -> bool:
    """Whether the value is a reference that OmegaConf would resolve: `${model.prompt_format}`."""
    return isinstance(value, str) and "${" in value


def typed_value(name: str, value: Any, where: str) -> Any:
    """The value of a key of `LoaderKeys`, converted to its type; raises `UsageError` if that is not possible."""
    if name == "measure_total_length":
        kind, is_right = "true or false", isinstance(value, bool)
    elif name in _TEXTS:
        kind, is_right = "text", isinstance(value, str)
    else:
        with contextlib.suppress(TypeError, ValueError):
            value = value if isinstance(value, bool) else float(value)  # YAML reads 8e-2 as text
        is_length = name == "token_equivalent_duration"
        kind = "a number of seconds above 0" if is_length else "a number"
        is_right = isinstance(value, float) and not math.isnan(value) and (value > 0 or not is_length)
    if not is_right:
        raise UsageError(f"{name} in {where} must be {kind}, not {value!r}{_advice(name, value)}")
    return value


def _advice(name: str, value: Any) -> str:
    """How to write a tag in brackets, which YAML takes for a list."""
    if not isinstance(value, list) or len(value) != 1 or name not in _TEXTS:
        return ""
    return f': YAML takes [{value[0]}] for a list; write "[{value[0]}]", with quotes'
