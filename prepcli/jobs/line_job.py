"""Makes a line from each item of a unit: the rejects, and the loop over the items."""

from collections.abc import Callable, Iterable

from prepcli.engine.publishing.publish import Item, UnitWriter
from prepcli.engine.publishing.rejects import Origin
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
