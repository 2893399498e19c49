"""A job over the lines of files without an index: rejects, and the loop over the lines of a unit."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, TypeVar

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.run.job import Advance
from prepcli.engine.run.workers import UnitJob
from prepcli.engine.state.plan import Plan
from prepcli.errors import RecordRejected
from prepcli.manifest.line_slices import LineSlice, LineSlices


@dataclass(frozen=True, slots=True)
class LineContents:
    """What a job over lines has planned; a job adds its own in a subclass."""

    slices: LineSlices


LinesT = TypeVar("LinesT", bound=LineContents)
LINES_NAME = "parts/{}.jsonl"
"""The lines of a unit, for `finish`."""


class LineWriter(Protocol):
    """Makes the lines of one unit."""

    def make(self, line: bytes) -> tuple[bytes, float]:
        """Return the line to write, without line end, and its seconds of audio.

        Raises:
            RecordRejected: the line cannot be used.
        """

    def close(self) -> None:
        """Write what else the unit leaves."""


class LineJob(UnitJob[LineSlice, LinesT]):
    """A job that makes a line of each line, in worker processes. A unit is a slice of a file's lines."""

    @abstractmethod
    def open_unit(self, contents: LinesT, unit: LineSlice, writer: UnitWriter) -> LineWriter:
        """Return what makes the lines of a unit."""

    def process(self, plan: Plan[LineSlice, LinesT], unit: LineSlice, writer: UnitWriter, advance: Advance) -> None:
        """Write the lines of a slice to `LINES_NAME`."""
        source = plan.inputs[unit.source].path
        opened = self.open_unit(plan.contents, unit, writer)
        lines: list[bytes] = []
        total = 0.0
        for number, line in plan.contents.slices.lines(unit):
            seconds = 0.0
            try:
                made, seconds = opened.make(line)
            except RecordRejected as rejected:
                writer.reject(line, rejected, Origin(source, number))
            else:
                lines.append(made)
                total += seconds
            advance(1, seconds)
        part = writer.open_part(LINES_NAME.format(unit.id))
        if lines:
            part.write(b"\n".join(lines) + b"\n")
        opened.close()
        writer.count(len(lines), total)
