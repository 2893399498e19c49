"""Checks that a data set is complete, readable and aligned, and that its bytes are those that were published."""

import hashlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import msgspec
from tqdm import tqdm

from prepcli.calls import shows_progress
from prepcli.engine.plan import FINISH_UNIT, StoredPlan
from prepcli.engine.publish import Marker, PublishedFile
from prepcli.engine.report import Report
from prepcli.engine.status import read_status, workspaces_of
from prepcli.engine.workspace import read_document
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.folders import numbered
from prepcli.formats.shar import is_shar
from prepcli.formats.tar import open_regular
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
from prepcli.manifest.record import Record
from prepcli.printing import printable_command
from prepcli.processes import map_in_order
from prepcli.verification.shar import Hashes, check_shar_shard, find_shards, repeated_ids
from prepcli.verification.tarred import ShardFiles, ShardReport, check_shard, line_hash

Hashed = Callable[[str], str | None]
"""The SHA-256 under which a file below OUT was published, None where that is not known; whoever asks compares it."""


class VerifyReport(msgspec.Struct):
    """What was checked, and every problem found; `seconds` of audio, by the records.

    `kind`: tarred or shar (codes are a Shar's). `hashes_known`: OUT.prepcli tells what the bytes should be.
    """

    out: str
    kind: str = "tarred"
    shards: int = 0
    members: int = 0
    records: int = 0
    seconds: float = 0.0
    hashes_known: bool = False
    problems: list[str] = []

    @property
    def status(self) -> str:
        """`ok` or `broken`."""
        return "broken" if self.problems else "ok"


def verify(out: Path, num_workers: int = 1) -> VerifyReport:
    """Check the tarred data set (with static buckets: each of them) or the Shar in `out`; decodes everything.

    Codes are checked against the cuts, also where `out` holds only codes and the Shar set is elsewhere.

    Raises:
        UsageError: there is no data set.
    """
    if not out.is_dir():
        raise UsageError(f"there is no directory {out}; give the OUT of a command that makes data sets")
    folders = [out] if _is_tarred(out) else [folder for folder in sorted(out.glob("bucket*")) if _is_tarred(folder)]
    report = VerifyReport(str(out))
    published = _published(out, report)
    shar = is_shar(out) or any(name.startswith("cuts/") for name in published)
    codes = any(out.glob("codes_*/*_codes/codes.*.tar")) or any(name.startswith("codes_") for name in published)
    if not folders and not published and not shar and not codes:
        raise UsageError(
            f"{out} holds no data set: neither tarred (audio_<i>.tar, tarred_audio_manifest.json) nor Shar "
            "(cuts/cuts.<i>.jsonl.gz), nor codes beside a Shar"
        )
    for name in published:
        if not (out / name).is_file():
            report.problems.append(f"{name}: was published, but is missing")
    compared: set[str] = set()

    def sha256(name: str) -> str | None:
        compared.add(name)
        return published[name].sha256 if name in published else None

    for folder in folders:
        _verify_set(folder, out, sha256, num_workers, report)
    if shar:
        _verify_shar(out, None, sha256, num_workers, report)
    elif codes:
        _verify_shar(_coded_set(out), out, sha256, num_workers, report)
    rest = {name: file.sha256 for name, file in published.items() if name not in compared}
    report.problems += _changed(out, rest, num_workers)
    return report


def _changed(out: Path, published: dict[str, str], num_workers: int) -> Iterator[str]:
    """What has another content than was published; for files that no check of a shard reads."""
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


def _coded_set(out: Path) -> Path:
    """The Shar set whose codes are in `out`, as the plans beside it tell."""
    for workspace in workspaces_of(out):
        plan = read_document(workspace.plan_file, StoredPlan)
        if plan is None:
            continue
        for file in plan.inputs:
            folder = Path(plan.run_in, file["path"]).parent.parent
            if is_shar(folder):
                return folder
    raise UsageError(
        f"{out} holds codes, but the Shar set they belong to cannot be found; give the directory that has its cuts"
    )


def _is_tarred(folder: Path) -> bool:
    return any(folder.glob("audio_*.tar")) or any(folder.glob("tarred_audio_manifest*.json"))


