"""The result of `explain`."""

from typing import Any

import msgspec

from prepcli.interface.printing import aligned, as_text, short_path
from prepcli.interface.reports import ShownInNotebooks

_NUM_SHOWN = 5


class Hop(msgspec.Struct):
    """A run through which the record went: its place in the output of the run, and what the run was asked to do.

    `rules`: the rules of a filter, or the part of a split; `run_with`: the command as typed.
    """

    command: str
    manifest: str
    line: int
    rules: list[str]
    run_with: str


class Source(msgspec.Struct):
    """The audio from which the record was made: seconds, and samples if the file can be read, else None."""

    audio: str
    start: float
    end: float
    sampling_rate: int | None = None
    first_sample: int | None = None
    last_sample: int | None = None


class Trace(msgspec.Struct):
    """One record. `verdict`: kept, dropped, or not_found if it is lost from sight after the last of `hops`.

    `name`: its name in the last manifest. For a dropped record, `by` is the command that dropped it, and `reason`,
    `detail` say why. `hops` are in the order of the runs.
    """

    name: str
    verdict: str
    source: Source
    hops: list[Hop]
    by: str = ""
    reason: str = ""
    detail: str = ""


class Explanation(ShownInNotebooks, msgspec.Struct):
    """The traces of all records with a name; `notes` say what could not be followed."""

    record: str
    out: str
    traces: list[Trace]
    notes: list[str]

    def __str__(self) -> str:
        """The text that `explain` prints: for each record the verdict, the source, and the runs."""
        lines = [f"explain: {self.record} in {short_path(self.out)}"]
        for trace in self.traces[:_NUM_SHOWN]:
            lines += _lines_of(trace)
        if more := len(self.traces) - _NUM_SHOWN:
            lines += [f"  and {more:,} more of this name, which --json shows; or give one, as NAME@SECONDS"] * (
                more > 0
            )
        return as_text([*lines, *(f"  note: {note}" for note in self.notes)])

    def document(self) -> Any:
        """The document for `--json`."""
        return self


def _lines_of(trace: Trace) -> list[str]:
    if trace.verdict == "dropped":
        verdict = f"dropped by {trace.by}: {trace.reason}, {trace.detail}"
    elif trace.verdict == "kept":
        verdict = "kept"
    else:
        verdict = "not found: it is in no rejects, and in no manifest or set that explain can read"
    source = trace.source
    times = f"{source.start:,.3f} to {source.end:,.3f} s"
    if source.first_sample is not None and source.last_sample is not None:
        times += f", samples {source.first_sample:,} to {source.last_sample:,} at {source.sampling_rate:,} Hz"
    rows = [["source", short_path(source.audio), times]]
    rows += [[hop.command, f"{short_path(hop.manifest)}:{hop.line}", "; ".join(hop.rules)] for hop in trace.hops]
    return [f"  {trace.name}: {verdict}", *(f"    {line}" for line in aligned(rows, 3))]
