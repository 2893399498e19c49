"""Checks the shards, manifests, indexes and metadata of a tarred data set, at least as strictly as any loader."""

import re
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from prepcli.audio.info import AudioInfo
from prepcli.audio.limits import SAME_SECONDS
from prepcli.commands.verify.indexes import index_problems
from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.shards import CheckedFile, ShardReport, Verification, check_audio, check_rates, line_hash
from prepcli.engine.publishing.hashes import ContentHash
from prepcli.engine.state.work_folder import undone_versions
from prepcli.errors import RecordRejected, UsageError, option
from prepcli.formats.folders import numbered
from prepcli.formats.tar import open_regular, read_members
from prepcli.formats.tarred import (
    SHARD_MANIFEST_FILE,
    SHARD_MANIFEST_FOLDER,
    SHARD_MANIFEST_NAME,
    TAR_NAME,
    TarredSet,
    member_of_line,
    metadata_name,
    read_metadata,
    tar_numbers,
)
from prepcli.manifest.fields import decode_value, parse_fields
from prepcli.manifest.record import Record
from prepcli.storage.paths import AnyPath, relative

_SCRATCH = "manifest_{}.json"
_ONE_DOT = re.compile(r"[^./]+\.[^./]+$")


Members = dict[str, AudioInfo | None]
"""The audio in a tar by the names of its members; None for a member that cannot be decoded."""


@dataclass(frozen=True, slots=True)
class ShardFiles:
    """One shard to check.

    Attributes:
        number: the number of the shard.
        tar: its tar; None for a set without tars.
        manifest: the file with its lines; None if they are not written yet, and only the tar is checked.
        whole: the name of the manifest over all shards, if the set has no manifest per shard; `manifest` is then a
            temporary file with the lines of this shard.
    """

    number: int
    tar: CheckedFile | None
    manifest: CheckedFile | None
    whole: str | None = None


def check_shard(files: ShardFiles) -> ShardReport:
    """Read the whole shard and decode every member."""
    report = ShardReport()
    members = _check_tar(files.tar, report) if files.tar is not None else None
    if files.manifest is not None:
        _check_manifest(files.manifest, files, members, report)
    if report.problems:
        return report
    if files.tar is not None:
        report.problems += index_problems(files.tar.path, "nemo_tar", files.tar.path.name)
    if files.manifest is not None:
        path = files.manifest.path
        report.problems += index_problems(path, "jsonl", f"{path.parent.name}/{path.name}")
    return report


def _check_tar(tar: CheckedFile, report: ShardReport) -> Members | None:
    """Check the members of a tar; returns them by name, or None if there is no tar."""
    members: Members = {}
    for member, data in read_members(tar.path, tar.path.name, tar.published, report.problems):
        _check_member(tar.path, member, data, members, report)
    report.num_members = len(members)
    return members if tar.path.is_file() else None


def _check_member(tar: AnyPath, member: tarfile.TarInfo, data: bytes, members: Members, report: ShardReport) -> None:
    where = f"{tar.name}: member {member.name}"
    if not member.isreg():
        report.problems.append(f"{where} is not a regular file")
        return
    if not _ONE_DOT.match(member.name):
        report.problems.append(f"{where}: NeMo requires one dot and no folder in a name")
    if member_of_line(member.name) != member.name:
        report.problems.append(f"{where}: NeMo would remove -sub<n> from the name and not find it")
    if member.name in members:
        report.problems.append(f"{where} occurs twice")
    members[member.name] = None
    info = check_audio(data, member.name, tar, tar.name, report)
    if info is None:
        return
    extension = member.name.rpartition(".")[2]
    if extension.lower() != info.format:
        report.problems.append(f"{where} holds {info.format}; NeMo's classic loader goes by the extension")
    members[member.name] = info


