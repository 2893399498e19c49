"""status: shows the progress of runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, folder_of, paths_of
from prepcli.interface.shared_options import Json, WorkDir

if TYPE_CHECKING:
    from prepcli.engine.run.status import Statuses
    from prepcli.storage.paths import AnyPath


@command("status")
def status(
    out: Annotated[
        Paths,
        Option("Output directories of other commands.", metavar="OUT...", is_argument=True, takes_address=True),
    ],
    *,
    work_dir: WorkDir = None,
    clean: Annotated[
        bool,
        Option(
            "Remove the folders of unfinished runs that the output does not need: all, or all but the newest if no run "
            "has finished. A run that is at work stays."
        ),
    ] = False,
    account: Annotated[
        bool,
        Option(
            "Add up the runs that made OUT, from the sources on: the seconds in, kept and left out, by reason. Reads "
            "the manifests again.",
            disables=("clean", "watch"),
        ),
    ] = False,
    as_json: Json = False,
    watch: Annotated[
        bool,
        Option("Repeat until no run is active or waits for its start.", only="command line"),
    ] = False,
    every: Annotated[
        float, Option("Interval of --watch in seconds.", minimum=0.1, only="command line", needs="watch")
    ] = 5.0,
) -> "Statuses":
    """Show the progress of runs: done, missing, rejects, rate, time left, slowest rank, and how to continue.

    Several outputs are shown as one table, followed by those that have stopped. Reads only the files in OUT.prepcli/,
    so it works while ranks run, also on other machines. With --watch, the exit code is 4 if a run has stopped before
    its end; if the output is not a terminal, a line is printed only when something has changed.

    --account follows the inputs of OUT back through the runs that made them, as long as their folders OUT.prepcli are
    there: seconds in = seconds kept + pauses, overlap, rejects, what rules left out, and what later runs did not read.

    Example: prepcli status clean/ context/ shar/ --watch

    Returns:
        A list with the state of each run; with `account`, its attribute `account` has the sums. An output has several
        runs if later runs have added to it. If several outputs are given, those without a run have the state
        `not_started`.

    Raises:
        UsageError: no output is given; or one is given, and no run of prepcli has written to it; or --account is given
            with several outputs, or a run of the chain has not finished.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "watched", num_shards=2)
        >>> [(run.out, run.state, run.records_out) for run in prepcli.status("watched")]
        [('watched', 'finished', 48)]
    """
    from prepcli.engine.run.status import Status, Statuses, read_status, workspaces_to_show
    from prepcli.engine.state.work_folder import note_unused
    from prepcli.errors import UsageError, option

    outs, state = list(dict.fromkeys(map(_named, paths_of(out)))), folder_of(work_dir)
    if not outs:
        raise UsageError("OUT is missing: give the output directories of other commands")
    if account and len(outs) > 1:
        raise UsageError(f"{option('--account')} adds up the runs of one OUT: give one")
    if not watch:
        note_unused(state, *outs)
    shown = Statuses()
    for path in outs:
        try:
            statuses = [read_status(workspace) for workspace in workspaces_to_show(path, state)]
            if clean:  # only what is known to be a run
                _clean(path, state)
                statuses = [read_status(workspace) for workspace in workspaces_to_show(path, state)]
            shown += statuses
        except UsageError:
            if len(outs) == 1 and not watch:
                raise
            shown.append(Status(str(path)))
    if account:
        from prepcli.commands.status.account import account_of

        shown.account = account_of(outs[0], state)
    return shown


def _clean(path: "AnyPath", work_dir: Path | None) -> None:
    from prepcli.engine.cleaning import remove_unfinished
    from prepcli.engine.run.report import format_bytes
    from prepcli.engine.run.status import workspaces_of
    from prepcli.interface.calls import tell

    removed = [remove_unfinished(workspace) for workspace in workspaces_of(path, work_dir)]
    count, num_bytes = (sum(numbers) for numbers in zip(*removed, strict=True))
    tell(f"note: {path}: removed {count:,} unfinished run(s), {format_bytes(num_bytes)}")


def _named(path: "AnyPath") -> "AnyPath":
    """The output that a path names: `out` for `out.prepcli` too, because shell patterns such as `out*` match both."""
    if not isinstance(path, Path):
        return path
    name = path.name.removesuffix(".prepcli")
    return path.with_name(name) if name and name != path.name else path  # `.` and `/` have no name
