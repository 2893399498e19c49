"""Checks the texts that `prepare-texts` writes."""

from collections.abc import Sequence

from prepcli.commands.verify.report import MAX_PROBLEMS, VerifyReport
from prepcli.commands.verify.runs import PublishedRun
from prepcli.errors import RecordRejected
from prepcli.manifest.fields import decode_value, parse_fields
from prepcli.manifest.scan import Range, lines_of
from prepcli.manifest.sources import is_gzip, open_bytes
from prepcli.storage.paths import AnyPath

_READ_FIELDS = ("tts_text", "tts_text_normalized")


def is_texts(path: AnyPath, runs: Sequence[PublishedRun]) -> bool:
    """Whether `prepare-texts` wrote the file: by the state of the run next to it, or else by its first line."""
    writer = next((run for run in runs if path.name in run.files), None)
    if writer is not None:
        return writer.plan.command == "prepare-texts" and path.suffix == ".json"
    if is_gzip(str(path)):  # `prepare-texts` writes no gzip
        return False
    with open_bytes(str(path)) as file:
        line = file.readline(1 << 20)
    return b'"audio_filepath"' not in line and any(f'"{name}"'.encode() in line for name in _READ_FIELDS)


def verify_texts(path: AnyPath, report: VerifyReport) -> None:
    """Check that each line has `text` and one field for TTS: all `tts_text`, or all `tts_text_normalized`."""
    read_field: str | None = None
    problems: list[str] = []
    for number, line in enumerate(lines_of(Range(str(path), 0, None)), start=1):
        try:
            name, problem = _check_line(line)
        except RecordRejected as rejected:
            name, problem = None, rejected.detail
        read_field = read_field or name
        if name is not None and name != read_field:
            problem = f"it has {name}, and lines before it have {read_field}"
        report.records += problem is None
        if problem is not None and len(problems) < MAX_PROBLEMS:
            problems.append(f"{path.name}:{number}: {problem}")
    report.problems += problems


def _check_line(line: bytes) -> tuple[str | None, str | None]:
    """The name of the field for TTS, if the line has exactly one; and the problem of the line, or None."""
    fields = parse_fields(line)
    names = [name for name in _READ_FIELDS if name in fields]
    if len(names) != 1:
        return None, "there must be one of tts_text and tts_text_normalized"
    for name in ("text", names[0]):
        value = decode_value(fields[name]) if name in fields else None
        if not isinstance(value, str) or not value.strip():
            return names[0], f"{name} must be text that is not empty"
    return names[0], None
