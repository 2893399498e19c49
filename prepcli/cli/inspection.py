"""The output of `prepcli inspect`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prepcli.inspection.options import Inspect
    from prepcli.inspection.report import Inspection

_NUM_FIRST = 3
_NUM_SPEAKERS = 8


def show_inspection(options: "Inspect", found: "Inspection") -> None:
    """Print the result as a table or as JSON."""
    if options.as_json:
        from prepcli.cli.output import print_json

        print_json(found.document() if found.record is None else found.record)
    elif found.record is not None:
        from prepcli.cli.output import print_lines
        from prepcli.inspection.record import lines_of

        print_lines(lines_of(found.record))
    else:
        from prepcli.cli.output import print_lines

        print_lines(_lines(found))


def _lines(found: "Inspection") -> list[str]:
    from prepcli.inspection.sections import quantiles_of, sections_of

    lines = [f"{found.path}: {found.title}"]
    for title, rows in sections_of(found):
        if title == "Speakers by hours" and len(rows) > _NUM_SPEAKERS:
            rows = [*rows[:_NUM_SPEAKERS], ("...", f"{found.speakers - _NUM_SPEAKERS:,} more")]
        width = max(len(name) for name, _ in rows)
        lines += [title, *(f"  {name:<{width}}  {text}".rstrip() for name, text in rows)]
        if title == "Contents":
            lines += _quantiles(quantiles_of(found))
    if found.first_records:
        lines += ["First records", *(f"  {_record(record)}" for record in found.first_records[:_NUM_FIRST])]
    return lines


def _quantiles(table: list[list[str]]) -> list[str]:
    names = ["Quantiles", *(f"  {row[0]}" for row in table[1:])]
    values = ["".join(f"{value:>9}" for value in row[1:]) for row in table]
    return [f"{name:<22}{numbers}" for name, numbers in zip(names, values, strict=False)]


def _record(record: dict[str, Any]) -> str:
    name = record.get("audio_filepath") or record.get("id") or ""
    text = " ".join(str(record.get("reject_detail") or record.get("text") or "").split())
    shown = f"{record.get('duration', '')} s  {name}  {text}"
    return shown if len(shown) <= 120 else shown[:117] + "..."
