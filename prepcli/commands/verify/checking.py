"""Checks that a data set is complete, readable and aligned, and that its bytes are as published."""

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from prepcli.commands.verify.exports import verify_export
from prepcli.commands.verify.manifests import manifests_in, named_files, verify_containers, verify_manifest
from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.runs import compare_with_audio, judge_runs, runs_of
from prepcli.commands.verify.shar import verify_codes, verify_shar
from prepcli.commands.verify.shards import CheckedFile, Verification
from prepcli.commands.verify.tarred import verify_tarred
from prepcli.commands.verify.texts import is_texts
from prepcli.engine.ledger import run_folders
from prepcli.engine.publishing.hashes import OTHER_BYTES, hash_of
from prepcli.engine.run.unfinished import refuse_unfinished_run
from prepcli.engine.state.plan import StoredPlan
from prepcli.engine.state.workspace import read_document
from prepcli.errors import UsageError, option
from prepcli.formats.folders import advice_on_audio, irregular_files
from prepcli.formats.indexes import INDEX_SUFFIX, index_names
from prepcli.formats.sets import sets_in
from prepcli.formats.stored_set import StoredSet
from prepcli.formats.tarred import WHOLE_MANIFEST, TarredSet
from prepcli.interface.printing import number_of
from prepcli.jobs.inputs.data import containers_at
from prepcli.processes.pools import map_in_order
from prepcli.storage.addresses import on_hub
from prepcli.storage.paths import AnyPath, relative


def verify_quickly(out: AnyPath, work_dir: Path | None = None) -> VerifyReport:
    """Check that every published file exists with the published size and, in a store, the published ETag.

    Raises:
        UsageError: there is no state of a run to compare files with.
    """
    runs = runs_of(out, work_dir)
    if not runs:
        raise UsageError(
            f"{option('--quick')} compares with the state of the run, and there is none for {out}: leave "
            f"{option('--quick')} out, or give the {option('--work-dir')} of the run"
        )
    report = VerifyReport(str(out), kind="quick")
    of = Verification(out.parent if out.is_file() else out, runs, report)
    for run in runs:
        report.records += run.status.records_out
        report.seconds += run.status.seconds_done
    for name, file in of.published.items():
        if not of.files.has(name):
            report.problems.append(f"{name}: was published, but is missing")
        elif (size := of.files.size_of(name)) != file.num_bytes:
            report.problems.append(f"{name}: has {size:,} bytes, but {file.num_bytes:,} were published")
        elif file.etag and (etag := of.files.etag_of(name)) not in ("", file.etag):
            report.problems.append(
                f"{name}: was written again after it was published (its ETag was {file.etag}, now {etag}); verify "
                "without --quick compares the bytes"
            )
    by_etag = sum(1 for name, file in of.published.items() if file.etag and of.files.etag_of(name))
    what = "name, size and ETag" if by_etag == len(of.published) > 0 else "name and size only"
    report.notes.append(f"{number_of(len(of.published), 'file', 'were')} compared by {what}; nothing was read")
    judge_runs(runs, report)
    return report


CHECKS: dict[str, Callable[[Any, Verification], None]] = {
    "tarred": verify_tarred,
    "shar": verify_shar,
    "codes": verify_codes,
}
"""The check for each kind of set; all other kinds are exports (`verify_export`)."""


def _sets_to_check(out: AnyPath, published: Collection[str]) -> list[StoredSet]:
    """The sets to check: all tarred sets, and all Shar sets that are not flat; without them, the first other set."""
    sets = [stored for stored in sets_in(out, published) if stored.is_checked(published)]
    return [stored for stored in sets if stored.kind in ("tarred", "shar")] or sets[:1]


