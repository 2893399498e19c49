"""The upper bounds of buckets as users give them, and the final lists for a training config."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

from prepcli.errors import UsageError, option
from prepcli.formats.yaml_text import read_yaml
from prepcli.storage.paths import AnyPath, path_of

Bound = float | tuple[float, int]
"""The longest example of a bucket: its duration in seconds, or duration and number of output tokens."""


DEFAULT_BOUNDS: tuple[Bound, ...] = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0)
"""The default bounds in seconds, those of NeMo's OOMptimizer."""


def given_bounds(buckets: str | None, buckets_from: str | None) -> list[Bound]:
    """The bounds that `--buckets` or `--buckets-from` gives, ascending; NeMo's default bounds if both are None.

    Raises:
        UsageError: see `parse_buckets` and `buckets_in_config`.
    """
    if buckets is not None:
        return parse_buckets(buckets)
    return list(DEFAULT_BOUNDS) if buckets_from is None else buckets_in_config(buckets_from)


def parse_buckets(text: str) -> list[Bound]:
    """The bounds in a text such as `[5.0,10.0]` or `[[5.0,30],[10.0,60]]`.

    Raises:
        UsageError: the text has another form.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return _checked(value, option("--buckets", text))


def buckets_in_config(config: AnyPath | str) -> list[Bound]:
    """The bounds in a training config. These are its bins, which are the upper ends of buckets.

    `FILE.yaml:PART` names a part of its `multi_config`.

    If the bins are durations, and the last one is below the config's `max_duration`, then `max_duration` is one more
    bound.

    Raises:
        UsageError: the file cannot be read, or has no bins, or bins in tokens.
    """
    import yaml

    from prepcli.formats.loader_sections import PLACES, file_and_part, loader_sections, section_at, sections_of_parts

    path, part = file_and_part(str(config))
    try:
        document = read_yaml(path_of(path))
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(
            f"{option('--buckets-from', path)}: not readable YAML: {' '.join(str(error).split())}"
        ) from None
    parts = sections_of_parts(document)
    if part and part not in parts:
        raise UsageError(f"{option('--buckets-from', config)}: {path} has no multi_config with a part {part}")
    sections = [parts[part]] if part else [*loader_sections(document), ((), section_at(document, ()))]
    with_bins = [
        (names, section) for names, section in sections if section and section.get("bucket_duration_bins") is not None
    ]
    of_parts = [".".join(names) for names, _ in with_bins if names and names not in PLACES]
    if len(of_parts) > 1:
        raise UsageError(
            f"{option('--buckets-from', path)}: it is a multi_config with bins in {' and '.join(of_parts)}; give "
            f"one of them: {' or '.join(f'{path}:{name}' for name, pair in parts.items() if pair in with_bins)}"
        )
    if with_bins:
        section = with_bins[0][1]
        if section.get("use_multimodal_sampling"):
            raise UsageError(
                f"{option('--buckets-from', path)}: its bins are tokens of audio and text together "
                f"(use_multimodal_sampling), and steps need both lengths: give {option('--buckets')} with pairs of "
                "seconds and tokens, [[10.0,60],[20.0,120]]"
            )
        return _with_last(_checked(section["bucket_duration_bins"], option("--buckets-from", path)), section)
    places = ", ".join(".".join(names) for names in ([names for names, _ in sections if names] or PLACES))
    raise UsageError(
        f"{option('--buckets-from', path)}: no bucket_duration_bins in {places} or at its top; write them with "
        "estimate-bins --write-config"
    )


def _with_last(bounds: list[Bound], section: dict[str, Any]) -> list[Bound]:
    longest = section.get("max_duration")
    last = bounds[-1]
    if not isinstance(last, tuple) and isinstance(longest, (int, float)) and last < longest < float("inf"):
        return [*bounds, longest]
    return bounds


def _checked(values: Any, where: str) -> list[Bound]:
    bounds: list[Bound] = []
    for value in values if isinstance(values, list) else []:
        if _is_number(value):
            bounds.append(value)
        elif isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)) and value[1] == int(value[1]):
            bounds.append((value[0], int(value[1])))
        else:
            bounds = []
            break
    if not bounds or len({isinstance(bound, tuple) for bound in bounds}) > 1:
        raise UsageError(f"{where}: the bins must be a list of positive numbers, or of pairs of seconds and tokens")
    keys = [(duration_of(bound), tokens_of(bound) or 0) for bound in bounds]
    if any(later <= earlier for earlier, later in itertools.pairwise(keys)):
        raise UsageError(f"{where}: the bins must ascend, and none may be there twice")
    return bounds


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def duration_of(bound: Bound) -> float:
    """The duration of a bound in seconds."""
    return bound[0] if isinstance(bound, tuple) else bound


def tokens_of(bound: Bound) -> int | None:
    """The number of output tokens of a bound; None if the bound is a duration alone."""
    return bound[1] if isinstance(bound, tuple) else None


def shown(bound: Bound) -> str:
    """The text of a bound in a list: `5.0`, `[5.0,30]`."""
    return f"[{bound[0]},{bound[1]}]" if isinstance(bound, tuple) else str(bound)


def final_bins(bounds: Sequence[Bound], sizes: Sequence[int]) -> list[tuple[Bound, int]]:
    """The bins for a training config, each with its batch size; bins with size 0 are left out.

    One-dimensional bins that follow each other and have the same batch size are merged, as in NeMo.
    """
    bins: list[tuple[Bound, int]] = []
    for bound, size in zip(bounds, sizes, strict=True):
        if size and bins and bins[-1][1] == size and not isinstance(bound, tuple):
            bins[-1] = bound, size
        elif size:
            bins.append((bound, size))
    return bins
