"""NeMo's `input_cfg`: data sets and groups of them, with weights, in YAML."""

from pathlib import Path
from typing import Any

from prepcli.errors import UsageError
from prepcli.manifest.inputs import DataSet, Mix, of_config
from prepcli.manifest.sources import check_file

# NeMo has more types (texts, conversations, ...); these are the ones whose items are utterances with a duration.
TYPES = ("nemo", "nemo_tarred", "lhotse", "lhotse_shar", "group")


def of_input_cfg(value: Any, seen: tuple[str, ...] = ()) -> DataSet | Mix:
    """The data of an `input_cfg`: a list of entries, or the path of a YAML file that holds one.

    An entry has a `type` (one of `TYPES`), and a `weight` if any entry of its list has one; a `group` has an
    `input_cfg` of its own. Without weights all entries of a list weigh the same, however long they are. Tags
    and all other keys have no say in durations. Relative paths start from the working directory, as in NeMo.
    Raises `UsageError` for what NeMo would refuse, and for files that include each other.
    """
    if isinstance(value, str):
        if value in seen:
            raise UsageError(f"input_cfg includes itself: {' -> '.join((*seen, value))}")
        seen = (*seen, value)
        value = _load(value)
    if isinstance(value, dict) and "input_cfg" in value:
        value = value["input_cfg"]
    if not isinstance(value, list) or not value:
        raise UsageError(f"an input_cfg{_of(seen)} must be a list of entries, and not an empty one")
    parts = [_of_entry(entry, seen) for entry in value]
    weights = [entry.get("weight") for entry in value]
    if len(parts) == 1:
        return parts[0]
    return Mix(tuple(parts), _weights(weights, seen))


def _of_entry(entry: Any, seen: tuple[str, ...]) -> DataSet | Mix:
    kind = entry.get("type") if isinstance(entry, dict) else None
    if kind not in TYPES:
        raise UsageError(f"an entry{_of(seen)} has the type {kind!r}; estimating bins knows {', '.join(TYPES)}")
    if kind == "group":
        return of_input_cfg(entry.get("input_cfg"), seen)
    keys = ("manifest_filepath",) if kind.startswith("nemo") else ("shar_path", "cuts_path")
    if not any(entry.get(key) for key in keys):
        raise UsageError(f"an entry{_of(seen)} of type {kind} has no {' or '.join(keys)}")
    return of_config({key: entry.get(key) for key in keys})


def _weights(weights: list[Any], seen: tuple[str, ...]) -> tuple[float, ...]:
    if all(weight is None for weight in weights):
        return (1.0,) * len(weights)
    for weight in weights:
        if not isinstance(weight, int | float) or not weight > 0:
            raise UsageError(
                f"where one entry of a list{_of(seen)} has a weight, each needs one above 0; found {weight}"
            )
    return tuple(map(float, weights))


def _load(path: str) -> Any:
    import yaml

    check_file(path, "input_cfg")
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no readable YAML: {' '.join(str(error).split())}") from None


def _of(seen: tuple[str, ...]) -> str:
    return f" of {seen[-1]}" if seen else ""
