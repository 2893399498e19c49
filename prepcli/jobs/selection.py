"""Copies the lines of manifests to output files: a verdict for each record decides to which file, if to any.

The plan holds the verdicts: worker processes read the manifests once to make it. A unit copies the lines of a slice of
a manifest. Most lines are copied without parsing; these changes are made:

- relative paths become absolute, unless the output is in the folder from which all of them start;
- fields in `Treatment.changes` are set;
- old names of `audio_filepath` are replaced;
- fields that `rejects.jsonl` has added are removed;
- carriage returns at line ends are removed.
"""

import contextlib
import difflib
import os
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Origin, can_append, reject_line, to_append
from prepcli.engine.run.function import Output, run
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import temporary_workspace
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.names import absolute_folder
from prepcli.interface.calls import current_call
from prepcli.interface.options import PathText
from prepcli.jobs.copied_lines import Lines, in_output_form, rewritten
from prepcli.jobs.line_job import LINES_NAME
from prepcli.jobs.records import base_directories
from prepcli.manifest.fields import parse_fields
from prepcli.manifest.index import ManifestIndex, content_digest, read_manifests
from prepcli.manifest.line_slices import MIN_UNIT_BYTES, MIN_UNITS, LineSlice, LineSlices
from prepcli.manifest.parts import Columns, Ints, Part, Problem
from prepcli.manifest.record import Value
from prepcli.manifest.scan import Range, lines_of
from prepcli.storage.paths import AnyPath, size_of

MAX_UNIT_BYTES = 4 << 20
"""Maximum bytes of a unit. Units are larger than in other jobs over lines: copying lines takes less time than flushing
files to disk."""
Item = TypeVar("Item")
Verdicts = NDArray[np.unsignedinteger[Any]]
_FIRST_LINES = 100


@dataclass(frozen=True, slots=True)
class SelectedSlice(LineSlice):
    """A slice of a manifest.

    `first_record` is the number of its first record, counted over all manifests. `seconds` is the total duration of the
    records that are written; records that are left out do not count.
    """

    first_record: int
    seconds: float


class Treatment(NamedTuple):
    """The treatment of a line: the number of its output file, or its reject, and the fields to set in the line.

    A line with neither a file nor a reject is dropped.
    """

    file: int | None = None
    rejected: RecordRejected | None = None
    changes: Mapping[str, Value] | None = None


def left_out(why: str) -> Treatment:
    """The treatment of records that the settings leave out."""
    return Treatment(rejected=RecordRejected(RejectReason.FILTERED, why))


@dataclass(frozen=True, slots=True)
class SelectionContents:
    """The plan of a selection: the lines, a verdict for each usable record, and the lines without a usable record.

    Attributes:
        slices: the lines.
        verdicts: the verdicts of the usable records, in the order of the input.
        gaps: for each manifest, the numbers of lines without a usable record, ascending.
        problems: the unusable lines, in order.
        base_dirs: for each manifest, the folder of its relative paths if these must be made absolute, else empty.
        facts: results of planning, for the report.
    """

    slices: LineSlices
    verdicts: Verdicts
    gaps: list[Ints]
    problems: list[Problem]
    base_dirs: list[str]
    facts: dict[str, Any]

    def without_record(self, unit: SelectedSlice, num_lines: int) -> tuple[Ints, list[Problem]]:
        """The numbers of those lines of a unit that have no usable record, and the problems of its unusable lines."""
        first, end = unit.first_line, unit.first_line + num_lines
        gaps = self.gaps[unit.source]
        here = gaps[slice(*np.searchsorted(gaps, (first, end)))]
        places = (bisect_left(self.problems, (unit.source, line), key=_place) for line in (first, end))
        return here, self.problems[slice(*places)]


def _place(problem: Problem) -> tuple[int, int]:
    return problem.source, problem.line


SelectionPlan = Plan[SelectedSlice, SelectionContents]


