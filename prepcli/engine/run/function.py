"""`run`: a command says in functions how its input is divided, written and joined, and this runs them."""

import glob
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.job import RunOptions, UnitJob
from prepcli.engine.run.options import run_options
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.run.unit import Advance
from prepcli.engine.state.plan import Contents, Plan, UnitT
from prepcli.engine.state.work_folder import note_unused
from prepcli.engine.state.workspace import FileWorkspace, Workspace, real_file
from prepcli.interface.calls import Call, current_call
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

    def __init__(self, out: PathText, *patterns: str) -> None:
        """Raise `UsageError` if the options of the run contradict each other, or the environment of the launcher."""
        asked = current_call().options
        self.engine: RunOptions = run_options(asked)
        self.patterns: Sequence[str] = patterns
        self._open(str(out), getattr(asked, "work_dir", None))

    def _open(self, out: str, work_dir: Path | None) -> None:
        self.path = path_of(out)
        self.workspace = Workspace(self.path, work_dir=work_dir)
        note_unused(work_dir, self.path)


class OutputFile(Output):
    """The file that the current command writes."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    def _open(self, out: str, work_dir: Path | None) -> None:
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


class _Functions(UnitJob[UnitT, Contents]):
    """A job of functions."""

    find_files: Callable[[Plan[UnitT, Contents]], Iterable[str | AnyPath]]
    check_units: Callable[[Sequence[UnitT], Workspace], object]

    def __init__(
        self,
        call: Call,
        output: Output,
        divide: Planning[UnitT, Contents],
        write: Write[Contents, UnitT],
        join: Finish[UnitT, Contents],
        settings: Settings[UnitT, Contents],
        input_files: Sequence[str | AnyPath],
        prepare: Callable[[], object],
    ) -> None:
        self._call, self._divide, self._write, self._join = call, divide, write, join
        self._settings, self._patterns, self._input_files = settings, output.patterns, input_files
        self._prepare = prepare
        self.defaults = shown_defaults(type(call.options))

    @property
    def command(self) -> str:
        return self._call.command

    def plan(self, workspace: Workspace) -> Plan[UnitT, Contents]:
        return self._divide(workspace)

    def settings(self, plan: Plan[UnitT, Contents]) -> dict[str, Any]:
        if self._settings is None:
            return settings_of(self._call.options)
        return dict(self._settings(plan) if callable(self._settings) else self._settings)

    def output_patterns(self, plan: Plan[UnitT, Contents]) -> Sequence[str]:
        return self._patterns

    def input_files(self, plan: Plan[UnitT, Contents]) -> Iterable[str | AnyPath]:
        return [*super().input_files(plan), *self._input_files]

    def missing_sample(self, plan: Plan[UnitT, Contents]) -> str | None:
        return plan.missing_sample() if self.reads_audio_files else None

    def planned_rejects(self, plan: Plan[UnitT, Contents]) -> Iterator[bytes]:
        return plan.reject_lines()

    def prepare(self) -> None:
        self._prepare()

    def files_of_records(self, plan: Plan[UnitT, Contents]) -> Iterable[str | AnyPath]:
        return self.find_files(plan)

    def check_done(self, done: Sequence[UnitT], workspace: Workspace) -> None:
        self.check_units(done, workspace)

    def process(self, plan: Plan[UnitT, Contents], unit: UnitT, writer: UnitWriter, advance: Advance) -> None:
        writer.advance = advance
        self._write(plan.contents, unit, writer)

    def finish(self, plan: Plan[UnitT, Contents], markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        return dict(self._join(plan, markers, writer))


def run(
    output: Output,
    plan: Planning[UnitT, Contents],
    write: Write[Contents, UnitT],
    finish: Finish[UnitT, Contents] = _nothing,
    *,
    settings: Settings[UnitT, Contents] = None,
    reads_audio_files: bool = True,
    input_files: Sequence[str | AnyPath] = (),
    prepare: Callable[[], object] = _nothing,
    rejects_in_order: bool = False,
    telemetry: Collection[str] = (),
    files_of_records: Callable[[Plan[UnitT, Contents]], Iterable[str | AnyPath]] = lambda _: (),
    check_done: Callable[[Sequence[UnitT], Workspace], object] = _nothing,
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
        reads_audio_files: whether many missing audio files show that a folder is not mounted.
        input_files: files that the command reads, besides those of the plan, and must not replace.
        prepare: prepares for the units; called in the main process, perhaps several times, if there are units to make.
        rejects_in_order: see `prepcli.engine.run.job.Job`, also for the following arguments.
        telemetry: names of details that are figures about the run.
        files_of_records: input files besides those of the plan, such as the audio; asked for only before files of an
            earlier run are removed.
        check_done: checks that the missing units can be added to the finished ones; raises `UsageError`.

    Raises:
        UsageError: the inputs or the options are wrong, or OUT belongs to another run or has files of others.
        TooManyRejectsError: more records were rejected than `--max-rejects` allows.
        IncompleteError: the run was interrupted, or a worker was killed.
    """
    job = _Functions(current_call(), output, plan, write, finish, settings, input_files, prepare)
    job.find_files, job.check_units = files_of_records, check_done
    job.reads_audio_files, job.rejects_in_order = reads_audio_files, rejects_in_order
    job.telemetry = telemetry
    return run_job(job, output.workspace, output.engine)
