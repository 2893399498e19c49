"""The account of a chain of runs: how the seconds of audio at its start come to those in its output."""

import contextlib
import math
import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from prepcli.engine.publishing.hashes import sha256_of
from prepcli.engine.publishing.rejects import is_asked_for
from prepcli.engine.run.chain import Step, absolute_in, chain_of
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.gate import MAX_SECONDS
from prepcli.interface.printing import aligned, as_text, number_of, short_path
from prepcli.interface.reports import ShownInNotebooks
from prepcli.manifest.datasets import DataSet
from prepcli.manifest.durations import read_input
from prepcli.manifest.fields import REJECT_SECONDS
from prepcli.manifest.index import content_digest
from prepcli.manifest.record import Record
from prepcli.storage.paths import AnyPath

_EXACT = 1e-6
"""Seconds per unit and record by which sums may differ: both are rounded to microseconds."""
_IN, _OF_SEGMENT = "in", ("pauses", "overlap")
"""The seconds of recordings, and the parts that are neither segments nor rejects, in the counts of `segment`."""
SKIPPED, AGAIN = "skipped by _skipme", "read several times"
"""Reasons for a difference between the output of a run and what the next ones read; the second is negative."""
CHANGED, OTHER_INPUT = "measured again", "its input has changed since"
"""Reasons for a difference within a run."""
BY_RULE, _NOT_USED = "by rule", "in other outputs"


class StepAccount(msgspec.Struct):
    """The seconds of one run: `seconds_in` = `seconds_out` + the sum of `left_out`, a mapping of reasons to seconds.

    `rules`: the reasons that are rules of the user. `not_used` are seconds of its output that no later run of the chain
    has read, such as those in another part of a split, `not_used_outputs` the names of these parts. `unknown` is the
    number of rejects without a duration. `source_seconds` are those of `seconds_in` that come from no run of prepcli.
    """

    command: str
    out: str
    part: str
    seconds_in: float
    seconds_out: float
    left_out: dict[str, float]
    rules: list[str]
    source_seconds: float = 0.0
    not_used: float = 0.0
    not_used_outputs: list[str] = []
    unknown: int = 0


class Account(ShownInNotebooks, msgspec.Struct):
    """The account of a chain: `seconds_in` of the sources = `seconds_kept` in `out` + the sum of `left_out`.

    `left_out` maps reasons to seconds: pauses and overlap of recordings, "by rule" for what rules of the user have left
    out, "in other outputs" for what later runs do not read, and reasons of rejects. "read several times" is negative:
    the seconds that later runs have read beyond those that are there. `unknown` counts rejects without a
    duration, which are in no sum. `steps` are in the order of the runs.
    """

    out: str
    seconds_in: float
    seconds_kept: float
    left_out: dict[str, float]
    unknown: int
    steps: list[StepAccount]

    def __str__(self) -> str:
        """The sum in one line; then a row for each run, with what it has left out."""
        size, unit = (3600, "h") if self.seconds_in >= 3600 else (1, "s")

        def shown(seconds: float) -> str:
            return f"{seconds / size:,.2f}"

        zeros = ("0.00", "-0.00")
        left_out = {name: text for name, left in self.left_out.items() if (text := shown(left)) not in zeros}
        terms = [f"{shown(self.seconds_kept)} kept", *(f"{text} {name}" for name, text in left_out.items())]
        rows = [["", "output", f"{unit} in", "out", "left out"]]
        for step in self.steps:
            name = f"{os.path.basename(step.out)} {step.part}".rstrip()
            sums = [shown(step.seconds_in), shown(step.seconds_out), shown(sum(step.left_out.values()))]
            rows.append([step.command, name, *sums])
            reasons = {reason: text for reason, left in step.left_out.items() if (text := shown(left)) not in zeros}
            rows += [["", f"  {reason}", "", "", text] for reason, text in reasons.items()]
            if step.not_used:
                name = AGAIN if step.not_used < 0 else f"not used: {', '.join(step.not_used_outputs)}"
                rows.append(["", f"  {name}", "", shown(step.not_used), ""])
        lines = [
            f"status: account of {short_path(self.out)}",
            f"  {shown(self.seconds_in)} {unit} in = {' + '.join(terms)}",
            *(f"  {line}" for line in aligned(rows, 2)),
        ]
        if self.unknown:
            state = "states no duration, and is" if self.unknown == 1 else "state no duration, and are"
            lines.append(f"  {number_of(self.unknown, 'reject')} {state} in no sum")
        return as_text(lines)


@dataclass
class _Read:
    """The seconds that a run has read from the runs `made`, or from a source if there are none; None if unknown."""

    made: list[Step]
    paths: list[str]
    seconds: float | None