class Selector:
    """Reads manifests, and collects verdicts and units for a plan."""

    def __init__(self, manifests: Sequence[str], audio_base_dir: PathText | None, out_folder: AnyPath) -> None:
        """`out_folder`: the folder of the output; relative paths become absolute unless all start from this folder."""
        self.manifests = manifests
        self.all_base_dirs = base_directories(manifests, audio_base_dir)
        stays = set(self.all_base_dirs) == {absolute_folder(str(out_folder))}
        self.base_dirs = [""] * len(manifests) if stays else self.all_base_dirs
        self._verdicts: list[Verdicts] = []
        self._cuts: list[list[tuple[int, int]]] = [[] for _ in manifests]
        self._seconds: list[list[float]] = [[] for _ in manifests]
        self._per_unit = [_unit_bytes(size_of(path)) for path in manifests]
        self._num_records = 0

    def read(
        self, columns: Columns, workspace: Workspace, num_workers: int, on_part: Callable[[int, Part], None]
    ) -> ManifestIndex:
        """Read the manifests; `on_part` gets each part with the number of its manifest.

        Raises:
            UsageError: a manifest is damaged, or no manifest has a usable record.
        """
        index = read_manifests(
            self.manifests,
            columns,
            on_part,
            num_workers=num_workers,
            spool_dir=workspace.spool,
            again=workspace.reads_again,
        )
        if not len(index) + len(index.problems):
            skipped = f" (all {index.num_skipped} have a true _skipme)" if index.num_skipped else ""
            raise UsageError(f"no records in {', '.join(self.manifests)}{skipped or ': it has no lines'}")
        if not len(index):
            first = index.problems[0]
            raise UsageError(f"no record can be used: {self.manifests[first.source]}:{first.line}: {first.detail}")
        return index

    def add(self, source: int, part: Part, verdicts: Verdicts, written: NDArray[np.bool_]) -> None:
        """Add the verdicts of a part's usable records; `written`: whether each record will be written."""
        self._verdicts.append(verdicts)
        if not len(verdicts):
            return
        block = part.start // self._per_unit[source]
        cuts = self._cuts[source]
        before = cuts[-1][1] // self._per_unit[source] if cuts else -1
        at = np.flatnonzero(np.diff(block, prepend=before))
        cuts += zip((at + self._num_records).tolist(), part.start[at].tolist(), strict=True)
        seconds = part.duration * written
        sums = self._seconds[source]
        if not len(at) or at[0] > 0:
            first = int(at[0]) if len(at) else len(seconds)
            sums[-1] += float(seconds[:first].sum())
        if len(at):
            sums += np.add.reduceat(seconds, at).tolist()
        self._num_records += len(verdicts)

    def plan(
        self, index: ManifestIndex, facts: dict[str, Any], notes: Sequence[str] = (), keeps_skipped: bool = False
    ) -> SelectionPlan:
        """Make the plan of all parts that were added; `keeps_skipped`: lines with a true `_skipme` are written too."""
        slices = LineSlices(num_records=len(index) + len(index.problems))
        gaps = []
        units: list[SelectedSlice] = []
        for number, source in enumerate(index.sources):
            slices.inputs.append(InputFile(source.path, source.sha256, source.state, content_digest))
            slices.plain.append(source.plain_path or source.path)
            before = index.records_before_gaps[number]
            gaps.append(before + np.arange(1, len(before) + 1))
            problems = sorted(problem.line for problem in index.problems if problem.source == number)
            units += self._units(number, index, problems, len(units), keeps_skipped)
        slices.units += units
        verdicts = np.concatenate([np.empty(0, np.uint8), *self._verdicts])
        contents = SelectionContents(slices, verdicts, gaps, index.problems, self.base_dirs, facts)
        return Plan(
            units,
            slices.num_records,
            contents,
            slices.inputs,
            num_skipped=index.num_skipped,
            notes=list(notes),
            knows_seconds=False,
        )

    def _units(
        self, source: int, index: ManifestIndex, problems: Sequence[int], first: int, keeps_empty: bool
    ) -> Iterator[SelectedSlice]:
        """The units of the manifest number `source`. Each of its records and problems is in one unit.

        `problems`: the numbers of its unusable lines. `first`: the number of the first unit. `keeps_empty`: whether a
        slice without records and problems is a unit too.
        """
        inner = self._cuts[source][1:]
        end = index.first[source + 1]
        starts = [(index.first[source], 0, 1), *((record, byte, index.line_number(record)) for record, byte in inner)]
        seconds = self._seconds[source] or [0.0]
        ends = [*starts[1:], (end, index.sources[source].num_bytes, index.sources[source].num_lines + 1)]
        number = first
        for (record, byte, line), (to_record, to_byte, to_line), kept in zip(starts, ends, seconds, strict=True):
            count = to_record - record + bisect_left(problems, to_line) - bisect_left(problems, line)
            if count or (keeps_empty and to_byte > byte):
                place = (source, byte, to_byte - byte, line, record, round(kept, 6))
                yield SelectedSlice(f"lines_{number:06d}", float(count), count, *place)
                number += 1