def check_set(
    out: AnyPath, num_workers: int = 1, audio_base_dir: AnyPath | None = None, work_dir: Path | None = None
) -> VerifyReport:
    """Check all that `out` holds: a tarred set or its static buckets, a Shar set, an export, or manifests.

    All audio of sets and exports is decoded. Codes are compared with the cuts, even if `out` holds only codes and the
    Shar set is elsewhere. If `out` is the manifest of a tarred set, the set is checked. If it is another manifest, or a
    folder with manifests of a run, each line is checked, and the header of its audio.

    Raises:
        UsageError: `out` holds no data set.
    """
    if on_hub(str(out)) and (containers := containers_at(str(out))):
        return verify_containers(out, containers, num_workers)
    if out.is_file():
        if WHOLE_MANIFEST.match(out.name) and TarredSet(out.parent).has_tars:
            return check_set(out.parent, num_workers, audio_base_dir, work_dir)
        if not (runs_of(out) or runs_of(out.parent)) and (containers := containers_at(str(out), of_rows=True)):
            return verify_containers(out, containers, num_workers)
        return _verify_file(out, num_workers, audio_base_dir)
    runs = runs_of(out, work_dir)
    if not out.is_dir():
        for run in runs:
            refuse_unfinished_run(run.workspace)
        raise UsageError(f"there is no directory {out}; give the OUT of a command that makes data sets, or a manifest")
    report = VerifyReport(str(out))
    of = Verification(out, runs, report, num_workers, audio_base_dir)
    sets = _sets_to_check(out, of.published)
    kinds = {stored.kind for stored in sets}
    manifests = manifests_in(out, list(of.published)) if kinds <= {"tarred", "shar", "codes"} else []
    if not (sets or of.published or manifests or any(run.is_finished for run in runs)):
        _refuse_state(out)
        if containers := containers_at(str(out)):
            return verify_containers(out, containers, num_workers)
        for run in runs:
            refuse_unfinished_run(run.workspace)
        raise UsageError(
            f"{out} holds no data set: neither tarred (audio_<i>.tar, tarred_audio_manifest.json) nor Shar (cuts/"
            "cuts.<i>.jsonl.gz), codes beside a Shar, an export (shards.list, data.list, filelists/, data-*.parquet) "
            f"or manifests of a run{advice_on_audio(out)}"
        )
    report.problems += [f"{name}: was published, but is missing" for name in of.published if not of.files.has(name)]
    for path in irregular_files(out):
        report.problems.append(f"{relative(path, out)}: not a regular file but a pipe, a device or a broken link")
    for stored in sets:
        CHECKS.get(stored.kind, verify_export)(stored, of)
    for run in runs:
        compare_with_audio(run, of.coded, num_workers, report)
    for name in manifests:
        if not kinds & {"tarred", "shar"}:
            report.kind = "manifest"
        verify_manifest(out / name, of)
    report.problems += _changed(of)
    _note_others(of)
    judge_runs(runs, report)
    return report


def _refuse_state(out: AnyPath) -> None:
    """Raise `UsageError` if `out` is the folder with the state of a run."""
    for folder in (out, *run_folders(out)) if isinstance(out, Path) else ():
        if (state := read_document(folder / "plan.json", StoredPlan)) is not None:
            raise UsageError(f"{out} holds the state of the run that made {state.out}; give {state.out}")


def _note_others(of: Verification) -> None:
    """Add notes on files that no known run has published: checked files, and extra files in the folders of the set."""
    if of.runs and of.unknown and of.is_finished:
        of.report.files_not_compared = len(of.unknown)
        commands = " and ".join(sorted({run.plan.command for run in of.runs}))
        of.report.notes.append(
            f"not compared: {number_of(len(of.unknown), 'file')}, such as {min(of.unknown)}: the state in OUT.prepcli "
            f"is of {commands}, which did not write them"
        )
    if of.published and of.is_finished and (extra := _extra_files(of)):
        of.report.notes.append(
            f"{number_of(len(extra), 'file')} in the folders of the set {'does' if len(extra) == 1 else 'do'} not "
            "belong to it: no run has written them, and no reader looks for "
            f"{', '.join(extra[:5])}{', ...' * (len(extra) > 5)}"
        )


def _extra_files(of: Verification) -> list[str]:
    """Names of files that do not belong to the set, although their folder and suffix are those of published files.

    The files that were read belong to the set, like the published files, and so do the indexes of both.
    """
    kinds: dict[str, set[str]] = {}
    for name in of.published:
        kinds.setdefault(os.path.dirname(name), {INDEX_SUFFIX}).add(os.path.splitext(name)[1])
    known = {*of.published, *of.compared}
    extra = [
        name
        for folder, suffixes in sorted(kinds.items())
        for name in of.files.in_folder(folder)
        if os.path.splitext(name)[1] in suffixes and name not in known
    ]
    if any(name.endswith(INDEX_SUFFIX) for name in extra):
        known = {name for data in known for name in index_names(of.out, data)}
    return [name for name in extra if name not in known]


def _verify_file(path: AnyPath, num_workers: int, audio_base_dir: AnyPath | None) -> VerifyReport:
    """Check one manifest; the state of its run is next to it (`m.json.prepcli`), or next to its folder."""
    report = VerifyReport(str(path), kind="manifest")
    runs = [*runs_of(path), *(run for run in runs_of(path.parent) if path.name in run.files)]
    of = Verification(path.parent, runs, report, num_workers, audio_base_dir)
    if not is_texts(path, runs):  # the file of speakers is next to the texts
        names = {path.name, *named_files(path, of)}
        of.published = {name: file for name, file in of.published.items() if name in names}
    report.problems += [
        f"{name}: was published, but is missing" for name in of.published if not (path.parent / name).exists()
    ]
    verify_manifest(path, of)
    report.problems += _changed(of)
    report.hashes_known = bool(of.published)
    for run in runs:
        if path.name in run.files:
            compare_with_audio(run, path.parent, num_workers, report)
    judge_runs(runs, report)
    return report


def _changed(of: Verification) -> Iterator[str]:
    """Yield a problem for each existing published file, not compared yet, with other or unreadable content."""
    names = [name for name in of.published if name not in of.compared and (of.out / name).is_file()]
    problems = map_in_order(_difference, [of.file(name) for name in names], of.num_workers)
    yield from (f"{name}: {problem}" for name, problem in zip(names, problems, strict=True) if problem)


def _difference(file: CheckedFile) -> str | None:
    try:
        return OTHER_BYTES if hash_of(*file).differs else None
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
