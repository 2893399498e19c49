"""Checks the files of codes that the lines of a manifest name: a file must exist, hold codes, and fit the audio."""

import importlib.util
import math
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from prepcli.commands.verify.runs import PublishedRun
from prepcli.engine.run.report import Report
from prepcli.engine.state.workspace import read_document
from prepcli.errors import UsageError
from prepcli.formats.plain_codes import CODES_PATH, FRAME_SHIFT
from prepcli.formats.shar import TARGET
from prepcli.interface.printing import first_line
from prepcli.manifest.record import Record

TOLERANCE = 0.025
"""Seconds by which the length of codes may differ from the duration in a line, which may be a bit too long."""
_FILES_REMEMBERED = 4096


def frame_shift_of(name: str, runs: Sequence[PublishedRun]) -> float | None:
    """The duration of a codec frame in seconds, from the report of the run that published the manifest `name`.

    None if no run published the manifest, or its report has no such duration.
    """
    for run in runs:
        report = read_document(run.workspace.report_file, Report) if name in run.files else None
        shift = report.details.get(FRAME_SHIFT) if report is not None else None
        if isinstance(shift, int | float) and shift > 0:
            return float(shift)
    return None


class CodesFiles:
    """Checks the files of codes that the lines of a manifest name.

    `frame_shift`: the duration of a frame in seconds; None if it is not known.
    """

    def __init__(self, frame_shift: float | None) -> None:
        self._frame_shift = frame_shift
        self._shape_of = lru_cache(_FILES_REMEMBERED)(_shape_of)

    def check(self, record: Record) -> Iterator[str]:
        """Yield a message for each problem of the codes that a record names; nothing for a record without codes."""
        num_codebooks = set()
        for field, name in CODES_PATH.items():
            path = record.get(name)
            if path is None:
                continue
            if not isinstance(path, str) or not os.path.isabs(path):
                yield f"{name} is {path!r}, not an absolute path"
                continue
            shape = self._shape_of(path)
            if isinstance(shape, str):
                yield f"{name}: {shape}"
                continue
            num_codebooks.add(shape[0])
            frames, shift = shape[1], self._frame_shift
            seconds = record.duration if field == TARGET else record.get("context_audio_duration")
            if shift is None or not isinstance(seconds, int | float):
                continue
            lowest, highest = (math.ceil((seconds + change) / shift) for change in (-TOLERANCE, TOLERANCE))
            if not lowest <= frames <= highest:
                yield f"{name}: {path} has {frames} frames of {shift:.6g} s, but the audio lasts {seconds:.6g} s"
        if len(num_codebooks) > 1:
            yield f"its codes have {' and '.join(map(str, sorted(num_codebooks)))} codebooks"


def _shape_of(path: str) -> tuple[int, int] | str:
    """The numbers of codebooks and frames in a file of codes, or a message if the file is not valid.

    Raises:
        UsageError: torch is missing.
    """
    if importlib.util.find_spec("torch") is None:
        raise UsageError("verifying codes needs torch: pip install 'prepcli[models]'")
    import torch

    if not Path(path).is_file():
        return f"there is no file {path}"
    try:
        codes: Any = torch.load(path, weights_only=True)
    except Exception as error:  # torch.load raises errors of zip, errors of pickle, and its own
        return f"{path} cannot be read: {first_line(error)}"
    is_codes = isinstance(codes, torch.Tensor) and codes.dtype in (torch.int16, torch.int32, torch.int64)
    if not is_codes or codes.dim() != 2 or not codes.numel():
        return f"{path} is not a tensor of integers of shape (codebooks, frames)"
    if int(codes.min()) < 0:
        return f"{path} has codes below 0"
    return int(codes.shape[0]), int(codes.shape[1])