def account_of(out: AnyPath, work_dir: Path | None = None) -> Account:
    """Add up the chain of runs that made `out`; `work_dir` as in `chain_of`.

    Raises:
        UsageError: no run has made `out`, or one of the chain has not finished.
    """
    steps = chain_of(out, work_dir)
    unfinished = next((step for step in steps if step.report is None), None)
    if unfinished is not None:
        raise UsageError(f"{unfinished.name} has not finished: prepcli status {unfinished.out}")
    rows: list[StepAccount] = []
    used, used_paths = Counter[str](), set[str]()  # outputs, and the seconds that later runs have read from them
    for step in steps:
        reads = _reads_of(step)
        row = _row_of(step, reads)
        rows.append(row)
        for read in reads:
            used_paths.update(read.paths)
            if read.seconds is None:
                read.seconds = row.seconds_in - sum(one.seconds or 0.0 for one in reads)
            if read.made:
                used[read.made[0].out] += read.seconds  # type: ignore[assignment]
            else:
                row.source_seconds += read.seconds
    final = [row for row in rows if row.out == rows[-1].out]
    left_out: Counter[str] = Counter()
    for step, row in zip(steps, rows, strict=True):
        if row not in final:
            made = sum(one.seconds_out for one in rows if one.out == row.out)
            if row.out in used and not _is_same(made, used[row.out], step):
                row.not_used = made - used.pop(row.out)
                reason = (
                    AGAIN if row.not_used < 0 else _NOT_USED if (others := _not_used(step, used_paths)) else SKIPPED
                )
                row.not_used_outputs = others if reason == _NOT_USED else [reason]
                left_out[reason] += row.not_used  # type: ignore[assignment]
        for reason, seconds in row.left_out.items():
            left_out[BY_RULE if reason in row.rules else reason] += seconds  # type: ignore[assignment]
    return Account(
        out=rows[-1].out,
        seconds_in=round(sum(row.source_seconds for row in rows), 6),
        seconds_kept=round(sum(row.seconds_out for row in final), 6),
        left_out={name: round(seconds, 6) for name, seconds in left_out.items()},
        unknown=sum(row.unknown for row in rows),
        steps=rows,
    )


def _row_of(step: Step, reads: list[_Read]) -> StepAccount:
    sums, left_out, rules, unknown, unusable = step.totals, Counter[str](), set(), 0, 0.0
    of_recordings = {name: float(sums[f"seconds {name}"]) for name in _OF_SEGMENT if sums[f"seconds {name}"]}
    for reject in step.rejects():
        reason = str(reject["reject_reason"])
        if reason == RejectReason.OVERLAP.value and of_recordings:
            continue  # a part of the overlap
        if is_asked_for(reason):
            if reason == RejectReason.FILTERED.value:  # its details are rules; others have numbers of the record
                reason = str(reject["reject_detail"])
            rules.add(reason)
        seconds = reject.get(REJECT_SECONDS, reject.get("duration"))
        if isinstance(seconds, (int, float)) and 0 <= seconds < MAX_SECONDS:
            left_out[reason] += seconds  # type: ignore[assignment]
            unusable += 0.0 if _is_usable(reject) else seconds
        else:
            unknown += 1
    left_out.update(of_recordings)
    out = float(sums["seconds"])
    source = next((read for read in reads if not read.made and read.seconds is not None), None)
    if source is not None and f"seconds {_IN}" not in sums:
        source.seconds += unusable  # type: ignore[operator]  # its sum has only the lines that can be used
    known = [read.seconds for read in reads if read.seconds is not None]
    if f"seconds {_IN}" in sums:
        seconds_in = float(sums[f"seconds {_IN}"])
    else:
        seconds_in = sum(known) if len(known) == len(reads) else out + sum(left_out.values())
    rest = seconds_in - out - sum(left_out.values())
    if not _is_same(rest, 0.0, step):
        left_out[OTHER_INPUT if _has_other_input(step) else CHANGED] += rest  # type: ignore[assignment]
    return StepAccount(
        step.plan.command,
        step.out,
        step.plan.part,
        round(seconds_in, 6),
        out,
        {reason: round(seconds, 6) for reason, seconds in left_out.items()},
        sorted(rules),
        unknown=unknown,
    )


def _is_usable(reject: dict[str, Any]) -> bool:
    """Whether a reject is a record in every command, so that the sum of its manifest has its seconds."""
    try:
        Record.parse(msgspec.json.encode(reject))
    except RecordRejected:
        return False
    return True


def _reads_of(step: Step) -> list[_Read]:
    groups: dict[int, _Read] = {}
    times = Counter(step.inputs)  # an input may be named twice, to have its records twice
    for path, made in step.sources:
        groups.setdefault(id(made) if made else 0, _Read(made, [], None)).paths.append(path)
    for read in groups.values():
        maker = read.made[0] if len(read.made) == 1 and read.made[0].plan.writes_file else None
        if maker is not None and read.paths == [maker.out] and not step.plan.skipped:
            read.seconds = times[maker.out] * float(maker.totals["seconds"])
        elif all(os.path.isfile(path) for path in read.paths):
            with contextlib.suppress(UsageError):
                read.seconds = math.fsum(
                    number * _seconds_in([path for path in read.paths if times[path] == number])
                    for number in {times[path] for path in read.paths}
                )
    return list(groups.values())


def _seconds_in(paths: Sequence[str]) -> float:
    data = DataSet(tuple(paths), cuts=all(os.path.basename(path).startswith("cuts.") for path in paths))
    return math.fsum(read_input(data).seconds.tolist())


def _has_other_input(step: Step) -> bool:
    """Whether a manifest is another than the one that the run has read."""
    digests = {absolute_in(step.plan.run_in, one["path"]): one["sha256"] for one in step.plan.inputs}
    manifests = (path for path in dict.fromkeys(step.inputs) if path.endswith((".json", ".jsonl")))
    # Some commands note the digest of the content, others one of the digests of its parts.
    return any(
        digests[path] not in (content_digest(path), sha256_of(Path(path)))
        for path in manifests
        if path in digests and os.path.isfile(path)
    )


def _is_same(seconds: float, other: float, step: Step) -> bool:
    """Whether two sums of seconds are equal, but for the rounding of the seconds of each unit and record."""
    num_records = max(step.plan.records_in, step.report.records_in if step.report else 0)
    return abs(seconds - other) <= _EXACT * (1 + step.plan.num_units + num_records)


def _not_used(step: Step, used: Collection[str]) -> list[str]:
    """The outputs of a run that no later run has read, as their names in its output."""
    outputs = step.report.outputs.values() if step.report else ()
    paths = [path for path in outputs if isinstance(path, str) and path not in used]
    return [os.path.relpath(path, str(step.workspace.out)) for path in paths]
