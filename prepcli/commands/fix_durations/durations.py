"""The measured duration of each record, and its line with this duration."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.audio.probe import Probes
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.names import path_in
from prepcli.gate import RATE_FIELDS, rate_changes, text_hash
from prepcli.manifest.fields import check_fields, parse_fields, with_audio_filepath
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.line_slices import LineSlices, slice_lines
from prepcli.manifest.missing import explain_missing
from prepcli.manifest.record import audio_filepath_of, fields_to_json, number_of, offset_of
from prepcli.storage.addresses import is_address


class _Place(msgspec.Struct):
    audio_filepath: str = ""
    offset: float | None = None


@dataclass(frozen=True, slots=True)
class DurationLines:
    """The lines of the manifests.

    Attributes:
        slices: the lines, cut into units.
        base_dir: the folder from which relative audio paths start.
        segmented: the files for which at least one record has an offset other than 0, as sorted numbers (`_key`).
    """

    slices: LineSlices
    base_dir: str
    segmented: NDArray[np.int64]


def read_lines(manifests: Sequence[str], base_dir: str, workspace: Workspace) -> DurationLines:
    """Cut the manifests into units, and find the audio files of which a record is a segment with an offset.

    Raises:
        UsageError: a manifest cannot be read, or there are no records.
    """
    for path in manifests:
        check_is_json_lines(path)
    segmented: set[int] = set()
    slices = slice_lines(manifests, workspace.spool, lambda block: _add_segmented(block, base_dir, segmented))
    if not slices.num_records:
        raise UsageError(f"no records in {', '.join(manifests)}: it has no lines")
    return DurationLines(slices, base_dir, np.array(sorted(segmented), np.int64))


def missing_sample(lines: DurationLines) -> str | None:
    """Look for a few audio files of the manifests; return a message if all of them are missing, else None."""
    named: list[tuple[str, str]] = []
    for _, line in lines.slices.sample():
        with contextlib.suppress(RecordRejected):
            named.append((lines.base_dir, audio_filepath_of(parse_fields(line))))
    return explain_missing(named, file=lines.slices.inputs[0].path)


def corrected(line: bytes, lines: DurationLines, probe: Probes) -> tuple[bytes, float | None, float]:
    """Return the corrected line of a record, its duration before (None if it is not a number), and the correct one.

    Consecutive records of one file are measured once.

    Raises:
        RecordRejected: the record is not valid, or its audio cannot be read.
    """
    fields = parse_fields(line)
    check_fields(fields)
    path = path_in(lines.base_dir, audio_filepath_of(fields))
    before, duration = _durations(fields, path, lines, probe)
    rates = rate_changes(fields, probe(path).sampling_rate) if any(name in fields for name in RATE_FIELDS) else {}
    is_changed = before != duration or rates or b'"audio_filepath"' not in line
    if not is_changed and not any(word in line for word in (b'"reject_reason"', b"NaN")):
        return line, before, duration  # no field is renamed, removed or missing either
    return fields_to_json(fields, {"duration": duration, **rates}), before, duration


def _durations(
    fields: Mapping[str, msgspec.Raw], path: str, lines: DurationLines, probe: Probes
) -> tuple[float | None, float]:
    """The duration in a record of the file `path`, and the correct duration, in seconds.

    The duration of a segment counts as correct if the segment ends within the file.

    Raises:
        RecordRejected: the audio cannot be read, or the segment does not begin before the end of the audio.
    """
    offset = offset_of(fields)
    before = number_of(fields["duration"]) if "duration" in fields else None
    if offset is None or (not offset and not _has_segments(path, lines.segmented)):
        return before, probe.seconds(path)
    duration = probe(path).duration
    if offset >= duration:
        detail = f"offset {offset:.10g} s is not before the end of the audio ({duration:.3f} s)"
        raise RecordRejected(RejectReason.BEYOND_AUDIO, detail)
    left = round(duration - offset, 9)
    return before, before if before is not None and 0 < before <= left else left


def _has_segments(path: str, segmented: NDArray[np.int64]) -> bool:
    if not len(segmented):
        return False
    key = _key(path)
    at = int(np.searchsorted(segmented, key))
    return at < len(segmented) and int(segmented[at]) == key


_place_decoder = msgspec.json.Decoder(_Place)


def _key(path: str) -> int:
    """A number that identifies a file by its real folder and its name."""
    folder, slash, name = path.rpartition("/")
    return text_hash(_real_folder(folder + slash) + name)


@lru_cache(maxsize=1 << 12)
def _real_folder(folder: str) -> str:
    with contextlib.suppress(ValueError):  # a NUL in the path: `corrected` reports it
        folder = folder if is_address(folder) else os.path.join(os.path.realpath(folder), "")
    return folder


def _add_segmented(block: bytes, base_dir: str, segmented: set[int]) -> None:
    """Add to `segmented` the number (`_key`) of each audio file that a line of `block` names with an offset above 0."""
    if b'"offset"' not in block:
        return
    names: set[str] = set()
    for line in with_audio_filepath(block).split(b"\n"):
        try:
            place = _place_decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # processing reports the problem
        if place.offset:
            names.add(place.audio_filepath)
    segmented.update(_key(path_in(base_dir, name)) for name in names if name)