def _check_manifest(manifest: CheckedFile, files: ShardFiles, members: Members | None, report: ShardReport) -> None:
    name = files.whole or manifest.path.name
    content = ContentHash(manifest.published)
    seen: set[str] = set()
    try:
        for number, line in enumerate(_lines_of(manifest.path), start=1):
            content.update(line)
            report.num_lines += 1
            report.lines_digest += line_hash(line)
            where = f"{name}: line {number} of shard {files.number}" if files.whole else f"{name}:{number}"
            if not line.strip():
                report.problems.append(f"{where}: a blank line, which ends NeMo's reading")
                continue
            if not line.endswith(b"\n"):
                report.problems.append(f"{where}: cut off: no line end")
            try:
                record = Record.parse(line)
            except RecordRejected as rejected:
                report.problems.append(f"{where}: {rejected.detail}")
                continue
            report.seconds += record.duration
            seen.add(member_of_line(record.audio_filepath))
            if record.get("shard_id") != files.number:
                report.problems.append(f"{where}: shard_id is {record.get('shard_id')}, not {files.number}")
            if members is not None:
                _check_line(where, record, members, report)
    except OSError as error:
        report.problems.append(f"{name}: cannot be read: {error.strerror or error}")
        return
    report.compare(name, content)
    tar = TAR_NAME.format(files.number)
    unnamed = (member for member in members or {} if member not in seen)
    report.problems += [f"{tar}: member {member} has no line in {name}" for member in unnamed]


def _check_line(where: str, record: Record, members: Members, report: ShardReport) -> None:
    member = member_of_line(record.audio_filepath)
    if member not in members:
        report.problems.append(f"{where}: {record.audio_filepath} is not in the tar")
        return
    info = members[member]
    if info is None:
        return  # the problem of the member is reported
    length = info.duration
    try:
        check_rates(record, info.sampling_rate)
    except RecordRejected as rejected:
        report.problems.append(f"{where}: {rejected.detail}")
    if record.offset + record.duration > length + SAME_SECONDS:
        report.problems.append(
            f"{where}: ends at {record.offset + record.duration:.3f} s, but {record.audio_filepath} has {length:.3f} s"
        )
    elif not record.has_offset and record.duration < length - SAME_SECONDS:
        report.problems.append(
            f"{where}: duration is {record.duration:.3f} s, but {record.audio_filepath} has {length:.3f} s"
        )


def _lines_of(path: AnyPath) -> Iterator[bytes]:
    with open_regular(path) as file:
        yield from file


def _lines_by_shard(
    whole: AnyPath, where: str, problems: list[str], scratch: Path | None
) -> tuple[Counter[int], Counter[int]]:
    """Count the lines of each shard in the manifest of the whole set; adds problems of lines to `problems`.

    With `scratch`, the lines of each shard are written to a file there (`_SCRATCH`).

    Returns:
        Two counters by the number of the shard: the number of its lines, and the sum of their hashes (`line_hash`).
    """
    totals, digests = Counter[int](), Counter[int]()
    try:
        for shard, numbered_lines in groupby(enumerate(_lines_of(whole), start=1), key=lambda item: _shard_of(item[1])):
            if shard is None:
                problems += [f"{where}:{number}: no usable line with a shard_id" for number, _ in numbered_lines]
                continue
            with (scratch / _SCRATCH.format(shard)).open("ab") if scratch else nullcontext() as file:
                for _, line in numbered_lines:
                    totals[shard] += 1
                    digests[shard] += line_hash(line)
                    if file is not None:
                        file.write(line)
    except OSError as error:
        problems.append(f"{where}: cannot be read: {error.strerror}")
    return totals, digests


def _shard_of(line: bytes) -> int | None:
    try:
        fields = parse_fields(line)
        shard = decode_value(fields["shard_id"]) if "audio_filepath" in fields else None
    except (RecordRejected, KeyError):
        return None
    return shard if type(shard) is int else None


