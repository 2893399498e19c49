"""`prepcli inspect`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prepcli.cli.options import AudioBaseDir, Json, NumWorkers, available_processors

if TYPE_CHECKING:
    from prepcli.inspection.report import Inspection

_NUM_FIRST = 3
_NUM_SPEAKERS = 8


def inspect(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A manifest (or several, in any form of INPUT), a tarred set, a Shar or codes directory, cuts, tars, "
            "OUT.prepcli, rejects.jsonl, an audio file.",
        ),
    ],
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with plots, to open in a browser.")
    ] = None,
    audio_base_dir: AudioBaseDir = None,
    num_audio_files: Annotated[
        int, typer.Option("--num-audio-files", min=0, help="So many audio files are opened, evenly spread.")
    ] = 100,
    as_json: Json = False,
    num_workers: NumWorkers = None,
) -> None:
    """Say what a file or directory is, and what is in it: records, hours, rates, codecs, speakers, lengths.

    Reads every line once and the headers of a sample of the audio; decodes nothing and changes nothing.

    Example: prepcli inspect train.json --html train.html
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is first imported: nothing here multiplies
    from prepcli.inspection.inspect import InspectOptions
    from prepcli.inspection.inspect import inspect as look

    if html is not None:
        from prepcli.inspection.page import check_page

        check_page(html)
    found = look(path, InspectOptions(audio_base_dir, num_audio_files, num_workers or available_processors()))
    if html is not None:
        from prepcli.inspection.page import write_page

        write_page(found, html)
    if as_json:
        from prepcli.cli.output import print_json

        print_json(found.document())
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
