"""Starts a run: refuses an output of another run, and a run that would replace or remove inputs."""

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from prepcli.engine.ledger import is_run_folder
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.ranks.progress import is_running_elsewhere
from prepcli.engine.run.job import AnyJob, RunOptions
from prepcli.engine.run.status import workspaces_of
from prepcli.engine.state.plan import PLAN_FORMAT, AnyPlan, StoredPlan, differences
from prepcli.engine.state.stock import MAX_LISTED, Stock
from prepcli.engine.state.stored_units import write_units
from prepcli.engine.state.workspace import CLEARED_FILES, CLEARED_FOLDERS, EDITABLE_FILES, Workspace, read_document
from prepcli.errors import RejectReason, UsageError, option
from prepcli.interface.calls import command_line, revisions, tell
from prepcli.interface.printing import number_of
from prepcli.storage.addresses import is_address
from prepcli.storage.input_files import check_unchanged, same_file
from prepcli.storage.paths import AnyPath, StorePath, absolute, real_path

if TYPE_CHECKING:
    from prepcli.engine.runs import FolderRun


def refuse_other_command(job: AnyJob, workspace: Workspace, options: RunOptions) -> None:
    """Raise `UsageError` if another command has made the output; called before planning, which may take long."""
    stored = None if options.overwrite else read_document(workspace.plan_file, StoredPlan)
    if stored is not None and stored.command != job.command:
        raise UsageError(
            f"{workspace.named} was made differently: by {stored.command}, not {job.command}. Choose "
            f"{elsewhere(job, workspace)}, or move {workspace.named} and {workspace.root} away first"
        )


def note_additions(workspace: Workspace) -> None:
    """Print a note for each run that added to the output which is now made again, such as its codec codes."""
    for added in workspaces_of(workspace.named, workspace.main_root.parent):
        plan = read_document(added.plan_file, StoredPlan)
        if plan is not None and added.root != workspace.root:
            tell(
                f"note: {added.root.name} was made of the earlier {workspace.named}, and will not fit the new one; run "
                f"afterwards: {plan.run_again(workspace.named)} {option('--overwrite')}"
            )


def made_differently(run: "FolderRun", stored: StoredPlan) -> str:
    """The message for an output that was made in another way, according to its plan `stored`."""
    place = elsewhere(run.job, run.workspace)
    if not run.options.overwrite:
        kept = run.job.kept_by_overwrite
        earlier = {file.get("sha256") for file in stored.inputs}
        add = run.job.adding if earlier.isdisjoint(file.sha256 for file in run.plan.inputs) else ""
        advice = f"{add}Choose {place}, or give {option('--overwrite')} to start again{kept and f' ({kept})'}"
    else:
        advice = (
            "Another command, or another rank of this launch, has just begun there: let that finish, choose "
            f"{place}, or start all ranks with the same options and a new {option('--launch-id')}"
        )
    found = "; ".join(differences(stored, run.job.command, run.settings, run.plan, run.job.defaults))
    return f"{run.workspace.named} was made differently: {found}. {advice}"


def elsewhere(job: AnyJob, workspace: Workspace) -> str:
    """Return words for an output that a user may choose in place of one that is in use."""
    return job.elsewhere or ("another file" if workspace.named != workspace.out else "another directory")


def warn_if_running(run: "FolderRun") -> None:
    """Print a note if another process is at work as the same rank."""
    rank = run.options.rank
    other = is_running_elsewhere(run.workspace, rank)
    if other is not None:
        tell(
            f"note: rank {other.rank} seems to be running already (process {other.pid} on {other.host}); "
            f"both do the same work, and the output stays correct. Stop one of them, or share the work: give each "
            f"its own {option('--rank')}, and both {option('--world-size', max(rank.world_size, 2))}"
        )


def revisions_of(workspace: Workspace, options: RunOptions) -> Mapping[str, str]:
    """The commit of each data set on the hub that a continued run has read, by the data set's address.

    Empty for a run that begins now.
    """
    rank, begun = options.rank, workspace.unfinished_runs()
    if options.overwrite:
        launch = rank.job_id or rank.launch_id
        begun = [run for run in begun if launch and run.name.endswith(f".{launch}")]
        if not begun:
            return {}
    plan = read_document(begun[0] / "plan.json" if begun else workspace.plan_file, StoredPlan)
    return {} if plan is None else plan.revisions


def check_sample(job: AnyJob, plan: AnyPlan, budget: Budget) -> None:
    """Look for a sample of the input files before the work begins, and stop if they are missing.

    If `budget` allows that all records are rejected, this does nothing.

    Raises:
        UsageError: the files are missing; the message has the path of one.
    """
    all_missing = {RejectReason.MISSING_AUDIO.value: plan.records_in}
    if plan.units and budget.exceeded(all_missing, plan.records_in):
        message = job.missing_sample(plan)
        if message is not None:
            raise UsageError(message)


def note_other_files(run: "FolderRun") -> None:
    """Print a note that existing files in OUT are kept; called when a run begins, before anything is written."""
    workspace = run.workspace
    adds_to_another = workspace.root != workspace.main_root  # such as the codes of a codec
    if run.job.shares_out or adds_to_another:
        return
    names = list(islice(workspace.found.below(), MAX_LISTED))
    if names:
        count = f"{MAX_LISTED:,} or more files" if len(names) == MAX_LISTED else number_of(len(names), "file")
        tell(
            f"note: {workspace.out} already holds {count}, such as {names[0]}; they are kept, and the output is "
            "written beside them. Choose an empty directory to keep the two apart"
        )


