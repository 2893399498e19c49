"""`run`: a command says in functions how its input is divided, written and joined, and this runs them."""
# ruff: noqa: D102 - methods of `Job`, which explains them

import glob
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from typing_extensions import Unpack

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.executors import do_in_executor
from prepcli.engine.run.job import Job, RunOptions
from prepcli.engine.run.options import run_options
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.run.unit import Advance, Execution, do_in_workers
from prepcli.engine.state.plan import AnyPlan, Contents, Plan, UnitT
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.work_folder import note_unused, work_folder
from prepcli.engine.state.workspace import FileWorkspace, Workspace, real_file
from prepcli.interface.calls import current_call
from prepcli.interface.options import PathText, settings_of, shown_defaults
from prepcli.storage.paths import AnyPath, path_of


class Output:
    """The folder, or the prefix in a store, that the current command writes, and how it runs.

    Attributes:
        path: the folder.
        engine: the options of the engine.
        patterns: see `prepcli.engine.run.job.Job.output_patterns`.
    """

    path: AnyPath
    workspace: Workspace

    def __init__(self, out: PathText, *patterns: str, inside: str = "", others: Sequence[AnyPath] = ()) -> None:
        """Read the options of the run.

        Args:
            out: the output.
            patterns: see the class.
            inside: the folder of the state, inside that of the run that made `out`; empty: the folder of that run.
            others: further paths for which `--work-dir` matters.

        Raises:
            UsageError: the options of the run contradict each other, or the environment of the launcher.
        """
        asked = current_call().options
        self.engine: RunOptions = run_options(asked)
        self.patterns: Sequence[str] = patterns
        self._open(str(out), getattr(asked, "work_dir", None), inside, others)

    def _open(self, out: str, work_dir: Path | None, inside: str, others: Sequence[AnyPath]) -> None:
        self.path = path_of(out)
        root = work_folder(self.path, work_dir) / inside if inside else None
        self.workspace = Workspace(self.path, root, work_dir=work_dir)
        note_unused(work_dir, self.path, *others)


