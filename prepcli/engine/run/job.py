"""The interface between a command and the engine. The engine knows nothing about speech, a job nothing about ranks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, Generic

from prepcli.engine.publishing.publish import Marker, UnitWriter, read_marker
from prepcli.engine.ranks.claims import Claims
from prepcli.engine.ranks.progress import SharedCounter
from prepcli.engine.state.plan import Contents, Plan, Unit, UnitT
from prepcli.engine.state.store_output import OutputSizes
from prepcli.engine.state.workspace import Workspace

Advance = Callable[[int, float], None]
"""Called by a job while it works, with the records and the seconds of audio done since the last call."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What a job needs to process units: the workspace, the number of processes, and the progress.

    `tick` must be called a few times a second; `counter` adds up records and seconds done in any process. With `claims`
    other ranks may do units as well: each must be claimed when it begins.
    """

    workspace: Workspace
    digest: str
    num_workers: int
    context: BaseContext
    counter: SharedCounter
    tick: Callable[[], None]
    claims: Claims | None = None

    def advance(self, records: int, seconds: float) -> None:
        """The `Advance` of a job that works in this process: it counts and shows progress."""
        self.counter.add(records, seconds)
        self.tick()

    def is_left(self, unit: Unit) -> bool:
        """Whether no other rank does the unit, or has done it; without claims it is this rank's."""
        return self.claims is None or (
            self.claims.is_free(unit.id) and read_marker(self.workspace, unit, self.digest) is None
        )

    def claim(self, unit: Unit) -> bool:
        """Claim a unit, for a job that works in this process; False if another rank does it, or has done it."""
        if self.claims is None:
            return True
        if not self.claims.take(unit.id):
            return False
        if read_marker(self.workspace, unit, self.digest) is None:
            return True
        self.claims.release(unit.id)  # its claim was given back when it was published
        return False

    def release(self, unit: Unit) -> None:
        """Give a claim back, when the unit is published."""
        if self.claims is not None:
            self.claims.release(unit.id)


class Job(ABC, Generic[UnitT, Contents]):
    """One command's work: `plan` its units, `execute` those of a rank, `finish` when all are done.

    A job object holds options and does not change; what follows from the inputs is in the plan, which the engine hands
    to all other methods. Units, and what is made of each, must depend on the inputs and the settings only: that is what
    makes the output the same for any number of ranks and workers. Most jobs are a `UnitJob`
    (`prepcli.engine.run.workers`).

    Attributes:
        reads_audio_files: whether missing audio is a missing file, so that a folder may not be mounted.
        kept_by_overwrite: what `--overwrite` does not compute again, in words for a message; empty for nothing.
        elsewhere: what a user can choose instead of an output that is in use, in words for a message; empty for another
            OUT.
        shares_out: whether OUT may hold files of others: no note says so.
        claims_units: whether `execute` claims units, so that ranks can take units of each other.
        telemetry: names in what `finish` returns that tell how the run went; the summary has them with `--verbose`.
        defaults: what settings mean that are not given, for messages (`prepcli.options.shown_defaults`).
    """

    reads_audio_files: bool = True
    kept_by_overwrite: str = ""
    elsewhere: str = ""
    shares_out: bool = False
    claims_units: bool = False
    telemetry: Collection[str] = ()
    defaults: Mapping[str, str] = {}

    @property
    @abstractmethod
    def command(self) -> str:
        """The command's name, e.g. `manifest-to-tarred`."""

    @abstractmethod
    def plan(self, workspace: Workspace) -> Plan[UnitT, Contents]:
        """Read the inputs and divide the work into units; called once in the main process of every rank.

        `workspace` may be written to as far as planning needs it; in a dry run it is a temporary one.

        Raises:
            UsageError: the inputs or the options are invalid; nothing has been written to OUT yet.
        """

    @abstractmethod
    def settings(self, plan: Plan[UnitT, Contents]) -> dict[str, Any]:
        """Every option that shapes the output, under its command-line name, as JSON values."""

    @abstractmethod
    def output_patterns(self, plan: Plan[UnitT, Contents]) -> Sequence[str]:
        """Globs below OUT for the names by which readers find the parts of the set, as narrow as can be.

        A new set does not begin beside files of others that match. Names that are known only to the set's own lists
        need no pattern. `NUMBER` (`prepcli.storage.paths`) stands for the number of a shard.
        """

    def made_of(self, found: OutputSizes, name: str) -> Iterable[str]:
        """The names of files that follow from the published file `name` alone, whoever has made them: its indexes.

        They are removed with it. `found` is what is in OUT.
        """
        return ()

    def input_files(self, plan: Plan[UnitT, Contents]) -> Iterable[str | Path]:
        """Files that the job reads and must never replace; files that cannot be in OUT may be left out."""
        return [file.path for file in plan.inputs]

    def files_of_records(self, plan: Plan[UnitT, Contents]) -> Iterable[str | Path]:
        """More of these, one or several per record; asked for only if files of this job are to be removed."""
        return ()

    def missing_sample(self, plan: Plan[UnitT, Contents]) -> str | None:
        """A message if, of a sample of the files that the units read, not one is there; None otherwise.

        Called before the work and in a dry run: a wrong folder is found at once.
        """
        return None

    def planned_rejects(self, plan: Plan[UnitT, Contents]) -> Iterator[bytes]:
        """The lines (see `prepcli.engine.publishing.rejects.reject_line`) of `Plan.planned_rejects`, in input order."""
        return iter(())

    def prepare(self) -> None:
        """Prepare for units, and check what only an attempt can show, such as whether the model loads.

        Called if there is work, before anything is written; a second call does nothing.

        Raises:
            UsageError: the run cannot succeed.
        """

    def check_done(self, done: Sequence[UnitT], workspace: Workspace) -> None:
        """Check that the finished units were made from the present input, where the digest does not cover it.

        Raises:
            UsageError: they were made from other input.
        """

    @abstractmethod
    def execute(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        """Process `units` (longest first) and yield the marker of each when it is published.

        Raises:
            IncompleteError: a worker process was killed.
        """

    def finish(self, plan: Plan[UnitT, Contents], markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Merge the files of the units when all are done; may run more than once, with the same result.

        `markers` come in the order of the plan's units. Returns what `report.json` should say beside the
        counts: a `Path` is also one of the report's outputs.
        """
        return {}


AnyJob = Job[Any, Any]
"""A job as the engine sees it."""
