"""Jobs that make a line from each item of their input: the rejects, and the loop over the items of a unit."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from prepcli.engine.publishing.publish import Item, UnitWriter
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.run.job import UnitJob
from prepcli.engine.run.unit import Advance
from prepcli.engine.state.plan import Contents, Plan, UnitT
from prepcli.manifest.line_slices import LineSlice, LineSlices

LINES_NAME = "parts/{}.jsonl"
"""The path of the file with the lines of one unit (its part). `{}` is the unit's id. The job's `finish` joins them."""


def write_lines(
    writer: UnitWriter,
    items: Iterable[Item],
    make: Callable[[Item], tuple[bytes, float]],
    original: Callable[[Item], tuple[bytes, Origin]],
) -> None:
    """Write to `LINES_NAME` a line from each item of a unit, and count the item; or reject it.

    Args:
        writer: writes the unit.
        items: the items of the unit, in order.
        make: returns the line of an item, without line end, and its seconds of audio. Raises `RecordRejected` if the
            item cannot be used.
        original: returns the input line of a rejected item, and its origin.
    """
    lines: list[bytes] = []

    def write(item: Item) -> float:
        line, seconds = make(item)
        lines.append(line)
        return seconds

    writer.write_each(items, write, original, writer.advance)
    part = writer.open_part(LINES_NAME.format(writer.unit.id))
    if lines:
        part.write(b"\n".join(lines) + b"\n")


def write_from_lines(
    slices: LineSlices, unit: LineSlice, writer: UnitWriter, make: Callable[[bytes], tuple[bytes, float]]
) -> None:
    """Write a line from each line of a unit of `slices`, as `write_lines` does."""
    source = slices.inputs[unit.source].path
    write_lines(writer, slices.lines(unit), lambda item: make(item[1]), lambda item: (item[1], Origin(source, item[0])))


class LineWriter(ABC, Generic[Item]):
    """Makes the lines of one unit.

    Attributes:
        items: the items from which the lines are made, in order.
    """

    items: Iterable[Item]

    @abstractmethod
    def make(self, item: Item) -> tuple[bytes, float]:
        """Return the line to write, without line end, and its seconds of audio.

        Raises:
            RecordRejected: the item cannot be used.
        """

    @abstractmethod
    def original(self, item: Item) -> tuple[bytes, Origin]:
        """Return the input line of a rejected item, and its origin."""

    def close(self) -> None:
        """Called after the last item, to write further files or counts of the unit; by default it does nothing."""


class LineJob(UnitJob[UnitT, Contents]):
    """A job that makes a line from each item of a unit, in worker processes."""

    @abstractmethod
    def open_unit(self, plan: Plan[UnitT, Contents], unit: UnitT, writer: UnitWriter) -> LineWriter[Any]:
        """Return the object that makes the lines of a unit."""

    def process(self, plan: Plan[UnitT, Contents], unit: UnitT, writer: UnitWriter, advance: Advance) -> None:
        """Write the lines of a unit to `LINES_NAME`."""
        opened = self.open_unit(plan, unit, writer)
        writer.advance = advance
        write_lines(writer, opened.items, opened.make, opened.original)
        opened.close()


@dataclass(frozen=True, slots=True)
class LineContents:
    """The plan of a job over lines of files; a job adds its own data in a subclass."""

    slices: LineSlices


LinesT = TypeVar("LinesT", bound=LineContents)


class SliceWriter(LineWriter[tuple[int, bytes]]):
    """Makes a line from each line of a slice of a file."""

    def __init__(self, plan: Plan[LineSlice, LinesT], unit: LineSlice) -> None:
        self.items = plan.contents.slices.lines(unit)
        self._source = plan.inputs[unit.source].path

    def original(self, item: tuple[int, bytes]) -> tuple[bytes, Origin]:
        """The line itself, and its origin."""
        return item[1], Origin(self._source, item[0])