class OutputFile(Output):
    """The file that the current command writes."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    def _open(self, out: str, work_dir: Path | None, inside: str, others: Sequence[AnyPath]) -> None:
        self.path = real_file(Path(out))
        self.workspace = FileWorkspace(self.path)
        self.patterns = (glob.escape(self.name),)


Planning = Callable[[Workspace], Plan[UnitT, Contents]]
"""Reads the inputs and divides the work into units (`prepcli.engine.run.job.Job.plan`)."""
Write = Callable[[Contents, UnitT, UnitWriter], object]
"""Writes the files of a unit in a worker process, and counts or rejects each of its records. `UnitWriter.advance` shows
progress."""
Finish = Callable[[Plan[UnitT, Contents], Sequence[Marker], UnitWriter], Mapping[str, Any]]
"""Joins what the units have made (`prepcli.engine.run.job.Job.finish`); returns facts for the report."""

Settings = Mapping[str, Any] | Callable[[Plan[UnitT, Contents]], Mapping[str, Any]] | None
"""Everything that shapes the output, as JSON values, or a function of the plan that returns it."""


def _nothing(*_: object) -> dict[str, Any]:
    return {}


class Hooks(TypedDict, total=False):
    """Further functions and properties of a run, each with a default that most commands keep.

    Attributes:
        command: the name of the command that is recorded; by default that of the call. A call may run several.
        shares_out: see `prepcli.engine.run.job.Job`.
        reads_audio_files: whether many missing audio files show that a folder is not mounted; by default True.
        input_files: files that the command reads, besides those of the plan, and must not replace.
        files_of_records: input files besides those, such as the audio of all records; asked for only before files of an
            earlier run are removed.
        prepare: prepares for the units, perhaps several times; called in the main process if there are units to make.
        check_done: checks that the missing units can be added to the finished ones; raises `UsageError`.
        made_of: the possible names of index files of a published file, which are removed together with it.
        rejects_in_order: see `prepcli.engine.run.job.Job`.
        telemetry: names of details that are figures about the run.
        adding: how to add the input to an output of another input, in words for a message; empty if impossible.
        kept_by_overwrite: the results that `--overwrite` keeps, in words for a message; empty if it keeps none.
    """

    command: str
    shares_out: bool
    reads_audio_files: bool
    input_files: Sequence[str | AnyPath]
    files_of_records: Callable[[AnyPlan], Iterable[str | AnyPath]]
    prepare: Callable[[], object]
    check_done: Callable[[Sequence[Any], Workspace], object]
    made_of: Callable[[OutputFiles, str], Iterable[str]]
    rejects_in_order: bool
    telemetry: Collection[str]
    adding: str
    kept_by_overwrite: str


class PlannedJob(Job[UnitT, Contents]):
    """A job whose plan, settings and final merge are functions; for the arguments see `run`."""

    ranks_help = True

    def __init__(
        self,
        output: Output,
        plan: Planning[UnitT, Contents],
        finish: Finish[UnitT, Contents] = _nothing,
        settings: Settings[UnitT, Contents] = None,
        **hooks: Unpack[Hooks],
    ) -> None:
        self._call, self._output, self._hooks = current_call(), output, hooks
        self._plan, self._finish, self._settings = plan, finish, settings
        self.defaults = shown_defaults(type(self._call.options))
        self.shares_out = hooks.get("shares_out", False)
        self.reads_audio_files = hooks.get("reads_audio_files", True)
        self.rejects_in_order = hooks.get("rejects_in_order", False)
        self.telemetry = hooks.get("telemetry", ())
        self.adding = hooks.get("adding", "")
        self.kept_by_overwrite = hooks.get("kept_by_overwrite", "")

    @property
    def command(self) -> str:
        return self._hooks.get("command", self._call.command)

    def plan(self, workspace: Workspace) -> Plan[UnitT, Contents]:
        return self._plan(workspace)

    def settings(self, plan: Plan[UnitT, Contents]) -> dict[str, Any]:
        if self._settings is None:
            return settings_of(self._call.options)
        return dict(self._settings(plan) if callable(self._settings) else self._settings)

    def output_patterns(self, plan: Plan[UnitT, Contents]) -> Sequence[str]:
        return self._output.patterns  # a plan may have narrowed them

    def input_files(self, plan: Plan[UnitT, Contents]) -> Iterable[str | AnyPath]:
        return [*super().input_files(plan), *self._hooks.get("input_files", ())]

    def files_of_records(self, plan: Plan[UnitT, Contents]) -> Iterable[str | AnyPath]:
        return self._hooks.get("files_of_records", _nothing)(plan)

    def prepare(self, plan: Plan[UnitT, Contents]) -> None:
        self._hooks.get("prepare", _nothing)()

    def check_done(self, done: Sequence[UnitT], workspace: Workspace) -> None:
        self._hooks.get("check_done", _nothing)(done, workspace)

    def made_of(self, found: OutputFiles, name: str) -> Iterable[str]:
        return self._hooks.get("made_of", _nothing)(found, name)

    def finish(self, plan: Plan[UnitT, Contents], markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        return dict(self._finish(plan, markers, writer))


class FunctionJob(PlannedJob[UnitT, Contents]):
    """The job that `run` does: its units are written in worker processes, which inherit the job and its plan."""

    def __init__(
        self,
        output: Output,
        plan: Planning[UnitT, Contents],
        write: Write[Contents, UnitT],
        finish: Finish[UnitT, Contents] = _nothing,
        settings: Settings[UnitT, Contents] = None,
        **hooks: Unpack[Hooks],
    ) -> None:
        super().__init__(output, plan, finish, settings, **hooks)
        self._write = write
        self.takes_executor = True

    def execute(self, plan: Plan[UnitT, Contents], units: Sequence[UnitT], execution: Execution) -> Iterator[Marker]:
        process = partial(_process, self._write, plan.contents)
        if execution.executor is not None:
            return do_in_executor(execution.executor, process, units, execution)
        return do_in_workers(process, units, execution)


def _process(
    write: Write[Contents, UnitT], contents: Contents, unit: UnitT, writer: UnitWriter, advance: Advance
) -> None:
    writer.advance = advance
    write(contents, unit, writer)


def run(
    output: Output,
    plan: Planning[UnitT, Contents],
    write: Write[Contents, UnitT],
    finish: Finish[UnitT, Contents] = _nothing,
    *,
    settings: Settings[UnitT, Contents] = None,
    **hooks: Unpack[Hooks],
) -> Report:
    """Do this rank's share of the units in worker processes; commit if all units are done, by any rank.

    The units and what they write must depend on the inputs and the settings only; then OUT is the same for any number
    of ranks and workers.

    Args:
        output: where the command writes.
        plan: called once in the main process of every rank.
        write: called for each unit, in a worker process that has inherited the plan.
        finish: called by the rank that finds all units done.
        settings: everything that shapes the output, as JSON values, or a function of the plan that returns it; by
            default the options of the command that do (`prepcli.interface.options.settings_of`).
        hooks: see `Hooks`.

    Raises:
        UsageError: the inputs or the options are wrong, or OUT belongs to another run or has files of others.
        TooManyRejectsError: more records were rejected than `--max-rejects` allows.
        IncompleteError: the run was interrupted, or a worker was killed.
    """
    return run_job(FunctionJob(output, plan, write, finish, settings, **hooks), output.workspace, output.engine)
