"""Checks that file lists can be read, that every mel is there and is a tensor, and that every audio file is there."""

import hashlib
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prepcli.commands.verify.export_parts import ExportReport, Hashed
from prepcli.errors import UsageError
from prepcli.formats.mels import MEL, SEPARATOR
from prepcli.formats.sets import MelSet
from prepcli.interface.printing import first_line

_LINES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ListPart:
    """Some lines of a list: its name, the number of the first line, and the digests of the mels that they name."""

    root: Path
    name: str
    first: int
    lines: tuple[str, ...]
    sha256: tuple[str | None, ...]
    has_mels: bool


def find_lists(one: MelSet, sha256: Hashed) -> tuple[list[ListPart], list[str]]:
    """The lists to check, in parts."""
    parts: list[ListPart] = []
    problems: list[str] = []
    if one.has_mels and importlib.util.find_spec("torch") is None:
        raise UsageError("verifying mels needs torch: pip install 'prepcli[models]'")
    for path in one.lists:
        try:
            with path.open(encoding="utf-8") as file:
                lines = [line.removesuffix("\n") for line in file]
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"filelists/{path.name}: cannot be read: {error}")
            continue
        with_mels = one.has_mels and f"_{MEL}_text_" in path.name
        for first in range(0, len(lines), _LINES_AT_ONCE):
            some = tuple(lines[first : first + _LINES_AT_ONCE])
            digests = tuple(sha256(line.partition(SEPARATOR)[0]) if with_mels else None for line in some)
            parts.append(ListPart(one.folder, path.name, first + 1, some, digests, with_mels))
    return parts, problems


def check_list(part: ListPart) -> ExportReport:
    """Check the lines, and the files that they name."""
    report = ExportReport(part.first)
    is_mels = f"_{MEL}_text_" in part.name
    paths = []
    for number, (line, sha256) in enumerate(zip(part.lines, part.sha256, strict=True), start=part.first):
        where = f"filelists/{part.name}:{number}"
        fields = line.strip().split(SEPARATOR)
        if len(fields) != 2 or not all(fields):
            report.problems.append(f"{where}: must be path{SEPARATOR}text")
            continue
        path = part.root / fields[0]
        if is_mels:
            paths.append(fields[0])
        if part.has_mels:
            report.num_members += 1
            _check_mel(f"{where}: {fields[0]}", path, sha256, report)
        elif not is_mels and not path.is_file():
            report.problems.append(f"{where}: there is no file {path}")
    report.num_lines = len(paths)
    report.add_ids(paths)
    return report


def _check_mel(where: str, path: Path, sha256: str | None, report: ExportReport) -> None:
    import torch

    try:
        data = path.read_bytes()
        mel: Any = torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:  # torch.load raises what its parts do: of zip, of pickle, its own
        report.problems.append(f"{where}: cannot be read: {first_line(error)}")
        return
    if sha256 not in (None, hashlib.sha256(data).hexdigest()):
        report.problems.append(f"{where}: not the bytes that were published (SHA-256 differs)")
    if not isinstance(mel, torch.Tensor) or mel.dtype != torch.float32 or mel.dim() != 2 or not mel.numel():
        report.problems.append(f"{where}: not a float32 tensor of shape (bands, frames)")
    elif not bool(torch.isfinite(mel).all()):
        report.problems.append(f"{where}: has values that are not numbers")
