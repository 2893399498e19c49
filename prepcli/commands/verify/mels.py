"""Checks file lists for Tacotron 2 and WaveGlow, and their mels."""

import importlib.util
import io
from typing import Any, NamedTuple

from prepcli.commands.verify.shards import ShardReport, Verification
from prepcli.engine.publishing.hashes import ContentHash
from prepcli.errors import UsageError
from prepcli.formats.mels import MEL, SEPARATOR, MelSet
from prepcli.interface.printing import first_line
from prepcli.storage.paths import AnyPath

_LINES_AT_ONCE = 500


class ListPart(NamedTuple):
    """Some lines of a file list.

    Attributes:
        root: the folder of the set, from which relative paths in the lines start.
        name: the name of the list.
        first: the number of the first line, from 1.
        lines: each line, with the published hash of its mel; None if it is not known or not needed.
        has_mels: whether the lines name mels that the set has, so that they are read and checked.
    """

    root: AnyPath
    name: str
    first: int
    lines: list[tuple[str, str | None]]
    has_mels: bool


def find(export: MelSet, of: Verification) -> tuple[list[ListPart], list[str]]:
    """The parts of the file lists of a set, to be checked one by one, and a problem for each list that cannot be read.

    Raises:
        UsageError: the set has mels, and torch is missing.
    """
    parts: list[ListPart] = []
    problems: list[str] = []
    if export.has_mels and importlib.util.find_spec("torch") is None:
        raise UsageError("verifying mels needs torch: pip install 'prepcli[models]'")
    for path in export.lists:
        try:
            with path.open(encoding="utf-8") as file:
                texts = [line.removesuffix("\n") for line in file]
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"filelists/{path.name}: cannot be read: {error}")
            continue
        with_mels = export.has_mels and f"_{MEL}_text_" in path.name
        lines = [(text, of.file(text.partition(SEPARATOR)[0]).published if with_mels else None) for text in texts]
        for first in range(0, len(lines), _LINES_AT_ONCE):
            some = lines[first : first + _LINES_AT_ONCE]
            parts.append(ListPart(export.folder, path.name, first + 1, some, with_mels))
    return parts, problems


def check(part: ListPart) -> ShardReport:
    """Check that each line of a file list has a path and a text.

    In a list of mels, each mel must be valid; without mels in the set, they are not checked. In a list of audio, each
    file must exist.
    """
    report = ShardReport()
    is_mels = f"_{MEL}_text_" in part.name
    paths = []
    for number, (line, published) in enumerate(part.lines, start=part.first):
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
            _check_mel(f"{where}: {fields[0]}", path, published, report)
        elif not is_mels and not path.is_file():
            report.problems.append(f"{where}: there is no file {path}")
    report.count_ids(paths)
    return report


def _check_mel(where: str, path: AnyPath, published: str | None, report: ShardReport) -> None:
    import torch

    try:
        data = path.read_bytes()
        mel: Any = torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:  # torch.load raises errors of zip, errors of pickle, and its own
        report.problems.append(f"{where}: cannot be read: {first_line(error)}")
        return
    report.compare(where, ContentHash(published, data))
    if not isinstance(mel, torch.Tensor) or mel.dtype != torch.float32 or mel.dim() != 2 or not mel.numel():
        report.problems.append(f"{where}: not a float32 tensor of shape (bands, frames)")
    elif not bool(torch.isfinite(mel).all()):
        report.problems.append(f"{where}: has values that are not numbers")
