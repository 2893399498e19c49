"""A job without audio: each unit is a text file, and the merge joins them."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Origin, reject_line
from prepcli.engine.run.job import Job
from prepcli.engine.run.unit import Advance, Execution, do_in_workers
from prepcli.engine.state.plan import InputFile, Plan, Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason
from prepcli.storage.paths import NUMBER

MANIFEST = "/data/toy.json"


def damage(path: Path) -> None:
    """Change a file as a disk does that loses bits: its size and time stay."""
    found = path.stat()
    path.write_bytes(b"damaged".ljust(found.st_size))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


@dataclass(frozen=True)
class ToyUnit(Unit):
    number: int


ToyPlan = Plan[ToyUnit, None]


class ToyJob(Job[ToyUnit, None]):
    """`num_units` units of four records; the record numbers in `bad` are rejected."""

    command = "toy"
    ranks_help = True

    def __init__(
        self,
        out: Path,
        num_units: int = 6,
        bad: frozenset[int] = frozenset(),
        seed: int = 0,
        before_unit: Callable[[Unit], None] | None = None,
        seconds_a_unit: float = 0.0,
        reason: RejectReason = RejectReason.UNREADABLE_AUDIO,
    ) -> None:
        self.out = out
        self.num_units = num_units
        self.bad = bad
        self.seed = seed
        self.before_unit = before_unit
        self.seconds_a_unit = seconds_a_unit
        self.reason = reason

    def output_patterns(self, plan: ToyPlan) -> Sequence[str]:
        return (f"unit_{NUMBER}.txt", "all.txt")

    def settings(self, plan: ToyPlan) -> dict[str, Any]:
        return {"--seed": self.seed}

    def plan(self, workspace: Workspace) -> ToyPlan:
        units = [ToyUnit(f"unit_{k:03d}", cost=float(10 + k), num_records=4, number=k) for k in range(self.num_units)]
        return Plan(
            units,
            records_in=4 * self.num_units + 1,
            contents=None,
            inputs=[InputFile(MANIFEST, "abc")],
            planned_rejects={"broken_json": 1},
            num_skipped=2,
            reject_lines=self.reject_lines,
        )

    def reject_lines(self) -> Iterator[bytes]:
        yield reject_line(b"{oops", RecordRejected(RejectReason.BROKEN_JSON, "broken"), Origin(MANIFEST, 3))

    def execute(self, plan: ToyPlan, units: Sequence[ToyUnit], execution: Execution) -> Iterator[Marker]:
        return do_in_workers(partial(self.process, plan), units, execution)

    def process(self, plan: ToyPlan, unit: ToyUnit, writer: UnitWriter, advance: Advance) -> None:
        if self.before_unit is not None:
            self.before_unit(unit)
        number = unit.number
        data = writer.open(f"{unit.id}.txt")
        listed = b""
        for record in range(4 * number, 4 * number + 4):
            time.sleep(self.seconds_a_unit / 4)
            if record in self.bad:
                line = b'{"record": %d, "text": 1.50}' % record
                rejected = RecordRejected(self.reason, "made so")
                writer.reject(line, rejected, Origin(MANIFEST, record + 10))
            else:
                data.write(b"record %d seed %d\n" % (record, self.seed) * 100)
                listed += b"%d\n" % record
                writer.count(1, 2.5)
            advance(1, 2.5)
        writer.add(f"list/{unit.id}.txt", listed)

    def finish(self, plan: ToyPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        whole = writer.open("all.txt")
        for marker in markers:
            path = writer.made(marker.unit, f"list/{marker.unit}.txt")
            whole.write(path.read_bytes())
        return {"merged": len(markers)}
