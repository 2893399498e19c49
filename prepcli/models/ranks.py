"""Runs a job with a model: in this process, or in one rank process per GPU."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from tempfile import TemporaryFile
from typing import IO

from prepcli.engine.ranks.launch import check_writable, spawn_ranks
from prepcli.engine.run.crashes import has_crashed
from prepcli.engine.run.job import AnyJob, RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import CONTINUE, After, conclude, run_job, with_continuation
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import IncompleteError, PrepcliError, UsageError
from prepcli.interface.calls import shows_progress, tell, words_called
from prepcli.models.devices import find_devices


def run_on_devices(
    make_job: Callable[[str], AnyJob],
    devices: str,
    workspace: Workspace,
    engine: RunOptions,
    after: After | None = None,
) -> Report:
    """Run the job `make_job(device)` on the devices that `--devices` names, and return the report of the run.

    With several GPUs and no launcher, the command is started once per GPU, and this process waits. If an earlier start
    has crashed inside the model, the command is started as a new process even for one device, and started again if it
    crashes once more. The arguments after `devices` are explained in `run_job`.
    """
    has_launcher = engine.rank.launcher != "none"
    job = make_job("cpu")  # wrong options are reported before PyTorch is imported, and before ranks start
    if not engine.dry_run:
        check_writable(workspace)
    try:
        chosen = find_devices(devices, engine.rank)
    except IncompleteError as error:
        raise with_continuation(error, job.command, workspace) from None
    if chosen.sharing:
        tell(f"note: {chosen.sharing}")
    may_crash = not has_launcher and has_crashed(workspace)
    if (chosen.num_ranks > 1 or may_crash) and not engine.dry_run:
        return run_ranks(chosen.num_ranks, job, workspace, engine, after)
    if chosen.num_ranks > 1:
        engine = replace(engine, rank=replace(engine.rank, world_size=chosen.num_ranks))
    if chosen.device != "cpu":
        job = make_job(chosen.device)
    return run_job(job, workspace, engine, after)


def run_ranks(
    num_ranks: int, job: AnyJob, workspace: Workspace, engine: RunOptions, after: After | None = None
) -> Report:
    """Start the command as `num_ranks` processes, wait for them, and return the report of the run.

    If progress is shown, the ranks print it, and their errors, on stderr. Otherwise they print nothing, and the raised
    error contains the error message of one rank.

    Raises:
        PrepcliError: the ranks have failed.
    """
    before, _ = _stored(workspace)
    with ExitStack() as stack:
        files = [stack.enter_context(TemporaryFile()) for _ in range(0 if shows_progress() else num_ranks)]
        code = spawn_ranks(words_called(), num_ranks, files, engine.rank)
        messages = [message for file in files if (message := _last_message(file))]
    now, report = _stored(workspace)
    if code == 4 and report is not None and now != before:
        tell("note: a rank has ended early; the others have done its units")
        code = 0
    if code not in (0, 3) or report is None:
        raise _error(code, messages, job.command, workspace)
    if now == before:
        report.status = "nothing_to_do"
    return conclude(report, engine.budget, after)


def _error(code: int, messages: list[str], command: str, workspace: Workspace) -> PrepcliError:
    """Return the error of the run, from the exit code and the messages of its ranks."""
    if code not in (1, 2):
        why = messages[0].partition(CONTINUE)[0] if messages else "interrupted, or a rank died"
        error: PrepcliError = with_continuation(IncompleteError(why), command, workspace)
    else:
        message = messages[0] if messages else f"a rank has ended with exit code {code}"
        error = {1: PrepcliError, 2: UsageError}[code](message)
    error.is_printed = shows_progress()
    return error


def _last_message(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line.removeprefix("prepcli: ") for line in reversed(lines) if line.startswith("prepcli: ")), "")


def _stored(workspace: Workspace) -> tuple[float, Report | None]:
    report = read_document(workspace.report_file, Report)
    return (workspace.report_file.stat().st_mtime_ns if report else 0.0), report
