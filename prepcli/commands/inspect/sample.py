"""An evenly spread sample of a stream of unknown length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass
class EvenSample(Generic[Item]):
    """Keeps about every `stride`-th item of a stream, and at most `2 * wanted` items.

    Beyond this maximum, every second item is dropped, and `stride` doubles. The result depends only on the items and on
    how the stream was divided into parts.
    """

    wanted: int
    items: list[Item] = field(default_factory=list)
    stride: int = 1
    num_seen: int = 0

    def add(self, items: Sequence[Item]) -> None:
        """Add the next items of the stream."""
        self.add_lazily(len(items), items.__getitem__)

    def add_lazily(self, count: int, item: Callable[[int], Item]) -> None:
        """Add the next `count` items of the stream; `item` returns one of them by its number, from 0."""
        self.items += map(item, range(-self.num_seen % self.stride, count, self.stride))
        self.num_seen += count
        self._thin(self.stride)

    def merge(self, other: "EvenSample[Item]") -> None:
        """Add the sample `other`, which was taken from the next part of the stream."""
        self._thin(other.stride)
        other._thin(self.stride)
        self.items += other.items
        self.num_seen += other.num_seen
        self._thin(self.stride)

    def chosen(self) -> list[Item]:
        """Return `wanted` items (all if there are fewer), evenly spread, in order."""
        return spread(self.items, self.wanted)

    def _thin(self, stride: int) -> None:
        while self.stride < stride or len(self.items) > 2 * self.wanted:
            self.items = self.items[::2]
            self.stride *= 2
            if not self.wanted:
                self.items = []


def spread(items: Sequence[Item], wanted: int) -> list[Item]:
    """Divide the items into `wanted` equal pieces, and return the middle item of each; all items if there are fewer."""
    if len(items) <= wanted:
        return list(items)
    return [items[(2 * i + 1) * len(items) // (2 * wanted)] for i in range(wanted)]
