"""A job that makes a line from each item of its input: the rejects, and the loop over the items of a unit."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
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
        lines: list[bytes] = []

        def write(item: object) -> float:
            line, seconds = opened.make(item)
            lines.append(line)
            return seconds

        writer.write_each(opened.items, write, opened.original, advance)
        part = writer.open_part(LINES_NAME.format(unit.id))
        if lines:
            part.write(b"\n".join(lines) + b"\n")
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
