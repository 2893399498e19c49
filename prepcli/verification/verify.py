"""Checks that a data set is complete, readable and aligned, and that its bytes are as published."""

import hashlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from prepcli.display.printing import printable_command
from prepcli.engine.output_files import PublishedFile
from prepcli.engine.plan import StoredPlan
from prepcli.engine.status import workspaces_of
from prepcli.engine.store_output import OutputSizes
from prepcli.engine.workspace import read_document
from prepcli.errors import UsageError
from prepcli.formats.folders import irregular_files, numbered
from prepcli.formats.shar import is_shar
from prepcli.formats.tarred import (
    SHARD_MANIFEST_FILE,
    SHARD_MANIFEST_NAME,
    TAR_NAME,
    manifest_name,
    metadata_name,
    newest_version,
    read_metadata,
    tar_numbers,
)
from prepcli.interface.calls import shows_progress
from prepcli.processes.pools import map_in_order, map_past_crashes
from prepcli.storage.addresses import join
from prepcli.storage.paths import path_of
from prepcli.verification.codes import stale_codes
from prepcli.verification.exports import find_export
from prepcli.verification.indexes import index_problems, moved_from
from prepcli.verification.manifests import manifests_in, verify_manifest
from prepcli.verification.plain_codes import frame_shift_of
from prepcli.verification.report import VerifyReport
from prepcli.verification.runs import Run, judge_runs, plan_of, runs_of
from prepcli.verification.shar import Hashes, check_shar_shard, find_shards, repeated_ids
from prepcli.verification.shar import crashed as shar_crashed
from prepcli.verification.tarred import ShardFiles, ShardReport, check_shard, crashed
from prepcli.verification.text_context import text_context_problems
from prepcli.verification.whole import lines_by_shard, split_manifest

Hashed = Callable[[str], str | None]
"""Returns the SHA-256 of a file below OUT as published, or None; the caller compares it."""


def verify(
    out: Path, num_workers: int = 1, audio_base_dir: Path | None = None, work_dir: Path | None = None
) -> VerifyReport:
    """Check the tarred set (with static buckets: each of them), the Shar or the export in `out`; decodes everything.

    Codes are compared with the cuts, even if `out` holds only codes and the Shar set is elsewhere. Of a manifest,
    and of those that a run has written in `out`, each line is checked, and that its audio is there (by its header).

    Raises:
        UsageError: `out` holds no data set.
    """
    if out.is_file():
        return _verify_file(out, audio_base_dir, num_workers)
    if not out.is_dir():
        raise UsageError(f"there is no directory {out}; give the OUT of a command that makes data sets, or a manifest")
    folders = [out] if _is_tarred(out) else [folder for folder in sorted(out.glob("bucket*")) if _is_tarred(folder)]
    report = VerifyReport(str(out))
    runs = runs_of(out, work_dir)
    published = _published(runs, report)
    shar = is_shar(out) or any(name.startswith("cuts/") for name in published)
    codes = any(out.glob("codes_*/*_codes/codes.*.tar")) or any(
        name.startswith("codes_") and name.endswith(".tar") for name in published
    )
    export = None if folders or shar or codes else find_export(out, published)
    manifests = manifests_in(out, list(published)) if export is None else []
    if not (folders or published or shar or codes or export or manifests or any(run.is_finished for run in runs)):
        raise UsageError(
            f"{out} holds no data set: neither tarred (audio_<i>.tar, tarred_audio_manifest.json) nor Shar (cuts/"
            "cuts.<i>.jsonl.gz), codes beside a Shar, an export (shards.list, data.list, filelists/, data-*.parquet) "
            "or manifests of a run"
        )
    sizes = OutputSizes(out)
    for name in published:
        if not sizes.has(name):
            report.problems.append(f"{name}: was published, but is missing")
    for path in irregular_files(out):
        report.problems.append(f"{path.relative_to(out)}: not a regular file but a pipe, a device or a broken link")
    compared: set[str] = set()
    unknown: set[str] = set()  # for example of another command, whose OUT.prepcli is gone

    def sha256(name: str) -> str | None:
        compared.add(name)
        if name not in published and sizes.has(name):
            unknown.add(name)
        return published[name].sha256 if name in published else None

    is_finished = all(run.is_finished for run in runs)
    for folder in folders:
        _verify_set(folder, out, sha256, num_workers, is_finished, report)
    if shar:
        _verify_shar(out, None, sha256, num_workers, report)
    elif codes:
        _verify_shar(_coded_set(out, work_dir), out, sha256, num_workers, report)
    elif export is not None:
        report.kind = export.kind
        for part in export.check(out, sha256, num_workers):
            _add(part, "", report)
        report.problems += export.problems
        report.notes += export.notes
    if codes:
        report.problems += stale_codes(out, out if shar else _coded_set(out, work_dir), work_dir)
    for name in manifests:
        if not folders and not shar:
            report.kind = "manifest"
        _add_manifest(out / name, runs, audio_base_dir, num_workers, report)
    rest = {name: file.sha256 for name, file in published.items() if name not in compared}
    report.problems += _changed(out, rest, num_workers)
    if runs and unknown and all(run.is_finished for run in runs):
        report.files_not_compared = len(unknown)
        report.notes.append(
            f"{len(unknown):,} files, such as {min(unknown)}, were not compared: the records in OUT.prepcli are of "
            f"{_commands(runs)}, which did not write them"
        )
    judge_runs(runs, report)
    return report


