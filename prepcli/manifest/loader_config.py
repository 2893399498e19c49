"""Writes bins as options into a data loader's config, in a new or existing YAML file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prepcli.engine.publishing.side_files import check_writable
from prepcli.engine.state.workspace import replaced_file
from prepcli.errors import PrepcliError, UsageError, cannot_write, option
from prepcli.formats.loader_sections import PLACES, file_and_part, loader_sections, sections_of_parts
from prepcli.formats.yaml_edit import EditableYaml
from prepcli.formats.yaml_text import read_yaml_text
from prepcli.interface.printing import number_of
from prepcli.manifest.input_cfg import is_input_of

LOADER_KEYS = frozenset(
    [
        "manifest_filepath",
        "tarred_audio_filepaths",
        "shar_path",
        "cuts_path",
        "input_cfg",
        "use_lhotse",
        "use_bucketing",
        "num_buckets",
        "bucket_duration_bins",
        "bucket_batch_size",
        "batch_size",
        "batch_duration",
        "batch_tokens",
        "max_duration",
        "min_duration",
    ]
)
"""A file with one of these keys at its top is itself the config of a loader."""

_ONE_PER_BIN = ("bucket_batch_size", "max_tps", "max_tpt")
_LIMITS = ("min_duration", "max_duration", "min_tokens", "max_tokens", "max_tpt")
_MAX_SHOWN = 200
"""Maximum number of characters of a value in a note."""


@dataclass(frozen=True)
class _Config:
    """An existing config, and the mapping in it that the options belong to.

    `line_end`: the line end of the file, with or without a carriage return; the text of `yaml` has only newlines.
    `place`: the keys that lead to the mapping: `model`, `train_ds`, and in a `multi_config` the name of the part; empty
    for the top of the file.
    """

    yaml: EditableYaml
    line_end: str
    place: tuple[str, ...]
    section: dict[str, Any]


def check_kind_of_file(path: Path) -> None:
    """Raise `UsageError` for a folder or a device, which must not be replaced by a config."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{option('--write-config', path)}: it is not a regular file; give another name")


def check_loader_config(path: Path, data: str = "") -> None:
    """Check before a run that `write_loader_config` will be able to write the options.

    Args:
        path: the file.
        data: the input from which the options will be computed, as in `write_loader_config`.

    Raises:
        UsageError: the path is a folder or a device, which must not be replaced by a file; the file is not a YAML
            mapping, or is read-only; its folder does not exist; or the place of the options is not clear.
        PrepcliError: the file cannot be read.
    """
    _read(path, data)


def limits_of_config(path: Path, data: str) -> dict[str, float]:
    """The limits of examples that a data loader's config has, by key; for the arguments see `write_loader_config`."""
    section = _read(path, data).section if path.exists() else {}
    limits = {name: section.get(name) for name in _LIMITS}
    return {
        name: value
        for name, value in limits.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    }


def write_loader_config(
    path: Path, options: Mapping[str, Any], limits: Mapping[str, object] = MappingProxyType({}), data: str = ""
) -> list[str]:
    """Put `options` into the config at `path`.

    In a training config, the options are written at the one of `PLACES` that the file has. If several mappings are
    possible, such as the parts of a `multi_config`, it is the one that `data` names (`train.yaml:speech`) or reads, or,
    if `data` is empty, the one that already has bins. In the config of a loader itself, and in a new file, the options
    are written at the top.

    The rest of the file keeps its comments, order and layout. But the lists `bucket_batch_size`, `max_tps` and
    `max_tpt` have one number per bin: a list for another number of bins that `options` does not replace is removed,
    because NeMo would refuse it.

    Args:
        path: the file; created if it is missing.
        options: the keys with their values.
        limits: the keys among `options` that leave out examples, each with the limit that the user gave to the command;
            None: no limit was given. A number that the file has for such a key is replaced only if the user gave
            another one.
        data: the input from which the options were computed, as a user names it; empty if the options are for the bins
            that the file already has.

    Returns:
        A note for each key that changes or is removed, with its old and new value; a note for each key that stays
        although the estimate differs; and a note on the written file, or that it has the options already.

    Raises:
        UsageError: see `check_loader_config`; or the file cannot be edited in place or written.
    """
    config = _read(path, data)
    section, place = config.section, ".".join(config.place)
    if config.yaml.is_empty:
        _write(path, config.yaml.edited((), options), config.line_end)
        return [f"wrote {number_of(len(options), 'option')} into {path}, at its top"]
    num_bins = len(options["bucket_duration_bins"])
    changed = {name: value for name, value in options.items() if repr(section.get(name)) != repr(value)}
    kept = [name for name in changed if name in limits and _is_own_limit(section.get(name), limits[name])]
    kept_notes = [_kept_note(name, section[name], changed.pop(name)) for name in kept]
    unfit = [name for name in _ONE_PER_BIN if isinstance(section.get(name), list) and len(section[name]) != num_bins]
    unfit = [name for name in unfit if name not in options]
    notes = [f"{path}: {note}" for note in _notes(place, section, changed, unfit)]
    kept_notes = [f"{path}: {place}{'.' * bool(place)}{note}" for note in kept_notes]
    if not notes:
        return kept_notes or [f"{path} has these options already; it was not changed"]
    try:
        edited = config.yaml.edited(config.place, changed, unfit)
    except ValueError:
        raise UsageError(
            f"{option('--write-config', path)}: the options cannot be put into {place or 'it'} without changing "
            "something else (anchors, aliases, comments within braces); edit the file yourself"
        ) from None
    _write(path, edited, config.line_end)
    return [*notes, *kept_notes, f"wrote {path}: {number_of(len(notes), 'key')} changed in {place or 'its top level'}"]


