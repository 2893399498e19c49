"""Bins as options of a data loader's config, in a YAML file that may be there already."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from prepcli.engine.state.workspace import replaced_file
from prepcli.errors import PrepcliError, UsageError, cannot_write
from prepcli.formats.loader_sections import PLACES, loader_sections
from prepcli.formats.yaml_text import parse_yaml, read_yaml_text
from prepcli.manifest.input_cfg import is_input_of

if TYPE_CHECKING:
    from yaml import MappingNode, Node, ScalarNode

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
"""A file with one of these keys at its top is a loader's config itself."""

_ONE_PER_BIN = ("bucket_batch_size", "max_tps", "max_tpt")
_WIDTH = 110
_MAX_SHOWN = 200
"""Characters of a value that a note shows."""


@dataclass(frozen=True)
class _Config:
    """A config as it is: its text, the whole document, and the mapping in it that the options belong to.

    `line_end` is that of all its lines, which `text` has as a newline.

    `place` is where that mapping is, such as `model.train_ds`, or in a `multi_config` `model.train_ds.audio`; empty for
    the top. `node` is None for a file without options, or one that is not there.
    """

    text: str
    line_end: str
    document: dict[str, Any]
    place: str
    section: dict[str, Any]
    node: "MappingNode | None"


def check_kind_of_file(path: Path) -> None:
    """Raise `UsageError` for what cannot be a config: a folder or a device, which must not be replaced by a file."""
    if path.exists() and not path.is_file():
        raise UsageError(f"--write-config {path}: it is not a regular file; give another name")


def check_loader_config(path: Path, data: str = "") -> None:
    """Check before the work that the options can be written; `data` is that of `write_loader_config`.

    Raises:
        UsageError: it is a folder or a device, which must not be replaced by a file; it is not a YAML mapping; its
            folder does not exist; or it is not clear where the options belong.
    """
    _read(path, data)


def write_loader_config(
    path: Path, options: Mapping[str, Any], limits: Mapping[str, object] = MappingProxyType({}), data: str = ""
) -> list[str]:
    """Put `options` into the config at `path`.

    They go to the one of `PLACES` that the file has, or to its top if that is a loader's config itself; a file that
    does not exist is made, with the options at its top. In a `multi_config` they go to the part that reads `data`, or
    that has bins already. Only the text of these keys changes: comments, order and layout of the rest stay. Lists of
    one number per bin that are for another number of bins (`bucket_batch_size`, `max_tps`, `max_tpt`) no longer fit,
    NeMo would refuse them, and so they are removed.

    Args:
        path: the file.
        options: the keys with their values.
        limits: those of `options` that leave out examples, with the limit that the user gave to the command, or None.
            Where the file has a number for one of them, it is replaced only if another limit was given.
        data: the input that the options are for, as a user names it; empty if they are for bins of the file.

    Returns:
        A note for each key that changes, with its old and new value, and for each that stays although the estimate
        differs; then one that says what was written. Nothing if the file already has the options.

    Raises:
        UsageError: see `check_loader_config`; or the file cannot be edited in place, or not be written.
    """
    import yaml

    config = _read(path, data)
    section, place = config.section, config.place
    if config.node is None:
        text = config.text + "\n" * (config.text != "" and not config.text.endswith("\n"))
        text += yaml.safe_dump(dict(options), sort_keys=False, default_flow_style=None, width=_WIDTH)
        _write(path, text, config.line_end)
        return [f"wrote {len(options)} options into {path}, at its top"]
    num_bins = len(options["bucket_duration_bins"])
    changed = {name: value for name, value in options.items() if repr(section.get(name)) != repr(value)}
    kept = [name for name in changed if name in limits and _is_own_limit(section.get(name), limits[name])]
    kept_notes = [_kept_note(name, section[name], changed.pop(name)) for name in kept]
    unfit = [name for name in _ONE_PER_BIN if isinstance(section.get(name), list) and len(section[name]) != num_bins]
    unfit = [name for name in unfit if name not in options]
    notes = [f"{path}: {note}" for note in _notes(place, section, changed, unfit)]
    kept_notes = [f"{path}: {place}{'.' * bool(place)}{note}" for note in kept_notes]
    if not notes:
        return kept_notes
    section.update(changed)
    for name in unfit:
        del section[name]
    edited = _edit(config.text, config.node, section, changed, unfit)
    try:
        as_wanted = parse_yaml(edited) == config.document
    except yaml.YAMLError:
        as_wanted = False
    if not as_wanted:
        raise UsageError(
            f"--write-config {path}: the options cannot be put into {place or 'it'} without changing something else "
            "(anchors, aliases, comments within braces); edit the file yourself"
        )
    _write(path, edited, config.line_end)
    return [*notes, *kept_notes, f"wrote {path}: {len(notes)} keys changed in {place or 'its top level'}"]


