"""Finds the options of a data loader in a training config: in `train_ds`, or in each part of a `multi_config`."""

from collections.abc import Iterator, Mapping
from typing import Any

PLACES = (("model", "train_ds"), ("data", "train_ds"), ("train_ds",))
"""The keys that lead to the loader options for training data in a config, for each kind of config."""
_NO_PART = "sampler_weights"
"""The key in a `multi_config` whose mapping is not a part."""


def loader_sections(document: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """The mappings in a training config from which NeMo's loader reads bins, each with the keys that lead to it.

    Bins are limits of durations. A section with `multi_config: true` has parts, each with its own data, bins and batch
    sizes. The parts are yielded, and not the section itself, because NeMo ignores its bins. If the config has no
    section at one of `PLACES`, the whole config may be a section with `multi_config: true`.
    """
    has_section = False
    for place in (*PLACES, ()):
        section = section_at(document, place)
        if section is None or (not place and (has_section or not section.get("multi_config"))):
            continue
        has_section = True
        if not section.get("multi_config"):
            yield place, section
            continue
        yield from (((*place, name), part) for name, part in parts_of(section).items())


def parts_of(section: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The parts of a `multi_config` by name."""
    return {str(name): part for name, part in section.items() if isinstance(part, dict) and name != _NO_PART}


def file_and_part(name: str) -> tuple[str, str]:
    """`train.yaml:speech` -> `train.yaml` and `speech`, a part of its `multi_config`; in other names, there is none."""
    file, _, part = name.rpartition(":")
    return (file, part) if file.endswith((".yaml", ".yml")) and part and "/" not in part else (name, "")


def sections_of_parts(document: Any) -> dict[str, tuple[tuple[str, ...], dict[str, Any]]]:
    """The parts of the `multi_config` of a training config by name, as `loader_sections` yields them."""
    return {pair[0][-1]: pair for pair in loader_sections(document) if pair[0] and pair[0] not in PLACES}


def section_at(document: Any, place: tuple[str, ...]) -> dict[str, Any] | None:
    """The mapping to which the keys in `place` lead; None if there is no mapping at this place."""
    for name in place:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else None