def _is_own_limit(value: object, given: object) -> bool:
    """Whether the limit `value` in the file stays: it is set, and the user gave no other limit (`given`; None: none).

    A list does not stay, because it comes from an earlier estimate.
    """
    is_set = value is not None and value != "???" and not isinstance(value, list)
    return is_set and (given is None or given == value)


def _kept_note(name: str, value: object, estimated: object) -> str:
    note = (
        f"{name}: stays {_short(value)} as the file has it; {_short(estimated)} was estimated (to have that written, "
        "remove the key from the file)"
    )
    if not (isinstance(value, (int, float)) and isinstance(estimated, (int, float))):
        return note
    if name.startswith("max_") and value < estimated:
        limit = f" (-u {value:g})" if name in ("max_duration", "max_tokens") and value > 0 else ""
        note += (
            ". The bins were made with examples above it, which training leaves out: estimate again with this "
            f"limit{limit}"
        )
    return note


def _read(path: Path, data: str) -> _Config:
    """Read the file and find the place of the options; raises as `check_loader_config`."""
    import yaml

    check_kind_of_file(path)
    check_writable("--write-config", path)
    try:
        text = read_yaml_text(path) if path.exists() else ""
        line_end = "\r\n" if 0 < text.count("\n") == text.count("\r\n") else "\n"
        config = EditableYaml(text.replace(line_end, "\n"))
    except OSError as error:
        raise PrepcliError(f"{option('--write-config', path)}: it cannot be read: {error.strerror or error}") from None
    except yaml.YAMLError as error:
        raise UsageError(
            f"{option('--write-config', path)}: it is not readable YAML: {' '.join(str(error).split())}"
        ) from None
    if config.is_empty:  # the file has only comments
        return _Config(config, line_end, (), {})
    document = config.value
    if not isinstance(document, dict):
        raise UsageError(f"{option('--write-config', path)}: it is not a mapping of options")
    sections = [(place, section) for place, section in loader_sections(document) if config.mapping(place)]
    if not sections and (not document or LOADER_KEYS.intersection(document)):
        return _Config(config, line_end, (), document)
    belonging = [pair for pair in sections if _belongs(pair[1], data)] if len(sections) > 1 else []
    file, part = file_and_part(data)
    if part and path.exists() and path.samefile(file) and part in (parts := sections_of_parts(document)):
        belonging = [parts[part]]
    if len(sections) == 1 or len(belonging) == 1:
        return _Config(config, line_end, *(belonging or sections)[0])
    names = ", ".join(".".join(place) for place in PLACES)
    why = f"it has {' and '.join('.'.join(place) for place, _ in sections)}" if sections else f"it has none of {names}"
    if sections and data:
        why += f", and {'several' if belonging else 'none'} of them read{'' if belonging else 's'} {data}"
    raise UsageError(
        f"{option('--write-config', path)}: it is not clear where the options belong: {why}; write them into a new "
        "file, and copy them from there"
    )


def _belongs(section: dict[str, Any], data: str) -> bool:
    """Whether a section is the place of the options: it reads `data` or, if `data` is empty, already has bins."""
    return is_input_of(data, section) if data else section.get("bucket_duration_bins") is not None


def _notes(place: str, section: dict[str, Any], changed: Mapping[str, Any], unfit: list[str]) -> Iterator[str]:
    prefix = f"{place}." if place else ""
    for name, value in changed.items():
        old = f"{_short(section[name])} -> " if name in section else "new, "
        yield f"{prefix}{name}: {old}{_short(value)}"
    for name in unfit:
        values = section[name]
        again = "; estimate the batch sizes again (prepcli estimate-batch-sizes)" if name == "bucket_batch_size" else ""
        yield f"took {name} out of {place or 'the file'}: it was for {len(values)} bins ({_short(values)}){again}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _write(path: Path, text: str, line_end: str) -> None:
    try:
        with replaced_file(path) as file:
            file.write(text.replace("\n", line_end).encode("utf-8"))
    except OSError as error:
        raise cannot_write(error, f"{option('--write-config', path)}: cannot write it: {error.strerror}") from None
