"""Bins as options of a data loader's config, in a YAML file that may be there already."""

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prepcli.errors import UsageError

if TYPE_CHECKING:
    from yaml import MappingNode, Node, ScalarNode

PLACES = (("model", "train_ds"), ("data", "train_ds"), ("train_ds",))
"""Where training configs have the options of the training data's loader; the first one in the file is used."""

_ONE_PER_BIN = ("bucket_batch_size", "max_tps", "max_tpt")
_WIDTH = 110
_MAX_SHOWN = 200
"""Characters of a value that a note shows."""


def check_loader_config(path: Path) -> None:
    """Raise `UsageError` for what cannot be a config: a folder or a device, which must not be replaced by a file."""
    if path.exists() and not path.is_file():
        raise UsageError(f"--write-config {path}: it is not a regular file; give another name")


def write_loader_config(path: Path, options: Mapping[str, Any]) -> list[str]:
    """Put `options` into the config at `path`; returns a note for each key that changes, with its old and new value.

    They go to the first of `PLACES` that the file has, or to its top; a file that is not there is made, with the
    options at its top. Only the text of these keys changes: comments, order and layout of the rest stay. Lists of one
    number per bin that are for another number of bins (`bucket_batch_size`, `max_tps`, `max_tpt`) no longer fit, NeMo
    would refuse them, and so they are removed. Raises `UsageError` when the file is not a YAML mapping, cannot be
    edited in place, or cannot be written.
    """
    import yaml

    check_loader_config(path)
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        root, document = yaml.compose(text, Loader=yaml.SafeLoader), _unshared(yaml.safe_load(text))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"--write-config {path}: it is not readable YAML: {' '.join(str(error).split())}") from None
    if root is None:  # nothing but comments
        text += "\n" * (text != "" and not text.endswith("\n"))
        _write(path, text + yaml.safe_dump(dict(options), sort_keys=False, default_flow_style=None, width=_WIDTH))
        return []
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(f"--write-config {path}: it is not a mapping of options")
    place, section, node = _section(document, root)
    num_bins = len(options["bucket_duration_bins"])
    changed = {name: value for name, value in options.items() if repr(section.get(name)) != repr(value)}
    unfit = [name for name in _ONE_PER_BIN if isinstance(section.get(name), list) and len(section[name]) != num_bins]
    unfit = [name for name in unfit if name not in options]
    notes = [f"{path}: {note}" for note in _notes(place, section, changed, unfit)]
    if not notes:
        return []
    section.update(changed)
    for name in unfit:
        del section[name]
    edited = _edit(text, node, section, changed, unfit)
    try:
        as_wanted = yaml.safe_load(edited) == document
    except yaml.YAMLError:
        as_wanted = False
    if not as_wanted:
        raise UsageError(
            f"--write-config {path}: the options cannot be put into {place or 'it'} without changing something else "
            "(anchors, aliases, comments within braces); edit the file yourself"
        )
    _write(path, edited)
    return notes


def _section(document: dict[str, Any], root: "MappingNode") -> "tuple[str, dict[str, Any], MappingNode]":
    """The name of the place, the options there, and where they stand in the text."""
    import yaml

    for names in PLACES:
        section: Any = document
        node: Node | None = root
        for name in names:
            section = section.get(name) if isinstance(section, dict) else None
            node = _entries(node).get(name, (None, None))[1] if isinstance(node, yaml.MappingNode) else None
        if isinstance(section, dict) and isinstance(node, yaml.MappingNode):
            return ".".join(names), section, node
    return "", document, root


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
        yield f"took {name} out of {place or 'the file'}: it was for {len(values)} bins ({_short(values)})"


def _edit(text: str, node: "MappingNode", section: dict[str, Any], changed: Mapping[str, Any], unfit: list[str]) -> str:
    """The text with what has changed in the mapping `node`, without what does not fit; `section`: what it becomes."""
    start, end = node.start_mark.index, node.end_mark.index
    if node.flow_style:
        # In braces, commas would have to be found too: the whole is written anew, unless that loses a comment.
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


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"--write-config {path}: cannot write it: {error.strerror}") from None
