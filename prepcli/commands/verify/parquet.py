"""Checks Parquet files with audio."""

from collections.abc import Callable
from typing import Any

from prepcli.audio.encode import LOSSLESS
from prepcli.audio.limits import SAME_SECONDS
from prepcli.commands.verify.shards import CheckedFile, ShardReport, Verification, check_audio
from prepcli.engine.publishing.hashes import hash_of
from prepcli.errors import RecordRejected
from prepcli.formats.omnilingual import OmnilingualSet
from prepcli.formats.parquet import ParquetSet, check_installed, file_name, python_values, seconds_in
from prepcli.gate import FIELD_TYPES, checked_fields
from prepcli.interface.printing import first_line
from prepcli.storage.paths import AnyPath, relative
from prepcli.storage.ranges import openable


def find(export: ParquetSet | OmnilingualSet, of: Verification) -> tuple[list[CheckedFile], list[str]]:
    """The Parquet files to check, and a problem if their numbers, which begin at 0, have gaps."""
    check_installed()
    files = export.shards
    missing = [file_name(number) for number in range(max(files, default=-1) + 1) if number not in files]
    problems = [f"{', '.join(missing)}: missing; files must be numbered from 0"] if missing else []
    return [of.file(relative(path, of.out)) for path in files.values()], problems


def check(file: CheckedFile) -> ShardReport:
    """Check that each row of a file has an id, fields as the gate takes them, and audio of the stated duration."""
    return check_file(file, _check_rows)


def check_file(file: CheckedFile, check_rows: Callable[[Any, AnyPath, ShardReport], None]) -> ShardReport:
    """Compare a Parquet file with its published hash, and check its rows; a file that cannot be read is a problem.

    `check_rows`: checks the rows of the opened file, and adds to the report.
    """
    import pyarrow
    import pyarrow.parquet as pq

    report, name = ShardReport(), file.path.name
    try:
        if file.published is not None:
            report.compare(name, hash_of(file.path, file.published))
        with pq.ParquetFile(openable(file.path)) as opened:
            check_rows(opened, file.path, report)
    except (pyarrow.ArrowException, OSError) as error:
        report.problems.append(f"{name}: cannot be read: {first_line(error)}")
    return report


def _check_rows(opened: Any, path: AnyPath, report: ShardReport) -> None:
    ids = []
    wanted = {"audio", "duration", *FIELD_TYPES}
    columns = [name for name in opened.schema_arrow.names if name in wanted]
    for group in range(opened.num_row_groups):
        for row in python_values(opened.read_row_group(group, columns)):
            _check_row(f"{path.name}: row {report.num_lines}", row, path, report)
            report.num_lines += 1
            ids.append(str(row.get("id")))
    report.count_ids(ids)


def _check_row(where: str, row: dict[str, Any], path: AnyPath, report: ShardReport) -> None:
    audio = row.get("audio")
    data = audio.get("bytes") if isinstance(audio, dict) else None
    name = "" if row.get("id") is None else str(row["id"])  # other programs write ids as numbers
    if not isinstance(data, bytes) or not name:
        report.problems.append(f"{where} has no id, or no audio with bytes")
        return
    report.num_members += 1
    info = check_audio(data, name, path, where, report)
    if info is None:
        return
    report.seconds += info.duration
    try:
        checked_fields(row)
        duration = info.duration if row.get("duration") is None else seconds_in(row["duration"])
    except (RecordRejected, ValueError) as error:
        report.problems.append(f"{where}: {error.detail if isinstance(error, RecordRejected) else error}")
        return
    if info.format in LOSSLESS and abs(duration - info.duration) > SAME_SECONDS:
        report.problems.append(f"{where}: duration is {duration:.3f} s, but its audio has {info.duration:.3f} s")
