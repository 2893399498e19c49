"""Checks of a whole tarred data set: its shards, its manifests, its index and its metadata."""

import shlex
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from prepcli.commands.verify.indexes import index_problems
from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.shards import Hashed, add_shard
from prepcli.commands.verify.tarred import ShardFiles, check_shard, line_hash
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.engine.state.versions import undone_versions
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.folders import numbered
from prepcli.formats.sets import TarredSet
from prepcli.formats.tar import open_regular
from prepcli.formats.tarred import (
    SHARD_MANIFEST_FILE,
    SHARD_MANIFEST_FOLDER,
    SHARD_MANIFEST_NAME,
    TAR_NAME,
    metadata_name,
    read_metadata,
    tar_numbers,
)
from prepcli.interface.bars import with_bar
from prepcli.manifest.record import Record
from prepcli.storage.paths import AnyPath, relative


def lines_by_shard(whole: AnyPath, prefix: str, problems: list[str]) -> tuple[Counter[int], Counter[int]]:
    """Number and summed hash of the lines of each shard in the manifest of the whole set; adds to `problems`."""
    totals: Counter[int] = Counter()
    digests: Counter[int] = Counter()
    try:
        for number, (line, shard) in enumerate(_with_shard(whole), start=1):
            if shard is None:
                problems.append(f"{prefix}{whole.name}:{number}: no usable line with a shard_id")
            else:
                totals[shard] += 1
                digests[shard] += line_hash(line)
    except OSError as error:
        problems.append(f"{prefix}{whole.name}: cannot be read: {error.strerror}")
    return totals, digests


def _with_shard(whole: AnyPath) -> Iterator[tuple[bytes, int | None]]:
    with open_regular(whole) as file:
        for line in file:
            try:
                shard = Record.parse(line).get("shard_id")
            except RecordRejected:
                shard = None
            yield line, shard if isinstance(shard, int) else None


def split_manifest(whole: AnyPath, scratch: Path, shards: Iterable[int]) -> dict[int, Path]:
    """Write the whole manifest's lines shard by shard, for sets without sharded manifests.

    Returns:
        The file of each shard with lines, and of each of `shards`.
    """
    files: dict[int, Path] = {}

    def file_of(shard: int) -> Path:
        return files.setdefault(shard, scratch / f"manifest_{shard}.json")

    for number in shards:
        file_of(number).touch()
    current: tuple[int, IO[bytes]] | None = None
    for line, shard in _with_shard(whole):
        if shard is None:
            continue
        if current is None or current[0] != shard:
            if current is not None:
                current[1].close()
            current = (shard, file_of(shard).open("ab"))
        current[1].write(line)
    if current is not None:
        current[1].close()
    return files


def verify_tarred_set(
    one: TarredSet, out: AnyPath, sha256_in: Hashed, num_workers: int, is_finished: bool, report: VerifyReport
) -> None:
    """Check a tarred set; if its run has not ended, only the existing shards."""
    folder = one.folder
    prefix = "" if folder == out else f"{relative(folder, out)}/"

    def sha256(name: str) -> str | None:
        return sha256_in(prefix + name)

    whole = one.whole
    config = _dataset_config(folder, one.version, prefix, report) if is_finished or whole.is_file() else {}
    numbers = tar_numbers(folder)
    shard_manifests = list(numbered(folder / SHARD_MANIFEST_FOLDER, SHARD_MANIFEST_FILE))
    for removed in undone_versions(folder):
        command = shlex.join(["prepcli", "manifest-to-tarred", "--concat-to", str(folder), "--undo-concat"])
        report.problems.append(f"{prefix}version {removed} is not completely removed; complete it with: {command}")
        numbers, shard_manifests = list(one.shards), list(one.manifests)
    with_tars = bool(numbers)
    in_config = config.get("num_shards") or 0
    expected = max(in_config, len(numbers), len(shard_manifests))
    has_whole = is_finished or 0 < expected <= in_config  # the last step of a run writes it, after all (further) shards
    for kind, files in ((TAR_NAME, numbers), (SHARD_MANIFEST_NAME, shard_manifests)):
        if has_whole and files and files != list(range(expected)):
            missing = ", ".join(kind.format(n) for n in sorted(set(range(expected)) - set(files)))
            named = missing or kind.format("*")
            report.problems.append(f"{prefix}{named}: shards must be numbered 0 to {expected - 1}")
    totals, digests = lines_by_shard(whole, prefix, report.problems) if has_whole else (Counter(), Counter())
    with tempfile.TemporaryDirectory(prefix="prepcli-verify-") as scratch:
        found = numbers or shard_manifests or sorted(totals)
        if shard_manifests:
            manifests: Mapping[int, AnyPath] = {number: folder / SHARD_MANIFEST_NAME.format(number) for number in found}
        else:
            # The last step of the run writes the lines of further shards.
            manifests = split_manifest(whole, Path(scratch), found if has_whole else []) if whole.is_file() else {}
        shards = [
            ShardFiles(
                number,
                folder / TAR_NAME.format(number) if with_tars else None,
                manifests.get(number),
                sha256(TAR_NAME.format(number)),
                sha256(SHARD_MANIFEST_NAME.format(number)) if shard_manifests else None,
                None if shard_manifests else whole.name,
            )
            for number in found
        ]
        results = map_refusing_crashes(check_shard, shards, num_workers)
        for shard in with_bar(results, len(shards), "verify", "shards"):
            add_shard(shard, prefix, report)
            if not has_whole:
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


def _dataset_config(folder: AnyPath, version: int, prefix: str, report: VerifyReport) -> dict[str, int]:
    try:
        return read_metadata(folder / metadata_name(version)).get("dataset_config") or {}
    except (UsageError, OSError) as error:
        report.problems.append(f"{prefix}{metadata_name(version)}: {error}")
        return {}
