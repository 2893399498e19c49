"""Edits YAML files of users: only the text of the changed keys changes, and comments and layout stay."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prepcli.formats.yaml_text import parse_yaml

if TYPE_CHECKING:
    from yaml import MappingNode, Node

_WIDTH = 110


class EditableYaml:
    """A YAML text, its value, and the positions of its mappings in the text.

    `value` is None for a text without a value, such as comments alone. In `value`, each alias is replaced by a copy of
    what it refers to.
    """

    def __init__(self, text: str) -> None:
        """Parse the text; raises `yaml.YAMLError` as `parse_yaml` does."""
        import yaml

        self.text = text
        self.value = _unshared(parse_yaml(text))
        self._root = yaml.compose(text, Loader=yaml.SafeLoader)  # libyaml puts an empty value elsewhere

    @property
    def is_empty(self) -> bool:
        """Whether the text has no value."""
        return self._root is None

    def mapping(self, place: Sequence[str]) -> "MappingNode | None":
        """Return the mapping to which the keys in `place` lead; None if it is missing, or comes from a merge (`<<`)."""
        import yaml

        node: Node | None = self._root
        for name in place:
            entries = node.value if isinstance(node, yaml.MappingNode) else []
            node = {key.value: value for key, value in entries}.get(name)
        return node if isinstance(node, yaml.MappingNode) else None

    def edited(self, place: Sequence[str], changed: Mapping[str, Any], removed: Collection[str] = ()) -> str:
        """Return the text with new values in the mapping at `place`; comments, order and layout of the rest stay.

        Args:
            place: the keys that lead to the mapping; no keys for the top level. A text without a value only
                has a top level.
            changed: the keys that get a value; new keys are added at the end.
            removed: the keys to remove.

        Raises:
            ValueError: there is no mapping at `place`, or another value would change, because of anchors, aliases, or
                comments within braces.
        """
        import yaml

        if self.is_empty:
            text = self.text + "\n" * (self.text != "" and not self.text.endswith("\n"))
            return text + yaml.safe_dump(dict(changed), sort_keys=False, default_flow_style=None, width=_WIDTH)
        node = self.mapping(place)
        if node is None:
            raise ValueError("there is no such mapping")
        wanted = section = _unshared(self.value)
        for name in place:
            section = section[name]
        section.update(changed)
        for name in removed:
            del section[name]
        edit = _edited_braces if node.flow_style else _edited_block
        text = edit(self.text, node, changed, removed)
        try:
            if parse_yaml(text) == wanted:
                return text
        except yaml.YAMLError:
            pass
        raise ValueError("it would change something else")


def _unshared(value: Any) -> Any:
    """A copy of the value in which each list and each mapping is an object of its own.

    YAML aliases share one object, and a change of one would change all.
    """
    if isinstance(value, dict):
        return {key: _unshared(item) for key, item in value.items()}
    return [_unshared(item) for item in value] if isinstance(value, list) else value


def _edited_braces(text: str, node: "MappingNode", changed: Mapping[str, Any], removed: Collection[str]) -> str:
    start, end, indent = node.start_mark.index, node.end_mark.index, node.start_mark.column
    if " #" in text[start:end]:
        return text  # it is unclear which entry a comment belongs to
    keys = [key for key, _ in node.value]
    starts = [key.start_mark.index for key in keys]
    opening = last = text.rindex("{", start, min(starts, default=end)) + 1  # after the brace; an anchor may precede it
    entries = []  # for each entry, the separator before it and its text
    # An entry ends before the next key: PyYAML gives an alias the position of its anchor.
    for key, first, following in zip(keys, starts, [*starts, end - 1][1:], strict=True):
        entry = text[first:following].rstrip().removesuffix(",").rstrip()
        gap, last = text[last:first], first + len(entry)
        if key.value in changed:
            entry = f"{text[first : key.end_mark.index]}: {_flow(changed[key.value], indent)}"
        if key.value not in removed:
            entries.append((gap, entry))
    names = {key.value for key in keys}
    entries += [(", ", f"{name}: {_flow(changed[name], indent)}") for name in changed if name not in names]
    lead = text[opening : min(starts, default=opening)]
    body = "".join(gap + entry for gap, entry in [(lead, entries[0][1]), *entries[1:]]) if entries else ""
    return text[:opening] + body + text[last:]


def _edited_block(text: str, node: "MappingNode", changed: Mapping[str, Any], removed: Collection[str]) -> str:
    entries = {key.value: (key, value) for key, value in node.value}
    indent = node.value[0][0].start_mark.column
    edits = [_replaced(text, *entries[name], _flow(changed[name], indent)) for name in changed if name in entries]
    for name in removed:
        key, value = entries[name]
        line_start = text.rfind("\n", 0, key.start_mark.index) + 1
        edits.append((line_start, _line_end(text, _end(text, value)) + 1, ""))
    added = [f"{' ' * indent}{name}: {_flow(changed[name], indent)}" for name in changed if name not in entries]
    # The position of an alias is that of its anchor, before the key.
    last = _line_end(text, max(max(key.end_mark.index, _end(text, value)) for key, value in node.value))
    edits.append((last, last, "".join(f"\n{line}" for line in added)))
    for first, after, new in sorted(edits, reverse=True):
        text = text[:first] + new + text[after:]
    return text


def _replaced(text: str, key: "Node", value: "Node", new: str) -> tuple[int, int, str]:
    """The replacement that gives a key the value `new`: start and end of the old text, and the new text.

    The new value is on the key's line. But if a comment is between the key and the old value, the new value takes the
    place of the old value, after the comment.
    """
    start, end = value.start_mark.index, _end(text, value)
    after_key = text.find(":", key.end_mark.index) + 1
    return (start, end, new) if "#" in text[after_key:start] else (after_key, max(end, after_key), f" {new}")


def _end(text: str, node: "Node") -> int:
    """The offset at which a node's text ends. PyYAML's own end of a block list or mapping is after later comments."""
    import yaml

    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return len(text[:end].rstrip())


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return end if end >= 0 else len(text)


def _flow(value: object, indent: int) -> str:
    """A value in flow style, in one or several lines, within a mapping whose keys begin in column `indent`."""
    import yaml

    # In a list, because YAML ends a document that is a single word with `...`.
    text = yaml.safe_dump([value], default_flow_style=True, sort_keys=False, allow_unicode=True, width=_WIDTH - indent)
    return text.strip()[1:-1].replace("\n", "\n" + " " * (indent + 2))