def verify_tarred(tarred: TarredSet, of: Verification) -> None:
    """Check a tarred set, or the sets of its buckets; if its run has not ended, only the existing shards."""
    if tarred.is_empty:
        try:
            tarred.check_parts()
        except UsageError as error:
            of.report.problems.append(str(error))
    for part in tarred.sets:
        _verify(part, of)


def _verify(tarred: TarredSet, of: Verification) -> None:
    folder, whole, report = tarred.folder, tarred.whole, of.report
    prefix = "" if folder == of.out else f"{relative(folder, of.out)}/"
    config = _dataset_config(folder, tarred.version, prefix, report) if of.is_finished or whole.is_file() else {}
    numbers = tar_numbers(folder)
    shard_manifests = list(numbered(folder / SHARD_MANIFEST_FOLDER, SHARD_MANIFEST_FILE))
    for removed in undone_versions(folder):
        report.problems.append(
            f"{prefix}version {removed} is not completely removed; complete it with the version of prepcli that has "
            f"begun it ({option('--undo-concat')})"
        )
        numbers, shard_manifests = list(tarred.shards), list(tarred.manifests)
    in_config = config.get("num_shards") or 0
    expected = max(in_config, len(numbers), len(shard_manifests))
    has_whole = of.is_finished or 0 < expected <= in_config  # the last step of a run writes the whole manifest
    for kind, files in ((TAR_NAME, numbers), (SHARD_MANIFEST_NAME, shard_manifests)):
        if has_whole and files and files != list(range(expected)):
            missing = ", ".join(kind.format(n) for n in sorted(set(range(expected)) - set(files)))
            named = missing or kind.format("*")
            report.problems.append(f"{prefix}{named}: shards must be numbered 0 to {expected - 1}")
    with tempfile.TemporaryDirectory(prefix="prepcli-verify-") as temporary:
        scratch = None if shard_manifests else Path(temporary)
        totals, digests = Counter[int](), Counter[int]()
        if has_whole:
            totals, digests = _lines_by_shard(whole, prefix + whole.name, report.problems, scratch)
        elif scratch is not None and whole.is_file():
            _lines_by_shard(whole, prefix + whole.name, [], scratch)
        checked = numbers or shard_manifests or sorted(totals)
        if checked and not numbers:
            report.notes.append(f"{folder} has no tars, as with --only-manifests: only its manifests were checked")
        shards = []
        for number in checked:
            tar = of.file(prefix + TAR_NAME.format(number)) if numbers else None
            if scratch is None:
                manifest = of.file(prefix + SHARD_MANIFEST_NAME.format(number))
                shards.append(ShardFiles(number, tar, manifest))
                continue
            lines = scratch / _SCRATCH.format(number)
            if has_whole and whole.is_file():
                lines.touch()  # of a shard without lines
            shards.append(ShardFiles(number, tar, CheckedFile(lines) if lines.exists() else None, whole.name))
        for number, shard in zip(checked, of.check(check_shard, shards, prefix), strict=True):
            if has_whole and (totals[number], digests[number]) != (shard.num_lines, shard.lines_digest):
                report.problems.append(
                    f"{prefix}{whole.name}: its {totals[number]} lines of shard {number} are not the "
                    f"{shard.num_lines} lines of the shard's own manifest"
                )
    if has_whole and not report.problems:
        report.problems += index_problems(whole, "jsonl", f"{prefix}{whole.name}")
    for number in sorted(set(totals) - set(checked)):
        report.problems.append(f"{prefix}{whole.name}: names shard {number}, which does not exist")


def _dataset_config(folder: AnyPath, version: int, prefix: str, report: VerifyReport) -> dict[str, int]:
    path = folder / metadata_name(version)
    if not path.is_file() and not report.hashes_known:
        report.notes.append(f"{prefix}{path.name} is missing: trainers do without it, {option('--concat-to')} does not")
        return {}
    try:
        return read_metadata(path).get("dataset_config") or {}
    except (UsageError, OSError) as error:
        report.problems.append(f"{prefix}{metadata_name(version)}: {error}")
        return {}
