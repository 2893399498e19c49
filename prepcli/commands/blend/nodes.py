"""A tree of data sets and groups, and the weight of each one in its group."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from prepcli.errors import UsageError, option


@dataclass
class Node:
    """A data set, or a group of them.

    Attributes:
        name: its name within its group.
        entry: its keys and values in the `input_cfg`; `entries_of` sets the weight, the tags and the members.
        seconds: seconds of audio; for a group, the sum.
        records: number of records.
        given: the weight from the command line or from a config; None if no weight is given.
        by_user: whether the weight is from the command line.
        is_tarred: whether NeMo reads the set as a stream; None for a group, and for a set for WeNet.
        tags: fields that the command line sets in all its records.
        children: members of a group.
        notes: notes on its data for the user.
        weight: its weight in its group; the weights of a group add up to 1.
    """

    name: str
    entry: dict[str, Any]
    seconds: float = 0.0
    records: int = 0
    given: float | None = None
    by_user: bool = False
    is_tarred: bool | None = None
    tags: dict[str, Any] = field(default_factory=dict)
    children: list["Node"] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    weight: float = 1.0

    def total(self) -> None:
        """Set the seconds and records of this group, and of the groups in it, to the sums over their members."""
        for child in self.children:
            child.total()
        if self.children:
            self.seconds = sum(child.seconds for child in self.children)
            self.records = sum(child.records for child in self.children)

    def depth(self) -> int:
        """The number of levels of groups, this one included; 0 for a data set."""
        return 1 + max(child.depth() for child in self.children) if self.children else 0

    def below(self, path: str = "", share: float = 1.0) -> Iterator[tuple[str, "Node", float]]:
        """Yield the groups and data sets below this node: whole name, node, share. Groups precede their members.

        The share is the product of the weights of the levels. NeMo, which draws a group first and then a member, draws
        this share of its records from the node.
        """
        for child in self.children:
            name, of_all = joined(path, child.name), share * child.weight
            yield name, child, of_all
            yield from child.below(name, of_all)

    def leaves(self) -> Iterator[tuple[str, "Node", float]]:
        """Yield the data sets below this node, without the groups: whole name, node, share (see `below`)."""
        return (named for named in self.below() if not named[1].children)


def joined(path: str, name: str) -> str:
    """The whole name of a member of the group `path`; "" is the root."""
    return f"{path}/{name}" if path else name


def set_weights(
    group: Node, temperatures: Sequence[float], by: str, path: str = "", owned: bool = True
) -> Iterator[str]:
    """Set the weights of the members of a group, and of the groups in it; yields notes on unexpected results.

    The same note may be yielded several times.

    Args:
        group: the group.
        temperatures: the exponents: the first for the members of `group`, the next for the level below, and so on; the
            last one is also for all further levels.
        by: the size by which members are weighed if none has a given weight: hours or records.
        path: the whole name of the group.
        owned: whether the group has a given weight, or is the root.

    Raises:
        UsageError: only some of the members have a given weight, or a weight is not a finite number above 0, is too
            small, or has no effect.
    """
    temperature, below = temperatures[0], temperatures[1:] or temperatures
    where = f" in {path}" if path else ""
    members = group.children
    given = [child.given for child in members]
    are_given = any(weight is not None for weight in given)
    if are_given and None in given:
        missing = joined(path, members[given.index(None)].name)
        raise UsageError(
            f"'{missing}' has no weight, but others{where} have one; give it one ({missing}=:WEIGHT), or leave out all"
        )
    if len(members) == 1 and members[0].by_user and not owned:
        name = joined(path, members[0].name)
        raise UsageError(
            f"the weight of {name} has no effect, because it is alone in {path}; give the weight to the group: "
            f"{path}=:{members[0].given:g}"
        )
    if are_given:
        sizes = [_usable_weight(child, where) for child in members]
        if temperature != 1 and len(members) > 1:
            yield f"{option('--temperature')} does not change the weights that are given"
        temperature = 1.0
    else:
        sizes = [child.seconds if by == "hours" else child.records for child in members]
        inner = [
            joined(path, child.name) for child in members if any(grandchild.by_user for grandchild in child.children)
        ]
        if inner and len(members) > 1:
            yield (
                f"{', '.join(joined(path, child.name) for child in members)}: weighed by {by}, because no weights are "
                f"given for them, only in {', '.join(inner)}; {inner[0]}=:WEIGHT gives a group one"
            )
    weights = [(size / max(sizes)) ** temperature for size in sizes]  # powers of the sizes themselves may overflow
    if 0 in weights:
        least = members[weights.index(0)].name
        raise UsageError(
            f"the weight of {least}{where} is too small beside the others; lower the {option('--temperature')}"
        )
    for child, weight in zip(members, weights, strict=True):
        child.weight = weight / sum(weights)
        if child.children:
            yield from set_weights(child, below, by, joined(path, child.name), child.given is not None)


def notes_on_repeats(root: Node) -> list[str]:
    """A note for each set that is there under several names."""
    names: dict[str, list[str]] = {}
    for name, leaf, _ in root.leaves():
        data = {key: value for key, value in leaf.entry.items() if key not in ("weight", "tags")}
        names.setdefault(repr(_without_links(data)), []).append(name)
    repeated = (some for some in names.values() if len(some) > 1)
    return [
        f"{' and '.join(some)} are the same set, whose records are seen for each of these names" for some in repeated
    ]


def _without_links(value: Any) -> Any:
    """A value of an entry with real paths; a Lhotse Shar has a mapping of its fields, and several files are a list."""
    if isinstance(value, dict):
        return sorted((key, _without_links(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return list(map(_without_links, value))
    return os.path.realpath(value) if isinstance(value, str) else value


def _usable_weight(child: Node, where: str) -> float:
    """The given weight of a member; raises `UsageError` if it is not a finite number above 0."""
    weight: Any = child.given
    if not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise UsageError(f"the weight of {child.name}{where} must be a number above 0, not {weight!r}")
    return float(weight)


def entries_of(group: Node) -> list[dict[str, Any]]:
    """The entries of an `input_cfg` for the members of a group, with their weights and tags."""
    entries = []
    for child in group.children:
        entry = {key: value for key, value in child.entry.items() if key not in ("weight", "tags", "input_cfg")}
        entry["weight"] = float(f"{child.weight:.6g}")
        tags = {**(child.entry.get("tags") or {}), **child.tags}
        if tags:
            entry["tags"] = tags
        if child.children:
            entry["input_cfg"] = entries_of(child)
        entries.append(entry)
    return entries