def _commands(runs: Sequence[Run]) -> str:
    return " and ".join(sorted({run.plan.command for run in runs}))


def _verify_file(path: Path, audio_base_dir: Path | None, num_workers: int) -> VerifyReport:
    """Check one manifest; what is known of it is beside it (`m.json.prepcli`), or beside its folder."""
    report = VerifyReport(str(path), kind="manifest")
    runs = [*runs_of(path), *(run for run in runs_of(path.parent) if path.name in run.files)]
    published = {name: file for name, file in _published(runs, report).items() if name == path.name}
    _add_manifest(path, runs, audio_base_dir, num_workers, report)
    report.problems += _changed(path.parent, {name: file.sha256 for name, file in published.items()}, num_workers)
    report.hashes_known = bool(published)
    judge_runs(runs, report)
    return report


def _add_manifest(
    path: Path, runs: Sequence[Run], audio_base_dir: Path | None, num_workers: int, report: VerifyReport
) -> None:
    shift = frame_shift_of(path.name, runs)
    found = verify_manifest(path, plan_of(path.name, runs), audio_base_dir, num_workers, shift)
    report.manifests += 1
    report.records += found.num_records
    report.seconds += found.seconds
    report.problems += found.problems
    report.notes += found.notes


def _changed(out: Path, published: dict[str, str], num_workers: int) -> Iterator[str]:
    """Problems with files whose content is not as published; for files that no check of a shard reads."""
    names = [name for name in published if (out / name).is_file()]
    digests = map_in_order(_digest, [out / name for name in names], num_workers)
    for name, digest in zip(names, digests, strict=True):
        if isinstance(digest, OSError):
            yield f"{name}: cannot be read: {digest.strerror or digest}"
        elif digest != published[name]:
            yield f"{name}: not the bytes that were published (SHA-256 differs)"


def _digest(path: Path) -> str | OSError:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        return error
    return digest.hexdigest()


def _coded_set(out: Path, work_dir: Path | None) -> Path:
    """The Shar set whose codes are in `out`, from the plans beside it."""
    for workspace in workspaces_of(out, work_dir):
        plan = read_document(workspace.plan_file, StoredPlan)
        if plan is None:
            continue
        for file in plan.inputs:
            folder = path_of(join(plan.run_in, file["path"])).parent.parent
            if is_shar(folder):
                return folder
    raise UsageError(
        f"{out} holds codes, but the Shar set they belong to cannot be found; give the directory that has its cuts"
    )


def _is_tarred(folder: Path) -> bool:
    return any(folder.glob("audio_*.tar")) or any(folder.glob("tarred_audio_manifest*.json"))


def _published(runs: Sequence[Run], report: VerifyReport) -> dict[str, PublishedFile]:
    """The files that runs have published; a run that is not finished is added to the problems."""
    files: dict[str, PublishedFile] = {}
    for run in runs:
        report.hashes_known = True
        if not run.is_finished:
            report.problems.append(
                f"the run is not finished: {run.status.units_done} of {run.status.units} units are done; "
                f"continue with: {printable_command(run.status.continue_with or '')}"
            )
        files |= run.files
    return files


