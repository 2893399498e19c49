"""filter: keeps the records that rules keep, and merges manifests."""

import glob
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import msgspec

from prepcli.commands.filter.options import Filter
from prepcli.commands.filter.planning import Planning
from prepcli.commands.filter.report import FilterReport, table_of, write_page
from prepcli.commands.inspect.outputs import PAGE, check_output
from prepcli.engine.run.run import run_job
from prepcli.engine.state.file_output import FileWorkspace, real_file
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError, option
from prepcli.interface.calls import tell
from prepcli.jobs.records import settings_over
from prepcli.jobs.selection import Selected, SelectionContents, SelectionJob, SelectionPlan
from prepcli.manifest.output_name import check_manifest_name
from prepcli.manifest.sources import expand_paths


class FilterJob(SelectionJob):
    """Writes one manifest. The code of a record has a bit for each rule that drops it."""

    command: ClassVar[str] = "filter"

    def __init__(self, manifests: Sequence[str], options: Filter, num_workers: int) -> None:
        """`manifests` are the files that `options.manifest` names.

        Raises:
            UsageError: an option is wrong.
        """
        check_manifest_name(options.out, self.command)
        sample = options.sample
        if sample is not None and not (0 < sample < 1 or (sample >= 1 and sample % 1 == 0)):
            raise UsageError(f"{option('--sample')} takes a share below 1 or a number of records, not {sample}")
        if options.html is not None:
            check_output("--html", options.html, PAGE)
        self.manifests, self.options, self.num_workers = manifests, options, num_workers
        self.names = (options.out.name,)
        self.keeps_skipped = options.skipme

    def plan(self, workspace: Workspace) -> SelectionPlan:
        """Apply the rules, and show what they cost if this is the start of a run."""
        planning = Planning(self.manifests, self.options, workspace, self.num_workers)
        plan = planning.plan()
        planning.refuse_nothing()
        facts = plan.contents.facts
        if workspace.rank.rank == 0:
            if self.options.html is not None:
                write_page(facts, plan.notes, f"filter: {self.options.out}", self.options.html)
            is_new = self.options.overwrite or not workspace.plan_file.exists()
            if is_new and facts["rules"] and not self.options.dry_run:
                tell(table_of(facts, plan.notes))
        return plan

    def settings(self, plan: SelectionPlan) -> dict[str, Any]:
        """The options, and the folder of the audio."""
        paths = {"paths": "absolute"} if any(plan.contents.base_dirs) else {}
        return settings_over(self.manifests, self.options.audio_base_dir, self.options) | paths

    def output_patterns(self, plan: SelectionPlan) -> Sequence[str]:
        """The manifest."""
        return (glob.escape(self.options.out.name),)

    def outcome(self, contents: SelectionContents, code: int) -> Selected:
        """Records that no rule drops are written; the others too with `--skipme`."""
        why = "; ".join(label for bit, label in enumerate(contents.facts["labels"]) if code >> bit & 1)
        if why and not self.options.skipme:
            return Selected(None, why)
        return Selected(0, changes={"_skipme": f"filter: {why}"} if why else None)

    def facts(self, contents: SelectionContents) -> dict[str, Any]:
        """The manifest, and what the rules cost."""
        facts = {name: value for name, value in contents.facts.items() if name != "labels"}
        return {"manifest": self.options.out, **facts}


def filter(options: Filter) -> FilterReport:
    """Keep the records of manifests that fulfil rules.

    Returns:
        The report; `details["rules"]` has what each rule drops, `outputs["manifest"]` the manifest.

    Raises:
        UsageError: an expression is wrong, a field does not exist, no record is left, or a manifest cannot be read.

    Example:
        >>> import prepcli
        >>> report = prepcli.filter("manifest.json", "kept.json", keep=["1 <= duration <= 4"], sample=20)
        >>> report.records_out, report.details["rules"][0]["alone"]["records"]
        (20, 7)
    """
    engine = options.engine()
    options = replace(options, out=real_file(options.out))
    job = FilterJob(expand_paths(options.manifest), options, engine.num_workers)
    workspace = FileWorkspace(options.out)
    report = job.dry_run(options.out) if engine.dry_run else run_job(job, workspace, engine)
    return msgspec.convert(report, FilterReport, from_attributes=True)
