"""Checks of the records of `prepare-texts`, which name no audio."""

from collections.abc import Sequence
from pathlib import Path

from prepcli.commands.verify.manifests import MAX_PROBLEMS, ManifestReport
from prepcli.commands.verify.runs import PublishedRun
from prepcli.errors import RecordRejected
from prepcli.manifest.fields import decode_value, parse_fields
from prepcli.manifest.scan import lines_of, ranges_of
from prepcli.manifest.sources import is_gzip, open_bytes

_READ_FIELDS = ("tts_text", "tts_text_normalized")


def is_texts(path: Path, runs: Sequence[PublishedRun]) -> bool:
    """Whether `prepare-texts` wrote the file: by the records beside it, or else by its first line."""
    writer = next((run for run in runs if path.name in run.files), None)
    if writer is not None:
        return writer.plan.command == "prepare-texts" and path.suffix == ".json"
    if is_gzip(str(path)):  # as nothing of ours is
        return False
    with open_bytes(str(path)) as file:
        line = file.readline(1 << 20)
    return b'"audio_filepath"' not in line and any(f'"{name}"'.encode() in line for name in _READ_FIELDS)


def verify_texts(path: Path) -> ManifestReport:
    """Check that each line has `text` and one field to read, the same one in all lines."""
    report = ManifestReport()
    read_field: str | None = None
    number = 0
    for part in ranges_of(str(path), path.stat().st_size):
        for line in lines_of(part):
            number += 1
            try:
                found, problem = _check_line(line)
            except RecordRejected as rejected:
                found, problem = None, rejected.detail
            read_field = read_field or found
            if found is not None and found != read_field:
                problem = f"it has {found}, and lines before it have {read_field}"
            report.num_records += problem is None
            if problem is not None and len(report.problems) < MAX_PROBLEMS:
                report.problems.append(f"{path.name}:{number}: {problem}")
    return report


def _check_line(line: bytes) -> tuple[str | None, str | None]:
    """The field to read, and what is wrong."""
    fields = parse_fields(line)
    names = [name for name in _READ_FIELDS if name in fields]
    if len(names) != 1:
        return None, "there must be one of tts_text and tts_text_normalized"
    for name in ("text", names[0]):
        value = decode_value(fields[name]) if name in fields else None
        if not isinstance(value, str) or not value.strip():
            return names[0], f"{name} must be text that is not empty"
    return names[0], None
