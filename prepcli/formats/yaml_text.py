"""Reads YAML that others have written, with one class of error for all problems."""

from typing import TYPE_CHECKING, Any

from prepcli.errors import naming
from prepcli.storage.paths import AnyPath

if TYPE_CHECKING:
    from yaml import Node, SafeLoader

MAX_BYTES = 32 << 20
"""Maximum bytes of a text. libyaml takes 40 s for a text of this length, and fifty times as much memory."""
MAX_REPEATED = 100_000
"""Maximum number of values that aliases (`*name`) repeat: without it, a few short lines could stand for billions."""


def read_yaml(path: AnyPath) -> Any:
    """The value of a YAML file; raises as `parse_yaml` and `read_yaml_text` do."""
    return parse_yaml(read_yaml_text(path))


def read_yaml_text(path: AnyPath) -> str:
    """The text of a YAML file, with its line ends.

    Raises:
        yaml.YAMLError: the file is too long, or not UTF-8.
        OSError: the file cannot be read.
    """
    import yaml

    with naming(path), path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    _check_length(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise yaml.YAMLError(str(error)) from None


def parse_yaml(text: str | bytes) -> Any:
    """The value of a YAML text.

    Raises:
        yaml.YAMLError: the text is not YAML, or too long; an alias refers to a list or mapping that contains the alias;
            aliases repeat too many values; or PyYAML raises another error, such as for deep nesting or a 13th month.
    """
    import yaml

    _check_length(text)
    try:
        try:  # libyaml is 6 times as fast
            return _value(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except (yaml.YAMLError, RecursionError, ValueError):  # the messages of PyYAML's own parser show the text
            return _value(text, yaml.SafeLoader)
    except RecursionError:
        raise yaml.YAMLError("lists or mappings are nested too deeply") from None
    except ValueError as error:  # month 13, or bytes that are not UTF-8
        raise yaml.YAMLError(str(error)) from None


def _value(text: str | bytes, kind: "type[SafeLoader]") -> Any:
    import yaml

    loader = kind(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        # Without aliases, a text has at most two nodes per character.
        if _expanded_size(node, {}, set()) > MAX_REPEATED + 2 * len(text):
            raise yaml.YAMLError(f"aliases (*name) in it repeat more than {MAX_REPEATED:,} values")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_length(text: str | bytes) -> None:
    import yaml

    if len(text) > MAX_BYTES:
        raise yaml.YAMLError(f"it is longer than {MAX_BYTES >> 20} MiB")


def _expanded_size(node: "Node", sizes: dict[int, int], around: set[int]) -> int:
    """The number of nodes in a node, itself included, if each alias is replaced by a copy of its value.

    A long text counts as one more node per 64 characters.

    Args:
        node: a scalar, list or mapping; an alias is the same object as the node that it names.
        sizes: receives the number for `node` and for each node in it, by their `id`.
        around: the `id` of the nodes that contain this one.

    Raises:
        yaml.YAMLError: the node contains itself.
    """
    import yaml

    known = sizes.get(id(node))
    if known is not None:
        return known
    if id(node) in around:
        raise yaml.YAMLError("an alias (*name) stands within the value that it refers to, which has no end")
    around.add(id(node))
    children: list[Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    # A long text that is repeated takes memory as well if it is printed.
    own = 1 + len(node.value) // 64 if isinstance(node, yaml.ScalarNode) else 1
    sizes[id(node)] = own + sum(_expanded_size(child, sizes, around) for child in children)
    around.discard(id(node))
    return sizes[id(node)]
