"""Runs `status`: from its options to its report."""

from prepcli.commands.status.options import ShowStatus
from prepcli.engine.cleaning import remove_unfinished
from prepcli.engine.run.report import format_bytes
from prepcli.engine.run.status import Status, Statuses, read_status, workspaces_of, workspaces_to_show
from prepcli.engine.state.work_folder import note_unused
from prepcli.errors import UsageError
from prepcli.interface.calls import tell
from prepcli.storage.paths import AnyPath, StorePath


def status(options: ShowStatus) -> Statuses:
    """Read the progress of runs.

    Returns:
        A list with the state of each run. An output has several runs if later runs have added to it. If several outputs
        are given, those without a run have the state `not_started`.

    Raises:
        UsageError: no output is given; or one is given, and no run of prepcli has written to it.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "watched", num_shards=2)
        >>> [(run.out, run.state, run.records_out) for run in prepcli.status("watched")]
        [('watched', 'finished', 48)]
    """
    outs = list(dict.fromkeys(_named(path) for path in options.out))
    if not outs:
        raise UsageError("OUT is missing: give the output directories of other commands")
    if not options.watch:
        note_unused(options.work_dir, *outs)
    found = Statuses()
    for path in outs:
        try:
            statuses = [read_status(workspace) for workspace in workspaces_to_show(path, options.work_dir)]
            if options.clean:  # only what is known to be a run
                _clean(path, options)
                statuses = [read_status(workspace) for workspace in workspaces_to_show(path, options.work_dir)]
            found += statuses
        except UsageError:
            if len(outs) == 1 and not options.watch:
                raise
            found.append(Status(str(path)))
    return found


def _clean(path: AnyPath, options: ShowStatus) -> None:
    removed = [remove_unfinished(workspace) for workspace in workspaces_of(path, options.work_dir)]
    count, num_bytes = (sum(numbers) for numbers in zip(*removed, strict=True))
    tell(f"note: {path}: removed {count:,} unfinished run(s), {format_bytes(num_bytes)}")


def _named(path: AnyPath) -> AnyPath:
    """The output that a path names: `out` for `out.prepcli` too, because shell patterns such as `out*` match both."""
    if isinstance(path, StorePath):
        return path
    name = path.name.removesuffix(".prepcli")
    return path.with_name(name) if name and name != path.name else path  # `.` and `/` have no name
