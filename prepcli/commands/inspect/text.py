"""The text of the result of `inspect`."""

from typing import TYPE_CHECKING, Any

import msgspec

from prepcli.commands.inspect.sections import quantiles_of, sections_of

if TYPE_CHECKING:
    from prepcli.commands.inspect.report import FoundRecord, Inspection

_NUM_FIRST = 3
_NUM_SPEAKERS = 8


def lines_of(found: "Inspection") -> list[str]:
    """The facts about a file or a set, or about one of its records."""
    if found.record is not None:
        return _lines_of_record(found.record)
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


def _lines_of_record(found: "FoundRecord") -> list[str]:
    """The record for people."""
    lines = [f"record {found.number:,}: {found.file}:{found.line}"]
    lines += [f"  {name:<22}{_shown(value)}" for name, value in found.fields.items()]
    for audio in found.audio:
        lines.append(f"audio  {audio.where}")
        lines.append(f"  {audio.name}  {audio.problem or audio.description}")
    return lines


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else text[:197] + "..."
