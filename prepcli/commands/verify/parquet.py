"""Checks that every row of a Parquet file has an id and decodable audio as long as its duration says."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prepcli.audio.check import check_decoded
from prepcli.audio.limits import SAME_SECONDS
from prepcli.audio.probe import probe_bytes
from prepcli.commands.verify.export_parts import ExportReport, Hashed
from prepcli.errors import RecordRejected
from prepcli.formats.parquet import check_installed, file_name, python_values, seconds_in
from prepcli.formats.sets import ParquetSet
from prepcli.interface.printing import first_line
from prepcli.processes.in_hand import take_in_hand

_LOSSLESS = ("wav", "flac")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file to check, and the SHA-256 under which it was published, if it is known."""

    number: int
    path: Path
    sha256: str | None


def find_files(one: ParquetSet, sha256: Hashed) -> tuple[list[CheckedFile], list[str]]:
    """The files to check; they must be numbered from 0."""
    check_installed()
    found = one.shards
    missing = [file_name(number) for number in range(max(found, default=-1) + 1) if number not in found]
    problems = [f"{', '.join(missing)}: missing; files must be numbered from 0"] if missing else []
    return [CheckedFile(number, path, sha256(path.name)) for number, path in found.items()], problems


def check_file(file: CheckedFile) -> ExportReport:
    """Read a whole file and decode its audio."""
    import pyarrow

    report = ExportReport(file.number)
    name = file.path.name
    try:
        if file.sha256 not in (None, _digest(file.path)):
            report.problems.append(f"{name}: not the bytes that were published (SHA-256 differs)")
        ids = []
        for number, row in enumerate(_rows(file.path)):
            report.num_lines += 1
            _check_row(f"{name}: row {number}", row, report)
            ids.append(str(row.get("id")))
        report.add_ids(ids)
    except (pyarrow.ArrowException, OSError) as error:
        report.problems.append(f"{name}: cannot be read: {first_line(error)}")
    return report


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        columns = [name for name in ("id", "audio", "duration") if name in file.schema_arrow.names]
        for group in range(file.num_row_groups):
            yield from python_values(file.read_row_group(group, columns))


def _check_row(where: str, row: dict[str, Any], report: ExportReport) -> None:
    audio = row.get("audio")
    data = audio.get("bytes") if isinstance(audio, dict) else None
    name = "" if row.get("id") is None else str(row["id"])  # other programs write numbers
    if not isinstance(data, bytes) or not name:
        report.problems.append(f"{where} has no id, or no audio with bytes")
        return
    report.num_members += 1
    try:
        take_in_hand(name)
        info = probe_bytes(data, name)
        check_decoded(data, info, name)
    except RecordRejected as rejected:
        report.problems.append(f"{where}: {rejected.detail}")
        return
    report.seconds += info.duration
    try:
        duration = info.duration if row.get("duration") is None else seconds_in(row["duration"])
    except ValueError as error:
        report.problems.append(f"{where}: {error}")
        return
    if info.format in _LOSSLESS and abs(duration - info.duration) > SAME_SECONDS:
        report.problems.append(f"{where}: duration is {duration:.3f} s, but its audio has {info.duration:.3f} s")
