"""fix-durations: measures the audio of each record, and corrects its duration."""

import contextlib
import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.audio.limits import SAME_SECONDS
from prepcli.audio.probe import Probes
from prepcli.commands.fix_durations.options import FixDurations
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import FileWorkspace, Workspace, real_file
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.names import path_in
from prepcli.gate import RATE_FIELDS, rate_changes
from prepcli.jobs.line_job import LINES_NAME, LineContents, LineJob, SliceWriter
from prepcli.jobs.records import base_directories, settings_over
from prepcli.manifest.fields import check_fields, parse_fields, with_audio_filepath
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.line_slices import LineSlice, slice_lines
from prepcli.manifest.missing import explain_missing
from prepcli.manifest.output_name import check_manifest_name
from prepcli.manifest.record import audio_filepath_of, fields_to_json, number_of, offset_of
from prepcli.manifest.sources import expand_paths
from prepcli.storage.addresses import is_address

_CHANGED, _WITHOUT = "changed", "without"
_DIFFERENCES_NAME = "parts/{}.f64"


class _Place(msgspec.Struct):
    audio_filepath: str = ""
    offset: float | None = None


@dataclass(frozen=True, slots=True)
class DurationsContents(LineContents):
    """The lines, and the base folder of each manifest.

    `segmented`: the files for which at least one record has an offset other than 0, as sorted numbers (`_key`).
    """

    base_dirs: list[str]
    segmented: NDArray[np.int64]


DurationsPlan = Plan[LineSlice, DurationsContents]