def _unit_bytes(num_bytes: int) -> int:
    return max(MIN_UNIT_BYTES, min(MAX_UNIT_BYTES, num_bytes // MIN_UNITS))


def scratch_folder(workspace: Workspace) -> Path:
    """A folder for temporary files of planning: the workspace or, if it is read-only, the system's temporary folder."""
    try:
        workspace.root.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir())
    return workspace.root if os.access(workspace.root, os.W_OK) else Path(tempfile.gettempdir())


def did_you_mean(name: str, manifests: Sequence[str], known: Iterable[str] = ()) -> str:
    """A hint ` (did you mean NAME?)` with the name most similar to `name`; empty if no name is similar.

    NAME is a field of the first records of the manifests, or one of `known`.
    """
    fields = {*known, *(field for path in manifests for field in _first_fields(path))} - {name}
    close = difflib.get_close_matches(name, sorted(fields), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _first_fields(path: str) -> Iterator[str]:
    for line in islice(lines_of(Range(path, 0, None)), _FIRST_LINES):
        with contextlib.suppress(RecordRejected):
            yield from parse_fields(line) if line.strip() else ()


Outcome = Callable[[SelectionContents, int], Treatment]
"""Returns the treatment of all records with a verdict."""


def select(
    output: Output,
    names: Sequence[str],
    plan: Callable[[Workspace], SelectionPlan],
    outcome: Outcome,
    details: Callable[[SelectionContents], dict[str, Any]],
    settings: Mapping[str, Any] | Callable[[SelectionPlan], Mapping[str, Any]],
    keeps_skipped: bool = False,
) -> Report:
    """Write each line of manifests to one of several files, or to none. A unit is a slice of a manifest.

    Args:
        output: where the command writes.
        names: the paths of the output files, relative to the folder of the output.
        plan: reads the manifests, and gives each record a verdict (an integer).
        outcome: the treatment of the records with a verdict.
        details: the details of the report, with the paths of the files; a dry run has them too.
        settings: as in `prepcli.engine.run.function.run`.
        keeps_skipped: whether lines with a true `_skipme` are written to the first file; else they are dropped.

    Raises:
        UsageError: as by `prepcli.engine.run.function.run`.
    """
    if output.engine.dry_run:
        return _dry_run(output, plan, outcome, details)

    def write(contents: SelectionContents, unit: SelectedSlice, writer: UnitWriter) -> None:
        """Write the lines of a unit to a part of each file; lines that do not change are copied without parsing."""
        base_dir = contents.base_dirs[unit.source]
        lines = Lines(contents.slices.block(unit))
        treatments, of_line = treatments_of(contents, unit, lines, outcome, keeps_skipped)
        first = Origin(contents.slices.inputs[unit.source].path, unit.first_line)
        num_rejects = _reject(lines, treatments, of_line, first, writer)
        changes = dict(each_line([treatment.changes for treatment in treatments], of_line))
        for file in range(len(names)):
            which = np.array([treatment.file == file for treatment in treatments])[of_line]
            count = int(np.count_nonzero(which))
            if count:
                changed = {line: rewritten(lines.at(line), base_dir, to) for line, to in changes.items() if which[line]}
                data = lines.joined(which, changed)
                beginning = b"" if changed else lines.beginning(which)
                data = in_output_form(data, count, base_dir, beginning)
                writer.open_part(_part_name(unit.id, file)).write(data)
            writer.extra[str(file)] += count
        writer.count(unit.num_records - num_rejects, unit.seconds)
        writer.advance(unit.num_records, 0.0)

    def join(made: SelectionPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        for number, name in enumerate(names):
            parts = (_part_name(marker.unit, number) for marker in markers if marker.extra.get(str(number)))
            writer.join(name, parts)
        return details(made.contents)

    return run(output, plan, write, join, settings=settings, reads_audio_files=False, rejects_in_order=True)


def treatments_of(
    contents: SelectionContents, unit: SelectedSlice, lines: Lines, outcome: Outcome, keeps_skipped: bool
) -> tuple[list[Treatment], Ints]:
    """The different treatments in a unit, and an array (num_lines,): for each line, the index of its treatment."""
    gaps, problems = contents.without_record(unit, len(lines))
    skipped, blank = Treatment(0 if keeps_skipped else None), Treatment()
    treatments = [skipped, blank]
    of_line = np.full(len(lines), -1, np.int64)
    of_line[gaps - unit.first_line] = [int(not lines.at(line).strip()) for line in gaps - unit.first_line]
    is_record = of_line < 0
    verdicts = contents.verdicts[unit.first_record : unit.first_record + int(np.count_nonzero(is_record))]
    different, of_record = _numbered(verdicts)
    of_line[is_record] = of_record + len(treatments)
    treatments += [outcome(contents, verdict) for verdict in different.tolist()]
    for problem in problems:
        of_line[problem.line - unit.first_line] = len(treatments)
        treatments.append(Treatment(rejected=RecordRejected(problem.reason, problem.detail)))
    return treatments, of_line


def _numbered(verdicts: Verdicts) -> tuple[Verdicts, Ints]:
    """The different verdicts, ascending, and for each verdict its number among them."""
    if verdicts.dtype.itemsize > 2:
        return np.unique(verdicts, return_inverse=True)
    counts = np.bincount(verdicts)
    return np.flatnonzero(counts).astype(verdicts.dtype), (np.cumsum(counts > 0) - 1)[verdicts]


def _dry_run(
    output: Output,
    plan: Callable[[Workspace], SelectionPlan],
    outcome: Outcome,
    facts: Callable[[SelectionContents], dict[str, Any]],
) -> Report:
    """Make the plan only, and return a report with the same details as after a run."""
    with temporary_workspace(output.path) as workspace:
        made = plan(workspace)
    contents = made.contents
    verdicts, counts = np.unique(contents.verdicts, return_counts=True)
    num_left_out = sum(
        count
        for verdict, count in zip(verdicts.tolist(), counts.tolist(), strict=True)
        if outcome(contents, verdict).file is None
    )
    rejects = Counter(problem.reason.value for problem in contents.problems)
    rejects += Counter({RejectReason.FILTERED.value: num_left_out})
    return Report(
        current_call().command,
        "dry_run",
        str(output.path),
        records_in=made.records_in,
        rejects=rejects.total(),
        rejects_by_reason=dict(rejects),
        skipped=made.num_skipped,
        units=len(made.units),
        notes=made.notes,
        details={name: str(value) if isinstance(value, Path) else value for name, value in facts(contents).items()},
        left_out=num_left_out,
    )


def _part_name(unit: str, number: int) -> str:
    return LINES_NAME.format(f"{unit}.{number}")


def each_line(values: Sequence[Item | None], of_line: Ints) -> Iterator[tuple[int, Item]]:
    """Yield the numbers of lines (from 0), each with its value; lines with the value None are left out.

    `of_line`: for each line, the index of its value in `values`.
    """
    for line in np.flatnonzero(np.array([value is not None for value in values])[of_line]).tolist():
        value = values[of_line[line]]
        if value is not None:
            yield line, value


def _reject(lines: Lines, treatments: Sequence[Treatment], of_line: Ints, first: Origin, writer: UnitWriter) -> int:
    """Reject those lines whose treatment is a reject, and return their number; `first`: origin of the first line.

    The lines that a setting leaves out (FILTERED) are copied without parsing if the fields of the reject can be
    appended to them.
    """
    reasons = [treatment.rejected for treatment in treatments]
    appends = can_append(lines.data)
    texts = [
        to_append(reject, first.manifest) if reject and reject.reason is RejectReason.FILTERED and appends else None
        for reject in reasons
    ]
    counts = Counter[RejectReason]()
    which = np.flatnonzero(np.array([reject is not None for reject in reasons])[of_line])
    of_reject = of_line[which]
    is_appended = np.array([text is not None for text in texts])[of_reject] & lines.end_with_brace(which)
    heads = lines.without_last(which)
    befores, afters = (
        list(map([text[half] if text else b"" for text in texts].__getitem__, of_reject.tolist())) for half in (0, 1)
    )
    numbers = " ".join(map(str, (which + first.line).tolist())).encode().split()
    for at in np.flatnonzero(~is_appended).tolist():
        reason = reasons[of_reject[at]]
        assert reason is not None
        heads[at] = reject_line(lines.at(which[at]), reason, Origin(first.manifest, first.line + int(which[at])))
        befores[at] = numbers[at] = afters[at] = b""
    for reason, count in zip(reasons, np.bincount(of_reject, minlength=len(reasons)).tolist(), strict=True):
        if reason is not None and count:
            counts[reason.reason] += count
    writer.add_rejects(b"".join(chain.from_iterable(zip(heads, befores, numbers, afters, strict=True))), counts)
    return len(which)
