"""A tree of data sets and groups, and the weight of each one in its group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from prepcli.errors import UsageError


@dataclass
class Node:
    """A data set, or a group of them.

    Attributes:
        name: within its group.
        entry: what stands in the `input_cfg` beside weight, tags and the entries of a group.
        seconds: of audio; of a group the sum.
        records: number of records.
        given: the weight that the user gives, or the value of a config.
        is_tarred: NeMo reads it as a stream; None for a group.
        tags: fields for all its records.
        children: of a group.
        weight: in its group; all of a group add up to 1.
    """

    name: str
    entry: dict[str, Any]
    seconds: float = 0.0
    records: int = 0
    given: float | None = None
    is_tarred: bool | None = None
    tags: dict[str, Any] = field(default_factory=dict)
    children: list["Node"] = field(default_factory=list)
    weight: float = 1.0

    def total(self) -> None:
        """Add up the groups below."""
        for child in self.children:
            child.total()
        if self.children:
            self.seconds = sum(child.seconds for child in self.children)
            self.records = sum(child.records for child in self.children)

    def depth(self) -> int:
        """Levels of groups: 0 for a data set."""
        return 1 + max(child.depth() for child in self.children) if self.children else 0

    def leaves(self, path: str = "", share: float = 1.0) -> Iterator[tuple[str, "Node", float]]:
        """The data sets below, with their whole name and their share of all draws."""
        for child in self.children:
            name = f"{path}/{child.name}" if path else child.name
            if child.children:
                yield from child.leaves(name, share * child.weight)
            else:
                yield name, child, share * child.weight


def set_weights(group: Node, temperatures: Sequence[float], by: str, path: str = "") -> None:
    """Weigh the members of a group, and of the groups in it.

    `temperatures` begins with the one of this level; the last one holds for all levels below.

    Raises:
        UsageError: only some of the members have a weight, or one is not a number above 0.
    """
    temperature, below = temperatures[0], temperatures[1:] or temperatures
    where = f" in {path}" if path else ""
    given = [child.given for child in group.children]
    if any(weight is not None for weight in given):
        if None in given:
            missing = group.children[given.index(None)].name
            raise UsageError(
                f"{missing} has no weight, but others{where} have one; give all of them one (NAME=SET:WEIGHT), or none"
            )
        sizes = [_usable_weight(child, where) for child in group.children]
        temperature = 1.0
    else:
        sizes = [child.seconds if by == "hours" else child.records for child in group.children]
    weights = [(size / max(sizes)) ** temperature for size in sizes]  # a power of the sizes themselves may overflow
    if 0 in weights:
        least = group.children[weights.index(0)].name
        raise UsageError(f"the weight of {least}{where} is too small beside the others; lower the --temperature")
    for child, weight in zip(group.children, weights, strict=True):
        child.weight = weight / sum(weights)
        if child.children:
            set_weights(child, below, by, f"{path}/{child.name}" if path else child.name)


def _usable_weight(child: Node, where: str) -> float:
    """The weight that was given, which may be any value of a config."""
    weight: Any = child.given
    if not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise UsageError(f"the weight of {child.name}{where} must be a number above 0, not {weight!r}")
    return float(weight)


def entries_of(group: Node) -> list[dict[str, Any]]:
    """The `input_cfg` of a group."""
    found = []
    for child in group.children:
        entry = {key: value for key, value in child.entry.items() if key not in ("weight", "tags", "input_cfg")}
        entry["weight"] = float(f"{child.weight:.6g}")
        tags = {**(child.entry.get("tags") or {}), **child.tags}
        if tags:
            entry["tags"] = tags
        if child.children:
            entry["input_cfg"] = entries_of(child)
        found.append(entry)
    return found
