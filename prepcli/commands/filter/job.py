"""filter: drops records by rules, and writes the others from all manifests to one."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from prepcli.commands.filter.marking import (
    OWNER,
    manifests_of,
    mark_set,
    only_one,
    reasons_of,
    set_to_mark,
    without_marks,
)
from prepcli.commands.filter.options import Filter
from prepcli.commands.filter.planning import Planning
from prepcli.commands.filter.report import FilterReport, table_of, write_page
from prepcli.commands.inspect.outputs import PAGE
from prepcli.engine.publishing.side_files import check_side_file
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.run import run_job, temporary_workspace
from prepcli.engine.state.workspace import FileWorkspace, Workspace, real_file
from prepcli.errors import UsageError, option
from prepcli.interface.calls import tell
from prepcli.jobs.selection import SelectionContents, SelectionJob, SelectionPlan, Treatment, left_out
from prepcli.manifest.output_name import check_manifest_name
from prepcli.manifest.sources import expand_paths


class FilterJob(SelectionJob):
    """Writes the manifest of `filter`. The plan gives each record a verdict with a bit for each rule that drops it."""

    command: ClassVar[str] = "filter"

    def __init__(self, manifests: Sequence[str], options: Filter, out: Path, num_workers: int) -> None:
        """`manifests` are the files that `options.manifest` names, `out` is the manifest to write.

        Raises:
            UsageError: an option is wrong.
        """
        sample = options.sample
        if sample is not None and not (0 < sample < 1 or (sample >= 1 and sample % 1 == 0)):
            raise UsageError(f"{option('--sample')} takes a share below 1 or a number of records, not {sample}")
        if options.html is not None:
            check_side_file("--html", options.html, PAGE)
        self.manifests, self.options, self.num_workers = manifests, options, num_workers
        self.out = out
        self.names = (out.name,)
        self.keeps_skipped = options.skipme

    def plan(self, workspace: Workspace) -> SelectionPlan:
        """Apply the rules, and make the plan.

        Rank 0 writes the page of `--html`. At the start of a run, it also prints the records and hours that rules drop.
        """
        plan = Planning(self.manifests, self.options, self.out.parent, workspace, self.num_workers).plan()
        facts = plan.contents.facts
        if workspace.rank.rank == 0:
            if self.options.html is not None:
                write_page(facts, plan.notes, f"filter: {self.out}", self.options.html)
            is_new = self.options.overwrite or not workspace.plan_file.exists()
            if is_new and facts["rules"] and not self.options.dry_run:
                tell(table_of(facts, plan.notes))
        return plan

    def settings(self, plan: SelectionPlan) -> dict[str, Any]:
        """The options and the folders of the audio; `paths` is `absolute` if relative paths are made absolute."""
        paths = {"paths": "absolute"} if any(plan.contents.base_dirs) else {}
        return super().settings(plan) | paths

    def outcome(self, contents: SelectionContents, verdict: int) -> Treatment:
        """The treatment of records whose verdict has the bits `verdict`, one bit per rule that drops them.

        Records without such a bit are written; others are left out or, with `--skipme`, marked.
        """
        why = "; ".join(one["rule"] for bit, one in enumerate(contents.facts["rules"]) if verdict >> bit & 1)
        if why and not self.options.skipme:
            return left_out(why)
        return Treatment(0, changes={"_skipme": f"{OWNER}{why}"} if why else None)

    def facts(self, contents: SelectionContents) -> dict[str, Any]:
        """The path of the manifest, and the records and hours that the rules drop."""
        return {"manifest": self.out, **contents.facts}


def filter(options: Filter) -> FilterReport:
    """Keep the records of manifests that fulfil rules.

    Returns:
        The report; `details["rules"]` has what each rule drops, `outputs["manifest"]` the manifest.

    Raises:
        UsageError: an expression is wrong, a field does not exist, no record is left, or a manifest cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.filter("manifest.json", "kept.json", keep=["1 <= duration <= 4"], sample=20)
        >>> report.records_out, report.details["rules"][0]["alone"]["records"]
        (20, 7)
    """
    engine = options.engine()
    if options.out is None:
        return _mark(options, engine)
    out = real_file(options.out)
    check_manifest_name(out, FilterJob.command)
    job = FilterJob(expand_paths(options.manifest), options, out, engine.num_workers)
    report = job.dry_run(out) if engine.dry_run else run_job(job, FileWorkspace(out), engine)
    return msgspec.convert(report, FilterReport, from_attributes=True)


def _mark(options: Filter, engine: RunOptions) -> FilterReport:
    """Mark the records that rules drop, in the manifests of a finished tarred set."""
    if not options.skipme:
        raise UsageError(f"OUT.json is missing; without it, {option('--skipme')} marks records in a tarred set")
    if options.drop_listed is not None or options.audio_base_dir is not None or engine.rank.world_size > 1:
        raise UsageError(
            f"marks in a tarred set are made by one rank, without {option('--drop-listed')} and "
            f"{option('--audio-base-dir')}"
        )
    folder = Path(options.manifest)
    one = set_to_mark(folder)
    with only_one(folder), temporary_workspace(folder) as workspace:
        manifests = list(without_marks(manifests_of(one), workspace.root))
        job = FilterJob(manifests, options, folder / folder.name, engine.num_workers)
        plan = job.plan(workspace)
        facts = plan.contents.facts
        is_changed = not engine.dry_run and mark_set(one, reasons_of(job, plan), facts)
    marked, of = facts["together"], facts["of"]
    rejects = Counter(problem.reason.value for problem in plan.contents.problems)
    return FilterReport(
        FilterJob.command,
        "dry_run" if engine.dry_run else "done" if is_changed else "nothing_to_do",
        options.manifest,
        records_in=plan.records_in,
        records_out=plan.records_in - rejects.total(),
        rejects=rejects.total(),
        rejects_by_reason=dict(rejects),
        skipped=plan.num_skipped,
        seconds=round(of["hours"] * 3600, 3),
        notes=plan.notes,
        details={
            "marked": f"{marked['records']:,} records, {marked['hours']:,.2f} of {of['hours']:,.2f} hours",
            **facts,
        },
    )
