"""A job without audio for schedules: each unit is a small file, the merge joins them, and some records are rejected."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Origin, reject_line
from prepcli.engine.run.job import UnitJob
from prepcli.engine.run.unit import Advance, Execution
from prepcli.engine.state.plan import InputFile, Plan, Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason
from prepcli.storage.paths import NUMBER
from tests.faults.ranks import World

RECORDS = 3
"""Records of a unit."""
MANIFEST = "/data/toy.json"


@dataclass(frozen=True)
class ToyUnit(Unit):
    number: int


ToyPlan = Plan[ToyUnit, None]


@dataclass(frozen=True)
class Toy:
    """What a job does.

    Attributes:
        num_units: how many units there are.
        edition: a setting that shapes the output.
        bad: numbers of records that are rejected for now; one whose reason may be temporary.
        seconds: of work for a unit.
        claims_itself: whether the rank does the units in its own process, as jobs with a model do.
    """

    num_units: int
    edition: int = 0
    bad: frozenset[int] = frozenset()
    seconds: float = 0.0
    claims_itself: bool = False

    def unit(self, number: int) -> bytes:
        """The content of a unit's file."""
        records = range(RECORDS * number, RECORDS * (number + 1))
        return b"".join(b"record %d of %d\n" % (record, self.edition) for record in records if record not in self.bad)

    def files(self) -> dict[str, bytes]:
        """The files of the output."""
        units = {f"unit_{number:02d}.txt": self.unit(number) for number in range(self.num_units)}
        units = {name: content for name, content in units.items() if content}
        return units | {"all.txt": b"".join(units.values())}

    def rejects(self) -> list[int]:
        """The lines of the manifest with rejected records; line 0 is found bad when the job is planned."""
        return [0, *sorted(record + 1 for record in self.bad)]


class ToyJob(UnitJob[ToyUnit, None]):
    """The job of a `Toy`."""

    command = "toy"

    def __init__(self, toy: Toy, out: Path, world: World) -> None:
        self._toy, self._out, self._world = toy, out, world

    def output_patterns(self, plan: ToyPlan) -> Sequence[str]:
        return (f"unit_{NUMBER}.txt", "all.txt")

    def settings(self, plan: ToyPlan) -> dict[str, Any]:
        return {"--edition": self._toy.edition}

    def plan(self, workspace: Workspace) -> ToyPlan:
        toy = self._toy
        units = [ToyUnit(f"unit_{number:02d}", 10.0 + number, RECORDS, number) for number in range(toy.num_units)]
        digest = hashlib.sha256(b"%d" % toy.edition).hexdigest()
        inputs = [InputFile(MANIFEST, digest)]
        return Plan(units, RECORDS * toy.num_units + 1, None, inputs, {RejectReason.BROKEN_JSON.value: 1})

    def planned_rejects(self, plan: ToyPlan) -> Iterator[bytes]:
        yield reject_line(b"{", RecordRejected(RejectReason.BROKEN_JSON, "broken"), Origin(MANIFEST, 0))

    def execute(self, plan: ToyPlan, units: Sequence[ToyUnit], execution: Execution) -> Iterator[Marker]:
        if not self._toy.claims_itself:
            yield from super().execute(plan, units, execution)
            return
        for unit in units:
            if execution.claim(unit):
                yield execution.do_unit(unit, partial(self.process, plan, unit, advance=execution.advance))

    def process(self, plan: ToyPlan, unit: ToyUnit, writer: UnitWriter, advance: Advance) -> None:
        toy = self._toy
        content = toy.unit(unit.number)
        if content:
            writer.open(f"{unit.id}.txt").write(content)
        if toy.seconds:
            self._world.wait(toy.seconds)
        for record in range(RECORDS * unit.number, RECORDS * (unit.number + 1)):
            if record in toy.bad:
                rejected = RecordRejected(RejectReason.UNREADABLE_AUDIO, "made so")
                writer.reject(b'{"record": %d}' % record, rejected, Origin(MANIFEST, record + 1))
            else:
                writer.count(1, 2.0)
            advance(1, 2.0)

    def finish(self, plan: ToyPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        whole = writer.open("all.txt")
        for name in (name for marker in markers for name in marker.files):
            whole.write((self._out / name).read_bytes())
        return {"merged": len(markers)}
