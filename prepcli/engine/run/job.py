"""The interface between a command and the engine. The engine knows nothing about speech, a job nothing about ranks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.unit import Execution
from prepcli.engine.state.plan import Contents, Plan, UnitT
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.workspace import Workspace
from prepcli.interface.shared_options import UnitExecutor
from prepcli.processes.ranks import Rank
from prepcli.storage.paths import AnyPath

OpenEngine = Callable[[], AbstractContextManager[UnitExecutor]]
"""Opens an executor for the time of a run."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of the engine, which every job has. A run may be continued with other values of these options.

    With `engine`, an executor makes the units.
    """

    rank: Rank = field(default_factory=Rank)
    num_workers: int = 1
    overwrite: bool = False
    retry_rejects: bool = False
    dry_run: bool = False
    verify_inputs: bool = False
    steal: bool = True
    budget: Budget = field(default_factory=Budget)
    engine: OpenEngine | None = None


class Job(ABC, Generic[UnitT, Contents]):
    """The work of one command: `plan` divides it into units, `execute` does units, `finish` merges their results.

    A job object holds options and does not change; data from the inputs are in the plan, which the engine passes to all
    other methods. Units and their outputs must depend on the inputs and the settings only; then the output is the same
    for any number of ranks and workers. Most jobs are functions (`prepcli.engine.run.function.run`).

    Attributes:
        reads_audio_files: whether the job reads audio files, so that many missing ones show that a folder is not
            mounted.
        shares_out: whether OUT may hold files that the run did not write; then no note is printed about them.
        ranks_help: whether ranks make units of each other as well, when their share is done.
        shared_notes: the name of the notes about crashes, if a worker works on several units at once; empty if each
            worker has its own unit (`prepcli.engine.run.crashes`).
        preparing: words for what `prepare` does, for `status`; empty if that takes no time.
        takes_executor: whether an executor (`RunOptions.engine`) can make the units.
        rejects_in_order: whether the rejects of all units, one unit after the other, have the order of the inputs, and
            the plan has no rejects. The rejects are then joined without sorting, because there may be millions.
        telemetry: the names of those facts in the result of `finish` that are figures about the run; the summary shows
            them only with `--verbose`.
        defaults: for each setting, words for its value if it is not given (`prepcli.interface.options.shown_defaults`).
        kept_by_overwrite: the results that `--overwrite` keeps, in words for a message; empty if it keeps none.
        adding: how to add the input to an output that was made from another input, in words for a message; empty if
            impossible.
        elsewhere: what the user should choose if the output is in use, in words for a message; empty: another OUT.
    """

    reads_audio_files: bool = True
    shares_out: bool = False
    ranks_help: bool = False
    shared_notes: str = ""
    preparing: str = ""
    takes_executor: bool = False
    rejects_in_order: bool = False
    telemetry: Collection[str] = ()
    defaults: Mapping[str, str] = {}
    kept_by_overwrite: str = ""
    adding: str = ""
    elsewhere: str = ""

    @property
    @abstractmethod
    def command(self) -> str:
        """The command's name, e.g. `manifest-to-tarred`."""

    @abstractmethod
    def plan(self, workspace: Workspace) -> Plan[UnitT, Contents]:
        """Read the inputs and divide the work into units; called once in the main process of every rank.

        Planning may write to `workspace`, which is a temporary workspace in a dry run.

        Raises:
            UsageError: the inputs or the options are invalid; nothing has been written to OUT yet.
        """

    @abstractmethod
    def settings(self, plan: Plan[UnitT, Contents]) -> dict[str, Any]:
        """Every option that shapes the output, under its command-line name, as JSON values."""

    @abstractmethod
    def output_patterns(self, plan: Plan[UnitT, Contents]) -> Sequence[str]:
        """Globs, as narrow as possible, for the names below OUT by which readers find the parts of the data set.

        A run does not begin if foreign files match them. Files that readers find only through lists in the data set
        need no glob. `NUMBER` (`prepcli.storage.paths`) stands for the number of a shard.
        """

    def made_of(self, found: OutputFiles, name: str) -> Iterable[str]:
        """The possible names of index files of the published file `name`; they are removed together with it.

        Any program may have written the index files. `found` looks up files in OUT.
        """
        return ()

    def input_files(self, plan: Plan[UnitT, Contents]) -> Iterable[str | AnyPath]:
        """The files that the job reads and must never replace; files that cannot be in OUT may be left out."""
        return [file.path for file in plan.inputs]

    def files_of_records(self, plan: Plan[UnitT, Contents]) -> Iterable[str | AnyPath]:
        """Input files besides `input_files`: one or several per record, for example its audio.

        The engine asks for them only before it removes files of an earlier run.
        """
        return ()

    def missing_sample(self, plan: Plan[UnitT, Contents]) -> str | None:
        """An error message if all files of a sample of the input are missing; None otherwise.

        Called before the work and in a dry run, so that a wrong folder is found at once.
        """
        return plan.missing_sample() if self.reads_audio_files else None

    def prepare(self, plan: Plan[UnitT, Contents]) -> None:
        """Prepare for the units, for example load the model. This shows problems that no check of the options can find.

        Called if there is work: first before anything is written, and again before units are done. Only the first call
        does something.

        Raises:
            UsageError: the run cannot succeed.
        """

    def check_done(self, done: Sequence[UnitT], workspace: Workspace) -> None:
        """Check that the missing units can be added to the finished ones; called before they are done.

        By default, nothing is checked. A job whose input can change without a new plan digest checks that the finished
        units were made from the current input.

        Raises:
            UsageError: a unit was made from other input, or a file is in the way of the whole output.
        """

    @abstractmethod
    def execute(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        """Process `units` (longest first), and yield the marker of each after it is published.

        Units that other ranks do may be left out. If a worker crashes, this is called again with the units that are
        left.

        Raises:
            IncompleteError: a worker process was killed.
        """

    def finish(self, plan: Plan[UnitT, Contents], markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Merge the files of the units when all are done; may run more than once, with the same result.

        `markers`: what each unit has published and counted, in the order of the plan's units. Returns further facts for
        the report's `details`, by name; each path or list of paths is also one of its `outputs`.
        """
        return {}


AnyJob = Job[Any, Any]
"""Any job, as the engine handles it."""