class DurationsJob(LineJob[LineSlice, DurationsContents]):
    """Writes one manifest. A unit is a slice of a manifest's lines."""

    command: ClassVar[str] = "fix-durations"

    def __init__(self, manifests: Sequence[str], options: FixDurations) -> None:
        """`manifests` are the files that `options.manifest` names."""
        check_manifest_name(options.out, self.command)
        self.manifests = manifests
        self.options = options

    def plan(self, workspace: Workspace) -> DurationsPlan:
        """Cut the manifests into units, and find the audio files of which a record is a segment with an offset.

        Raises:
            UsageError: relative paths start from several folders, or there are no records.
        """
        base_dirs = base_directories(self.manifests, self.options.audio_base_dir)
        if len(set(base_dirs)) > 1:
            raise UsageError(
                "the manifests are in several folders, and relative paths of one manifest must start from one folder: "
                f"give {option('--audio-base-dir')}, or fix them one by one"
            )
        for path in self.manifests:
            check_is_json_lines(path)
        segmented: set[int] = set()
        base_dir = base_dirs[0]
        slices = slice_lines(self.manifests, workspace.spool, lambda block: _add_segmented(block, base_dir, segmented))
        if not slices.num_records:
            raise UsageError(f"no records in {', '.join(self.manifests)}: it has no lines")
        contents = DurationsContents(slices, base_dirs, np.array(sorted(segmented), np.int64))
        return Plan(slices.units, slices.num_records, contents, slices.inputs, knows_seconds=False)

    def settings(self, plan: DurationsPlan) -> dict[str, Any]:
        """The options, and the folders from which relative audio paths start."""
        return settings_over(self.manifests, self.options.audio_base_dir, self.options)

    def output_patterns(self, plan: DurationsPlan) -> Sequence[str]:
        """The name of the manifest to write, as a pattern."""
        return (glob.escape(self.options.out.name),)

    def missing_sample(self, plan: DurationsPlan) -> str | None:
        """Look for a few audio files of the manifests; return a message if all of them are missing, else None."""
        contents = plan.contents
        named: list[tuple[str, str]] = []
        for source, line in contents.slices.sample():
            with contextlib.suppress(RecordRejected):
                named.append((contents.base_dirs[source], audio_filepath_of(parse_fields(line))))
        return explain_missing(named, file=self.manifests[0])

    def open_unit(self, plan: DurationsPlan, unit: LineSlice, writer: UnitWriter) -> "_Corrected":
        """Return the object that measures the files of a slice, and corrects its lines."""
        return _Corrected(plan, unit, writer)

    def finish(self, plan: DurationsPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the lines of all units; return how many durations were wrong, and by how many seconds."""
        writer.join(self.options.out.name, (LINES_NAME.format(marker.unit) for marker in markers))
        parts = (np.fromfile(writer.part(_DIFFERENCES_NAME.format(marker.unit)), "<f8") for marker in markers)
        differences = np.concatenate([np.empty(0), *parts])
        details: dict[str, Any] = {"manifest": self.options.out}
        base = plan.contents.base_dirs[0]
        if os.path.realpath(base) != os.path.realpath(self.options.out.parent):
            details["audio_base_dir"] = base
        counts = totals(markers)
        details |= {"changed": int(counts[_CHANGED]), "more_than_20_ms": len(differences)}
        if counts[_WITHOUT]:
            details["without_duration"] = int(counts[_WITHOUT])
        if len(differences):
            median, most = float(np.median(differences)), float(differences.max())
            details["off_by"] = f"median {median:.3f} s, maximum {most:.3f} s"
        return details


class _Corrected(SliceWriter):
    """Makes the corrected lines of a slice.

    If a duration was wrong by more than 20 ms, the difference in seconds is kept for the report. Consecutive records of
    one file are measured once.
    """

    def __init__(self, plan: DurationsPlan, unit: LineSlice, writer: UnitWriter) -> None:
        super().__init__(plan, unit)
        self._unit, self._writer = unit, writer
        self._segmented, self._base_dir = plan.contents.segmented, plan.contents.base_dirs[unit.source]
        self._probe = Probes(1)
        self._differences: list[float] = []

    def make(self, item: tuple[int, bytes]) -> tuple[bytes, float]:
        line = item[1]
        fields = parse_fields(line)
        check_fields(fields)
        before, duration = self._durations(fields)
        if before is None:
            self._writer.extra[_WITHOUT] += 1
        elif abs(before - duration) > SAME_SECONDS:
            self._differences.append(abs(before - duration))
        self._writer.extra[_CHANGED] += before != duration
        rates = self._rates(fields)
        is_changed = before != duration or rates or b'"audio_filepath"' not in line
        if not is_changed and not any(word in line for word in (b'"reject_reason"', b"NaN")):
            return line, duration  # no field is renamed, removed or missing either
        return fields_to_json(fields, {"duration": duration, **rates}), duration

    def _rates(self, fields: Mapping[str, msgspec.Raw]) -> dict[str, int]:
        """The fields with the sampling rate, if a record has them, as measured."""
        if not any(name in fields for name in RATE_FIELDS):
            return {}
        return rate_changes(fields, self._probe(path_in(self._base_dir, audio_filepath_of(fields))).sampling_rate)

    def close(self) -> None:
        name = _DIFFERENCES_NAME.format(self._unit.id)
        self._writer.open_part(name).write(np.array(self._differences, "<f8").tobytes())

    def _durations(self, fields: Mapping[str, msgspec.Raw]) -> tuple[float | None, float]:
        """The duration in a record (None if it is not a number), and the correct duration, in seconds.

        The duration of a segment counts as correct if the segment ends within the file.

        Raises:
            RecordRejected: the audio cannot be read, or the segment does not begin before the end of the audio.
        """
        name = audio_filepath_of(fields)
        offset = offset_of(fields)
        before = number_of(fields["duration"]) if "duration" in fields else None
        path = path_in(self._base_dir, name)
        if offset is None or (not offset and not self._has_segments(path)):
            return before, self._probe.seconds(path)
        duration = self._probe(path).duration
        if offset >= duration:
            detail = f"offset {offset:.10g} s is not before the end of the audio ({duration:.3f} s)"
            raise RecordRejected(RejectReason.BEYOND_AUDIO, detail)
        left = round(duration - offset, 9)
        return before, before if before is not None and 0 < before <= left else left

    def _has_segments(self, path: str) -> bool:
        if not len(self._segmented):
            return False
        key = _key(path)
        at = int(np.searchsorted(self._segmented, key))
        return at < len(self._segmented) and int(self._segmented[at]) == key


_place_decoder = msgspec.json.Decoder(_Place)


def _key(path: str) -> int:
    """A number that identifies a file by its real folder and its name; valid in this process and its forks."""
    folder, slash, name = path.rpartition("/")
    return hash(_real_folder(folder + slash) + name)


@lru_cache(maxsize=1 << 12)
def _real_folder(folder: str) -> str:
    with contextlib.suppress(ValueError):  # a NUL in the path: `process` reports it
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


def fix_durations(options: FixDurations) -> Report:
    """Measure the durations of a manifest again.

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest, `details["more_than_20_ms"]` the number of
        durations that were wrong by more than 20 ms.

    Raises:
        UsageError: options that do not go together, or a manifest that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.fix_durations("manifest.json", "fixed.json")
        >>> report.records_out, report.details["more_than_20_ms"]
        (48, 0)
    """
    engine = options.engine()
    options = replace(options, out=real_file(options.out))
    job = DurationsJob(expand_paths(options.manifest), options)
    return run_job(job, FileWorkspace(options.out), engine)
