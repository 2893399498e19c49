"""Checks JSON lines with codes for Qwen3-TTS."""

import json
from functools import lru_cache
from typing import Any

import numpy as np

from prepcli.audio.probe import probe
from prepcli.commands.verify.shards import ShardReport, Verification
from prepcli.errors import RecordRejected
from prepcli.formats import qwen3_tts
from prepcli.formats.qwen3_tts import QwenSet
from prepcli.manifest.scan import Range, lines_of, ranges_of


def find(export: QwenSet, of: Verification) -> tuple[list[Range], list[str]]:
    """The files to check, in parts, and an empty list of problems: the names of files are not checked."""
    return [part for path in export.files() for part in ranges_of(str(path), path.stat().st_size)], []


def check(part: Range) -> ShardReport:
    """Check that each line has a text, reference audio at the sampling rate that the trainer takes, and codes."""
    report = ShardReport()
    for line in lines_of(part):
        try:
            item = json.loads(line)
            problem = _problem_of(item)
        except (ValueError, TypeError, AttributeError) as error:
            problem, item = f"it is not an object of JSON: {error}", {}
        if problem is not None:
            report.problems.append(f"{part.path}: {line[:60]!r}: {problem}")
            continue
        report.num_lines += 1
        seconds = item.get("duration")
        report.seconds += seconds if isinstance(seconds, int | float) else 0.0
    report.num_members = report.num_lines
    return report


def _problem_of(item: dict[str, Any]) -> str | None:
    if not isinstance(item.get("text"), str) or not isinstance(item.get("audio"), str):
        return "it must have audio and text"
    codes = item.get(qwen3_tts.CODES)
    try:
        array = np.array(codes, np.int64)
    except (ValueError, TypeError, OverflowError):
        array = np.empty(0, np.int64)
    if array.ndim != 2 or array.shape[1] != qwen3_tts.NUM_CODEBOOKS or array.min() < 0:
        return f"{qwen3_tts.CODES} must be lists of {qwen3_tts.NUM_CODEBOOKS} numbers"
    reference = item.get(qwen3_tts.REFERENCE)
    return _problem_of_reference(reference) if isinstance(reference, str) else f"it has no {qwen3_tts.REFERENCE}"


@lru_cache(4096)
def _problem_of_reference(path: str) -> str | None:
    try:
        rate = probe(path).sampling_rate
    except RecordRejected as rejected:
        return f"{qwen3_tts.REFERENCE}: {rejected.detail}"
    if rate != qwen3_tts.REFERENCE_RATE:
        return f"{qwen3_tts.REFERENCE} {path} has {rate} Hz, not {qwen3_tts.REFERENCE_RATE} Hz"
    return None