def plan_document(run: "FolderRun") -> StoredPlan:
    """Return the content of `plan.json` for the run that begins now, and write the file with the units of the plan."""
    plan, workspace = run.plan, run.workspace
    return StoredPlan(
        command=run.job.command,
        digest=run.digest,
        settings=run.settings,
        inputs=[{"path": str(file.path), "sha256": file.sha256} for file in plan.inputs],
        records_in=plan.records_in,
        skipped=plan.num_skipped,
        planned_rejects=plan.planned_rejects,
        seconds=plan.total_cost if plan.knows_seconds else 0.0,
        knows_seconds=plan.knows_seconds,
        run_with=command_line(of_rank=False),
        run_in=str(Path.cwd()),
        num_units=len(plan.units),
        units_bytes=write_units(workspace, run.digest, plan.units),
        writes_file=workspace.named != workspace.out,
        out=absolute(workspace.named),
        format=PLAN_FORMAT,
        revisions=revisions(),
        rank_id=workspace.rank_id,
    )


class _Place(NamedTuple):
    """An input: its path as given, its absolute path, its path without symbolic links, and its number of hard links.

    `num_links` is 0 for an address, and for a file that does not exist.
    """

    path: str
    absolute: str
    real: str
    num_links: int


def refuse_to_lose_inputs(run: "FolderRun", removed: Stock | None = None) -> None:
    """Check, before any change, that no input is among the files that the run would replace or remove.

    `removed`: the files that are about to be removed; None if the run only writes.

    Raises:
        UsageError: an input is among them, by name or through a link.
    """
    job, plan, workspace = run.job, run.plan, run.workspace
    inputs = [str(path) for path in job.input_files(plan)]
    places = list(_places(inputs))
    lost = _first_among_records(workspace.root, places)
    if lost is not None:
        raise UsageError(
            f"the input {lost} belongs to the state of {workspace.out} in {workspace.root}, which this run would "
            "replace; choose another output directory, or copy the input first"
        )
    is_new = removed is not None or read_document(workspace.plan_file, StoredPlan) is None
    if not (is_new or _may_be_in(workspace.out, places)):
        return  # a run that is continued need not look at each of its files
    outputs: Iterable[AnyPath] = workspace.found.matching(job.output_patterns(plan))
    every: Iterable[str] = inputs
    if removed is not None:
        outputs = [workspace.out / name for name in (*removed.ours, *removed.mistakable)]
        every = chain(inputs, map(str, job.files_of_records(plan)))
    if isinstance(workspace.out, StorePath):
        by_address = {str(path): path for path in outputs}
        found = next(((by_address[path], path) for path in map(absolute, every) if path in by_address), None)
    else:
        found = same_file(outputs, every)
    if found is not None:
        output, path = found
        same = "" if str(output) == path else f" (it is {output})"
        verb = "replace" if removed is None else "remove"
        raise UsageError(
            f"the input {path}{same} lies where this command writes its output, which would {verb} it; choose "
            f"{elsewhere(job, workspace)}"
        )


def _places(paths: Iterable[str]) -> Iterator[_Place]:
    for path in paths:
        num_links = os.stat(path).st_nlink if not is_address(path) and os.path.exists(path) else 0
        yield _Place(path, absolute(path), real_path(path), num_links)


def _first_among_records(root: Path, places: Iterable[_Place]) -> str | None:
    """The path of the first input that a run or `--overwrite` would replace or remove in `root`, the state folder.

    Returns None if no input is at risk.
    """
    roots = os.path.abspath(root) + os.sep, os.path.realpath(root) + os.sep
    for place in places:
        for name, above in zip((place.absolute, place.real), roots, strict=True):
            below = name.removeprefix(above).split(os.sep) if name.startswith(above) else [""]
            if (
                below[0] in CLEARED_FOLDERS
                or is_run_folder(below[0])
                or (len(below) == 1 and below[0] in (*CLEARED_FILES, *EDITABLE_FILES))
            ):
                return place.path
    return None


def _may_be_in(out: AnyPath, places: Iterable[_Place]) -> bool:
    """Whether some input can be a file in `out`: it is in that folder, or has several hard links."""
    folder = real_path(out) + os.sep
    return any(one.real.startswith(folder) or one.absolute.startswith(folder) or one.num_links > 1 for one in places)


def check_inputs(plan: AnyPlan) -> None:
    """Check that the inputs are unchanged since the plan was made.

    Raises:
        InputChangedError: one of them has changed.
    """
    for file in plan.inputs:
        if file.state is not None:
            check_unchanged(file.path, file.state, same_content=file.has_same_content if file.digest_of else None)


def refuse_other_file_systems(run: "FolderRun") -> None:
    """Refuse folders of OUT, which exist already, to which files cannot be renamed from the folder of the run.

    Raises:
        UsageError: such a folder is a mount point, or a link to another file system.
    """
    if isinstance(run.workspace.out, StorePath):
        return
    out, root = run.workspace.folder, run.workspace.root
    names = {str(name) for pattern in run.job.output_patterns(run.plan) for name in PurePath(pattern).parents}
    for folder in sorted(folder for name in names - {"."} for folder in out.glob(name)):
        if folder.stat().st_dev != root.stat().st_dev:
            raise UsageError(
                f"{folder} is on another file system than {root}; finished files could not be moved into place "
                "at once. Make it a folder of the same file system, or give another output directory"
            )