def _published(out: Path, report: VerifyReport) -> dict[str, PublishedFile]:
    """The published files by the markers beside `out`; a run that is not finished is added to the problems."""
    files: dict[str, PublishedFile] = {}
    for workspace in workspaces_of(out):
        if read_document(workspace.plan_file, StoredPlan) is None:
            continue
        report.hashes_known = True
        status = read_status(workspace)
        # A file of the finishing step that has changed is a problem of its own, found below.
        merged = (
            read_document(workspace.done / f"{FINISH_UNIT.id}.json", Marker) is not None
            and read_document(workspace.report_file, Report) is not None
        )
        if status.state != "finished" and not (merged and status.units_done == status.units):
            report.problems.append(
                f"the run is not finished: {status.units_done} of {status.units} units are done; "
                f"continue with: {printable_command(status.continue_with or '')}"
            )
        for path in sorted(workspace.done.glob("*.json")):
            marker = read_document(path, Marker)  # without one, its unit is missing, which the status tells
            files |= marker.files if marker else {}
    return files


def _verify_set(folder: Path, out: Path, sha256_in: Hashed, num_workers: int, report: VerifyReport) -> None:
    prefix = "" if folder == out else f"{folder.relative_to(out)}/"

    def sha256(name: str) -> str | None:
        return sha256_in(prefix + name)

    version = newest_version(folder)
    whole = folder / manifest_name(version)
    config = _dataset_config(folder, version, prefix, report)
    numbers = tar_numbers(folder)
    with_tars = bool(numbers)
    shard_manifests = sorted(numbered(folder / "sharded_manifests", SHARD_MANIFEST_FILE))
    expected = max(config.get("num_shards") or 0, len(numbers), len(shard_manifests))
    for kind, found in ((TAR_NAME, numbers), (SHARD_MANIFEST_NAME, shard_manifests)):
        if found and found != list(range(expected)):
            missing = ", ".join(kind.format(n) for n in sorted(set(range(expected)) - set(found)))
            named = missing or kind.format("*")
            report.problems.append(f"{prefix}{named}: shards must be numbered 0 to {expected - 1}")
    totals, digests = _lines_by_shard(whole, prefix, report)
    with tempfile.TemporaryDirectory(prefix="prepcli-verify-") as scratch:
        if not shard_manifests and whole.is_file():
            _split_manifest(whole, Path(scratch))
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
        results = map_in_order(check_shard, shards, num_workers)
        for shard in tqdm(results, total=len(shards), unit=" shards", desc="verify", disable=not _shows_bar()):
            _add(shard, prefix, report)
            if (totals[shard.number], digests[shard.number]) != (shard.num_lines, shard.lines_digest):
                report.problems.append(
                    f"{prefix}{whole.name}: its {totals[shard.number]} lines of shard {shard.number} are not the "
                    f"{shard.num_lines} lines of the shard's own manifest"
                )
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
    hashes: list[Hashes] = []
    results = map_in_order(check_shar_shard, shards, num_workers)
    for shard in tqdm(results, total=len(shards), unit=" shards", desc="verify", disable=not _shows_bar()):
        _add(shard, "", report)
        hashes.append(shard.id_hashes)
    report.problems += repeated_ids(shards, hashes)


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


def _lines_by_shard(whole: Path, prefix: str, report: VerifyReport) -> tuple[Counter[int], Counter[int]]:
    """Number and summed hash of the lines of each shard in the manifest of the whole set."""
    totals: Counter[int] = Counter()
    digests: Counter[int] = Counter()
    try:
        for number, (line, shard) in enumerate(_with_shard(whole), start=1):
            if shard is None:
                report.problems.append(f"{prefix}{whole.name}:{number}: no usable line with a shard_id")
            else:
                totals[shard] += 1
                digests[shard] += line_hash(line)
    except OSError as error:
        report.problems.append(f"{prefix}{whole.name}: cannot be read: {error.strerror}")
    return totals, digests


def _with_shard(whole: Path) -> Iterator[tuple[bytes, int | None]]:
    with open_regular(whole) as file:
        for line in file:
            try:
                shard = Record.parse(line).get("shard_id")
            except RecordRejected:
                shard = None
            yield line, shard if isinstance(shard, int) else None


def _split_manifest(whole: Path, scratch: Path) -> None:
    """Write the whole manifest's lines shard by shard, for sets without sharded manifests."""
    current: tuple[int, IO[bytes]] | None = None
    for line, shard in _with_shard(whole):
        if shard is None:
            continue
        if current is None or current[0] != shard:
            if current is not None:
                current[1].close()
            current = (shard, (scratch / f"manifest_{shard}.json").open("ab"))
        current[1].write(line)
    if current is not None:
        current[1].close()
