"""Adds shards to a tarred set (`--concat-to`)."""

from collections.abc import Sequence
from pathlib import Path

from prepcli.commands.manifest_to_tarred.making import make_set
from prepcli.commands.manifest_to_tarred.options import TarForm, check_form, decided
from prepcli.commands.manifest_to_tarred.own_options import with_own_options
from prepcli.commands.manifest_to_tarred.planning import settings_of_set
from prepcli.engine.commits import read_ledger, recover
from prepcli.engine.run.function import Output
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import PLAN_FORMAT, StoredPlan
from prepcli.engine.state.work_folder import version_of, version_roots
from prepcli.engine.state.workspace import Workspace, read_document
from prepcli.errors import UsageError, option
from prepcli.formats.tarred import BUCKET, ExistingSet, read_existing
from prepcli.jobs.row_names import BY_ID
from prepcli.jobs.source import RecordSource
from prepcli.manifest.index import content_digest
from prepcli.storage.addresses import join
from prepcli.storage.paths import AnyPath, absolute, real_path


def add_to_set(output: Output, source: RecordSource, form: TarForm) -> Report:
    """Add the manifests to the set in the folder of `output`; when complete, `train_ds.yaml` names the new version.

    The report and the rejects of each version are in `OUT.prepcli/version_<v>/`. If a finished run was the same
    command, its version is named; otherwise a new version begins, or one that was begun so is continued. If a later
    version exists, the run only completes its own version: `train_ds.yaml` keeps naming the newest version.

    Raises:
        UsageError: the folder holds no set, an option contradicts the options of the set, or one of the manifests is in
            the set.
    """
    if form["buckets_num"] > 1:
        raise UsageError(
            f"{option('--concat-to')} adds to one data set: name a bucket's folder, and leave "
            f"{option('--buckets-num')} out"
        )
    folder = output.path
    assert isinstance(folder, Path)
    recover(Workspace(folder))
    newest = read_existing(folder)
    form, base = _begun(source, folder, form, newest.version) or _new(source, folder, form, newest)
    workspace = output.workspace = version_workspace(folder, base.version + 1)
    later = f"version_{base.version + 2}"
    if any(commit.part == later for commit in read_ledger(workspace).commits):
        refuse_to_change(folder, workspace, output.engine.overwrite, output.engine.retry_rejects)
    return make_set(output, source, form, base)


def _begun(source: RecordSource, folder: Path, form: TarForm, newest: int) -> tuple[TarForm, ExistingSet] | None:
    """The options and the base of the newest addition that was this command; None if there is none."""
    for version in range(newest, 0, -1):
        stored = read_document(version_workspace(folder, version).plan_file, StoredPlan)
        if stored is None:
            continue
        base = read_existing(folder, version - 1)
        own = with_own_options(form, base)
        check_form(own)
        begun = decided({**own, "allow_duplicates": True})  # duplicates were checked when the run began
        if _is_plan_of(stored, source, begun, base):
            return begun, base
    return None


def _new(source: RecordSource, folder: Path, form: TarForm, newest: ExistingSet) -> tuple[TarForm, ExistingSet]:
    form = with_own_options(form, newest)
    if not form["allow_duplicates"]:
        _refuse_known(source.manifests, folder, newest.version)
    check_form(form)
    return decided(form), newest


def _is_plan_of(stored: StoredPlan, source: RecordSource, form: TarForm, base: ExistingSet) -> bool:
    """Whether a stored plan is that of an addition to `base`: both have the same command, settings and inputs.

    A plan follows from these, and comparing them is faster than planning again.
    """
    # The settings in `BY_ID` follow from the other settings and the inputs.
    settings = {name: value for name, value in stored.settings.items() if name not in BY_ID}
    wanted = "manifest-to-tarred", PLAN_FORMAT, settings_of_set(source, form, base)
    if (stored.command, stored.format, settings) != wanted:
        return False
    known = [file["sha256"] for file in stored.inputs]
    return len(known) == len(source.manifests) and known == [content_digest(path) for path in source.manifests]


def newest_begun(folder: AnyPath) -> Workspace:
    """The workspace of the newest addition to the set in `folder`; of the first one if there is none yet."""
    begun = version_roots(Workspace(folder).root)
    return version_workspace(folder, version_of(begun[-1]) if begun else 1)


def refuse_to_change(folder: AnyPath, workspace: Workspace, overwrite: bool, retry_rejects: bool) -> None:
    """Refuse `overwrite` and `retry_rejects` for a version of the set in `folder`, because a later version exists.

    These options would remove or change shards that the manifest of the later version names.

    Raises:
        UsageError: one of the options is given.
    """
    if overwrite:
        raise UsageError(
            f"shards were added to {folder} with {option('--concat-to')}, and {option('--overwrite')} would remove "
            f"them; choose another directory, or move {folder} and {Workspace(folder).root} away first"
        )
    if retry_rejects:
        raise UsageError(
            f"shards were added to {folder} with {option('--concat-to')}, and {option('--retry-rejects')} would "
            f"change those before them; add the records of {workspace.rejects_file} with {option('--concat-to')}, or "
            "make the set again in another directory"
        )


def _refuse_known(manifests: Sequence[str], folder: Path, newest: int) -> None:
    """Refuse manifests from which the set in `folder` was made, before their records are read.

    `newest`: the newest version of the set. Equal records in other manifests are found later, in the plan.

    Raises:
        UsageError: all manifests of a version are given again, or a manifest of a version is given that has changed
            since; the message names the manifest.
    """
    names = {real_path(path): path for path in manifests}
    workspaces = [version_workspace(folder, version) for version in range(newest + 1)]
    if BUCKET.fullmatch(folder.name):
        workspaces.append(Workspace(Path(absolute(folder)).parent))
    for workspace in workspaces:
        stored = read_document(workspace.plan_file, StoredPlan)
        report = read_document(workspace.report_file, Report)
        if stored is None:
            continue
        same = []
        for file in stored.inputs:
            path = names.get(real_path(join(stored.run_in, file["path"])))
            digest = content_digest(path) if path is not None else ""
            if digest == file["sha256"]:
                same.append(path)
            elif digest:  # without a digest, reading the manifest reports the problem
                raise UsageError(
                    f"{folder} has the records that {path} had before; give a manifest with only the new ones, or "
                    f"{option('--allow-duplicates')} to have the others twice"
                )
        if same and len(same) == len(stored.inputs) and report is not None and report.records_out:
            raise UsageError(
                f"{same[0]} is in {folder} already; give {option('--allow-duplicates')} to have its records there twice"
            )


def version_workspace(folder: AnyPath, version: int) -> Workspace:
    """The workspace of the run that made a version of the set in `folder`; version 0 is the set without additions."""
    workspace = Workspace(folder)
    return Workspace(folder, workspace.root / f"version_{version}") if version else workspace