def _verify_set(
    folder: Path, out: Path, sha256_in: Hashed, num_workers: int, is_finished: bool, report: VerifyReport
) -> None:
    """Check a tarred set; of one whose run has not ended, only the shards that are there."""
    prefix = "" if folder == out else f"{folder.relative_to(out)}/"

    def sha256(name: str) -> str | None:
        return sha256_in(prefix + name)

    version = newest_version(folder)
    whole = folder / manifest_name(version)
    config = _dataset_config(folder, version, prefix, report) if is_finished or whole.is_file() else {}
    numbers = tar_numbers(folder)
    with_tars = bool(numbers)
    shard_manifests = sorted(numbered(folder / "sharded_manifests", SHARD_MANIFEST_FILE))
    in_config = config.get("num_shards") or 0
    expected = max(in_config, len(numbers), len(shard_manifests))
    has_whole = is_finished or 0 < expected <= in_config  # the finishing step writes it, after all (further) shards
    for kind, found in ((TAR_NAME, numbers), (SHARD_MANIFEST_NAME, shard_manifests)):
        if has_whole and found and found != list(range(expected)):
            missing = ", ".join(kind.format(n) for n in sorted(set(range(expected)) - set(found)))
            named = missing or kind.format("*")
            report.problems.append(f"{prefix}{named}: shards must be numbered 0 to {expected - 1}")
    totals, digests = lines_by_shard(whole, prefix, report.problems) if has_whole else (Counter(), Counter())
    with tempfile.TemporaryDirectory(prefix="prepcli-verify-") as scratch:
        if not shard_manifests and whole.is_file():
            split_manifest(whole, Path(scratch))
        shards = [
            ShardFiles(
                number,
                folder / TAR_NAME.format(number) if with_tars else None,
                folder / SHARD_MANIFEST_NAME.format(number)
                if shard_manifests
                else Path(scratch) / f"manifest_{number}.json",
                sha256(TAR_NAME.format(number)),
                sha256(SHARD_MANIFEST_NAME.format(number)) if shard_manifests else None,
            )
            for number in (numbers or shard_manifests or sorted(totals))
        ]
        results = map_past_crashes(check_shard, shards, num_workers, crashed)
        for shard in tqdm(results, total=len(shards), unit=" shards", desc="verify", disable=not _shows_bar()):
            _add(shard, prefix, report)
            if shard.has_crashed or not has_whole:
                continue
            if (totals[shard.number], digests[shard.number]) != (shard.num_lines, shard.lines_digest):
                report.problems.append(
                    f"{prefix}{whole.name}: its {totals[shard.number]} lines of shard {shard.number} are not the "
                    f"{shard.num_lines} lines of the shard's own manifest"
                )
    if has_whole and not report.problems:
        report.problems += index_problems(whole, "jsonl", f"{prefix}{whole.name}")
    for number in sorted(set(totals) - {shard.number for shard in shards}):
        report.problems.append(f"{prefix}{whole.name}: names shard {number}, which does not exist")


def _verify_shar(folder: Path, codes_in: Path | None, sha256: Hashed, num_workers: int, report: VerifyReport) -> None:
    report.kind = "shar"
    try:
        shards, problems = find_shards(folder, sha256, codes_in)
    except UsageError as error:
        report.problems.append(str(error))
        return
    report.problems += problems
    if shards and (note := moved_from(codes_in or folder, shards[0].cuts)):
        report.notes.append(note)
    hashes: list[Hashes] = []
    results = map_past_crashes(check_shar_shard, shards, num_workers, shar_crashed)
    for shard in tqdm(results, total=len(shards), unit=" shards", desc="verify", disable=not _shows_bar()):
        _add(shard, "", report)
        hashes.append(shard.id_hashes)
    report.problems += repeated_ids(shards, hashes)
    report.problems += text_context_problems(folder)


def _shows_bar() -> bool:
    return shows_progress() and sys.stderr.isatty()


def _add(shard: ShardReport, prefix: str, report: VerifyReport) -> None:
    report.shards += 1
    report.members += shard.num_members
    report.records += shard.num_lines
    report.seconds += shard.seconds
    report.problems += [prefix + problem for problem in shard.problems]


def _dataset_config(folder: Path, version: int, prefix: str, report: VerifyReport) -> dict[str, int]:
    try:
        return read_metadata(folder / metadata_name(version)).get("dataset_config") or {}
    except (UsageError, OSError) as error:
        report.problems.append(f"{prefix}{metadata_name(version)}: {error}")
        return {}
