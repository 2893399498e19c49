"""Checks Parquet files for omnilingual-asr."""

from typing import Any

from prepcli.commands.verify import parquet
from prepcli.commands.verify.shards import CheckedFile, ShardReport, check_audio
from prepcli.errors import RecordRejected
from prepcli.formats.omnilingual import AUDIO, RATE, SIZE, TEXT
from prepcli.formats.parquet import python_values
from prepcli.formats.parquet_audio import audio_value
from prepcli.storage.paths import AnyPath

find = parquet.find


def check(file: CheckedFile) -> ShardReport:
    """Check that each row of a file has a text, and mono audio at 16 kHz with the stated number of samples."""
    return parquet.check_file(file, _check_rows)


def _check_rows(opened: Any, path: AnyPath, report: ShardReport) -> None:
    if missing := {TEXT, AUDIO, SIZE} - set(opened.schema_arrow.names):
        report.problems.append(f"{path.name}: has no column {', '.join(sorted(missing))}")
        return
    for group in range(opened.num_row_groups):
        table = opened.read_row_group(group, [TEXT, AUDIO, SIZE])
        audio = table.column(AUDIO).combine_chunks()
        for row, (text, size) in enumerate(zip(*map(python_values, (table[TEXT], table[SIZE])), strict=True)):
            where = f"{path.name}: row {report.num_lines}"
            report.num_lines += 1
            if not isinstance(text, str):
                report.problems.append(f"{where} has no text")
            _check_list(where, audio, row, size, path, report)


def _check_list(where: str, audio: Any, row: int, size: object, path: AnyPath, report: ShardReport) -> None:
    try:
        data = audio_value(audio, row, where)
    except RecordRejected as rejected:
        report.problems.append(rejected.detail)
        return
    report.num_members += 1
    info = check_audio(data, where, path, where, report)
    if info is None:
        return
    report.seconds += info.duration
    if (info.sampling_rate, info.num_channels) != (RATE, 1):
        report.problems.append(f"{where}: its audio is not mono at {RATE} Hz")
    elif info.num_samples != size:
        report.problems.append(f"{where}: {SIZE} is {size}, but its audio has {info.num_samples} samples")