def _is_own_limit(value: object, given: object) -> bool:
    """Whether a limit in the file is the user's: a number, or a reference to one, that the command was not to replace.

    A list comes from an earlier estimate.
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
        option = f" (-u {value:g})" if name in ("max_duration", "max_tokens") and value > 0 else ""
        note += (
            ". The bins were made with examples above it, which training leaves out: estimate again with this "
            f"limit{option}"
        )
    return note


def _read(path: Path, data: str) -> _Config:
    """Read the file and find the place of the options; see `check_loader_config` for what is raised."""
    import yaml

    check_kind_of_file(path)
    _check_writable(path)
    try:
        text = read_yaml_text(path) if path.exists() else ""
        line_end = "\r\n" if 0 < text.count("\n") == text.count("\r\n") else "\n"
        text = text.replace(line_end, "\n")
        document = _unshared(parse_yaml(text))
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise PrepcliError(f"--write-config {path}: it cannot be read: {error.strerror or error}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"--write-config {path}: it is not readable YAML: {' '.join(str(error).split())}") from None
    if root is None:  # nothing but comments
        return _Config(text, line_end, {}, "", {}, None)
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(f"--write-config {path}: it is not a mapping of options")
    found = list(_places(document, root))
    if not found and (not document or LOADER_KEYS.intersection(document)):
        return _Config(text, line_end, document, "", document, root)
    belonging = [one for one in found if _belongs(one[1], data)] if len(found) > 1 else []
    if len(found) == 1 or len(belonging) == 1:
        return _Config(text, line_end, document, *(belonging or found)[0])
    names = ", ".join(".".join(one) for one in PLACES)
    why = f"it has {' and '.join(place for place, _, _ in found)}" if found else f"it has none of {names}"
    if found and data:
        why += f", and {'several' if belonging else 'none'} of them read{'' if belonging else 's'} {data}"
    raise UsageError(
        f"--write-config {path}: it is not clear where the options belong: {why}; write them into a new file, and copy "
        "them from there"
    )


def _belongs(section: dict[str, Any], data: str) -> bool:
    """Whether options that were made from `data`, or else from bins, are for this section of several."""
    return is_input_of(data, section) if data else section.get("bucket_duration_bins") is not None


def _check_writable(path: Path) -> None:
    """Raise `UsageError` if the file, or a new one in its folder, cannot be written."""
    real = path.resolve()
    if not real.parent.is_dir():
        raise UsageError(f"--write-config {path}: cannot write it: No such file or directory: {real.parent}")
    # root may write everything, but a file without any permission to write is not meant to change.
    is_protected = real.exists() and not (os.access(real, os.W_OK) and real.stat().st_mode & 0o222)
    if is_protected or not os.access(real.parent, os.W_OK):
        what = "it" if is_protected else f"its folder {real.parent}"
        raise UsageError(f"--write-config {path}: {what} is read-only; allow to write it, or give another name")


def _places(document: dict[str, Any], root: "MappingNode") -> "Iterator[tuple[str, dict[str, Any], MappingNode]]":
    """The sections of the file (`loader_sections`): the name, the options there, and where they stand in the text."""
    import yaml

    for names, section in loader_sections(document):
        node: Node | None = root
        for name in names:
            node = _entries(node).get(name, (None, None))[1] if isinstance(node, yaml.MappingNode) else None
        if isinstance(node, yaml.MappingNode):
            yield ".".join(names), section, node


def _entries(node: "MappingNode") -> "dict[str, tuple[ScalarNode, Node]]":
    return {key.value: (key, value) for key, value in node.value}


def _unshared(value: Any) -> Any:
    """The value without objects that stand in it twice, as aliases do: a change of one must not change the other."""
    if isinstance(value, dict):
        return {key: _unshared(item) for key, item in value.items()}
    return [_unshared(item) for item in value] if isinstance(value, list) else value


def _notes(place: str, section: dict[str, Any], changed: Mapping[str, Any], unfit: list[str]) -> Iterator[str]:
    prefix = f"{place}." if place else ""
    for name, value in changed.items():
        old = f"{_short(section[name])} -> " if name in section else "new, "
        yield f"{prefix}{name}: {old}{_short(value)}"
    for name in unfit:
        values = section[name]
        again = "; estimate the batch sizes again (prepcli estimate-batch-sizes)" if name == "bucket_batch_size" else ""
        yield f"took {name} out of {place or 'the file'}: it was for {len(values)} bins ({_short(values)}){again}"


def _edit(text: str, node: "MappingNode", section: dict[str, Any], changed: Mapping[str, Any], unfit: list[str]) -> str:
    """The text with what has changed in the mapping `node`, without what does not fit; `section`: what it becomes."""
    start, end = node.start_mark.index, node.end_mark.index
    if node.flow_style:
        # In braces, commas would have to be found too: the whole is written again, unless that loses a comment.
        return text if " #" in text[start:end] else text[:start] + _flow(section, node.start_mark.column) + text[end:]
    entries = _entries(node)
    indent = node.value[0][0].start_mark.column
    edits = [_replaced(text, *entries[name], _flow(changed[name], indent)) for name in changed if name in entries]
    for name in unfit:
        key, value = entries[name]
        line_start = text.rfind("\n", 0, key.start_mark.index) + 1
        edits.append((line_start, _line_end(text, _end(text, value)) + 1, ""))
    added = [f"{' ' * indent}{name}: {_flow(changed[name], indent)}" for name in changed if name not in entries]
    # An alias stands where its anchor is, which comes before its key.
    last = _line_end(text, max(max(key.end_mark.index, _end(text, value)) for key, value in node.value))
    edits.append((last, last, "".join(f"\n{line}" for line in added)))
    for first, after, new in sorted(edits, reverse=True):
        text = text[:first] + new + text[after:]
    return text


def _replaced(text: str, key: "Node", value: "Node", new: str) -> tuple[int, int, str]:
    """From where to where to replace the value, and by what; on the key's line, unless a comment follows there."""
    start, end = value.start_mark.index, _end(text, value)
    after_key = text.find(":", key.end_mark.index) + 1
    return (start, end, new) if "#" in text[after_key:start] else (after_key, max(end, after_key), f" {new}")


def _end(text: str, node: "Node") -> int:
    """Where the text of a node ends; PyYAML ends a block list or mapping only after the comments that follow it."""
    import yaml

    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return len(text[:end].rstrip())


def _line_end(text: str, index: int) -> int:
    found = text.find("\n", index)
    return found if found >= 0 else len(text)


def _flow(value: object, indent: int) -> str:
    """A value in one or several lines, within a mapping whose keys stand in column `indent`."""
    import yaml

    # In a list, for YAML marks the end of a document that is a single word.
    text = yaml.safe_dump([value], default_flow_style=True, sort_keys=False, allow_unicode=True, width=_WIDTH - indent)
    return text.strip()[1:-1].replace("\n", "\n" + " " * (indent + 2))


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _write(path: Path, text: str, line_end: str) -> None:
    try:
        with replaced_file(path) as file:
            file.write(text.replace("\n", line_end).encode("utf-8"))
    except OSError as error:
        raise cannot_write(error, f"--write-config {path}: cannot write it: {error.strerror}") from None
