"""Groups records that have equal keys, joins pairs of records into sets, and writes the records of groups."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.engine.publishing.output_files import OutputFile
from prepcli.jobs.records import Records
from prepcli.planning.hashing import mix64
from prepcli.planning.split import Indices

if TYPE_CHECKING:
    from prepcli.commands.find_duplicates.prints import Prints

_LINES_AT_ONCE = 1000


class Sets:
    """Disjoint sets of the numbers from 0 to `count` - 1 (union-find); at first, each number is alone."""

    def __init__(self, count: int) -> None:
        self._parent = np.arange(count)

    def _root(self, number: int) -> int:
        parent = self._parent
        while (above := int(parent[number])) != number:
            parent[number] = parent[above]
            number = above
        return number

    def are_one(self, first: int, other: int) -> bool:
        """Whether two numbers are in one set."""
        return self._root(first) == self._root(other)

    def join(self, first: int, other: int) -> None:
        """Join the sets of two numbers; the smallest number of a set is its root."""
        low, high = sorted((self._root(first), self._root(other)))
        self._parent[high] = low

    def labels(self) -> Indices:
        """For each number, the smallest number of its set."""
        labels = self._parent
        while (labels != labels[labels]).any():
            labels = labels[labels]
        return labels


def equal_keys(keys: NDArray[np.uint64]) -> tuple[Indices, Indices]:
    """Group the rows of `keys`, of shape (n, 2), that are equal and occur more than once; rows of zeros are left out.

    Returns:
        The numbers of these rows, group by group, and the number of the group of each, from 0. Groups come in the order
        of their first rows; rows ascend in a group.
    """
    there = np.flatnonzero(keys.any(axis=1))
    order = there[np.lexsort((there, keys[there, 1], keys[there, 0]))]
    ordered = keys[order]
    same = (ordered[1:] == ordered[:-1]).all(axis=1)
    begins = np.concatenate(([True], ~same)) if len(order) else np.empty(0, bool)
    group = np.cumsum(begins) - 1
    repeated = np.bincount(group)[group] > 1 if len(order) else begins
    order, group = order[repeated], group[repeated]
    first = order[np.concatenate(([True], group[1:] != group[:-1]))] if len(order) else order
    sizes = np.bincount(np.unique(group, return_inverse=True)[1]) if len(order) else np.empty(0, np.int64)
    by_first = np.lexsort((order, np.repeat(first, sizes)))
    order = order[by_first]
    return order, np.repeat(np.arange(len(sizes)), sizes[np.argsort(first)])


def with_several(records: Indices, group_of: Indices, value_of: Indices) -> tuple[Indices, Indices]:
    """Keep the groups whose records have at least two different values; the kept groups get new numbers.

    Args:
        records: the numbers of records, group by group.
        group_of: the group of each of `records`, ascending.
        value_of: for each record of all inputs, its value, such as the number of its input.

    Returns:
        The kept `records` and `group_of`.
    """
    if not len(records):
        return records, group_of
    count = int(group_of[-1]) + 1
    least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(least, group_of, value_of[records])
    np.maximum.at(most, group_of, value_of[records])
    kept = (most > least)[group_of]
    return records[kept], np.unique(group_of[kept], return_inverse=True)[1]


class Turns(NamedTuple):
    """The turns of conversations: those of entry n are `turns[starts[n] : ends[n]]`, and 0 of another record."""

    turns: Indices
    starts: Indices
    ends: Indices

    def of(self, entries: Indices) -> "Turns":
        """The turns of some entries."""
        return Turns(self.turns, self.starts[entries], self.ends[entries])


def by_records(numbers: Indices, group_of: Indices, turns: Indices) -> tuple[Indices, Indices, Turns]:
    """Join the groups that have the same records, such as those of several turns of one conversation.

    Args:
        numbers: the records, group by group; a record may be in a group several times.
        group_of: the group of each of `numbers`, from 0, ascending.
        turns: the turn of each of `numbers`.

    Returns:
        The records, each once in a group, group by group, in the order of their first groups; the new group and the
        turns of each.
    """
    order = np.lexsort((turns, numbers, group_of))
    numbers, group_of, turns = numbers[order], group_of[order], turns[order]
    is_new = np.concatenate(([True], (numbers[1:] != numbers[:-1]) | (group_of[1:] != group_of[:-1])))[: len(numbers)]
    hashes = mix64(numbers.astype(np.uint64) + np.uint64(1))  # that of 0 is 0
    records_of = np.zeros(int(group_of[-1]) + 1 if len(group_of) else 0, np.uint64)
    with np.errstate(over="ignore"):
        np.add.at(records_of, group_of[is_new], hashes[is_new])
    _, first, same = np.unique(records_of, return_index=True, return_inverse=True)
    joined = np.unique(first[same], return_inverse=True)[1][group_of]
    order = np.lexsort((turns, numbers, joined))
    numbers, joined, turns = numbers[order], joined[order], turns[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1) | np.diff(joined, prepend=-1))
    return numbers[starts], joined[starts], Turns(turns, starts, np.append(starts, len(turns))[1:])


class GroupWriter:
    """Writes groups of records to the output, and counts them.

    Records are numbered through: first those of prints, file by file, then those of the inputs.

    Attributes:
        rows: the counts of each kind of duplicates, for the report.
        input_of: the number of the input of each record; each file of prints counts as an input.
        durations: the seconds of each record.
        num_prints: the number of records of prints.
    """

    def __init__(
        self,
        file: OutputFile | None,
        records: Records,
        input_of_manifest: Sequence[int],
        against: "Sequence[Prints]" = (),
    ) -> None:
        """`file`: the output; None to count only. `against`: the prints with which the inputs are compared."""
        self._file, self._records, self._against = file, records, against
        self._count = 0
        self.rows: list[dict[str, Any]] = []
        source_of = np.searchsorted(records.index.first, np.arange(len(records)), side="right") - 1
        input_of: Indices = np.array(input_of_manifest, np.int64)[source_of]
        sizes = [len(prints.durations) for prints in against]
        self.input_of: Indices = np.concatenate([np.arange(len(sizes)).repeat(sizes), len(sizes) + input_of])
        self.durations: NDArray[np.float64] = np.concatenate(
            [*(prints.durations for prints in against), records.index.duration]
        )
        self._first = np.cumsum([0, *sizes])
        self.num_prints = int(self._first[-1])

    def write(self, kind: str, numbers: Indices, group_of: Indices, turns: Turns | None = None, **more: object) -> None:
        """Write the records of the groups of a kind, and add their counts to `rows`.

        Args:
            kind: the kind of duplicates.
            numbers: the records, group by group.
            group_of: the group of each of `numbers`, from 0, ascending.
            turns: the turns of each of `numbers`, if there are conversations.
            more: further values for the row of this kind in `rows`.
        """
        place = np.arange(len(group_of)) - np.searchsorted(group_of, group_of)  # in the group, from 0
        lines = self._lines(kind, numbers, group_of + self._count, place, turns)
        while self._file is not None and (block := b"".join(islice(lines, _LINES_AT_ONCE))):
            self._file.write(block)
        groups = int(group_of[-1]) + 1 if len(group_of) else 0
        beyond = float(self.durations[np.unique(numbers[place > 0])].sum()) / 3600
        count = len(np.unique(numbers))  # a conversation may be in several groups
        summary = {"by": kind, "groups": groups, "records": count, "hours_beyond_first": round(beyond, 4)}
        self.rows.append(summary | more)
        self._count += groups

    def _lines(
        self, kind: str, numbers: Indices, group_of: Indices, place: Indices, turns: Turns | None
    ) -> Iterator[bytes]:
        """Yield the output line of each record: the record with absolute paths, its group, its manifest and its line.

        The line of a record of prints has their path, its number in them, its duration and its group. `place`: the
        place of each record in its group, from 0.
        """
        records = self._records
        entries = zip(numbers.tolist(), group_of.tolist(), place.tolist(), strict=True)
        for entry, (number, group, at) in enumerate(entries):
            of_group: dict[str, Any] = {"duplicate_by": kind, "duplicate_group": group, "duplicate_place": at}
            if turns is not None and turns.turns[turns.starts[entry]]:
                of_group["duplicate_turns"] = turns.turns[turns.starts[entry] : turns.ends[entry]].tolist()
            if number < self.num_prints:
                yield msgspec.json.encode(self._of_prints(number) | of_group) + b"\n"
                continue
            of_input = number - self.num_prints
            record = records.record(of_input)
            changes, origin = records.absolute_paths(of_input, record), records.origin(of_input)
            changes |= of_group
            changes |= {"manifest_filepath": origin.manifest, "manifest_line": origin.line}
            yield record.to_json(changes) + b"\n"

    def _of_prints(self, number: int) -> dict[str, Any]:
        file = int(np.searchsorted(self._first, number, side="right")) - 1
        path, place = os.path.abspath(self._against[file].path), number - int(self._first[file]) + 1
        return {"prints_filepath": path, "prints_record": place, "duration": self.durations.item(number)}
