"""Checks that a shard of a tarred set is complete and its manifest and tar agree, as strictly as any loader."""

import hashlib
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from prepcli.audio.check import check_decoded
from prepcli.audio.info import AudioInfo
from prepcli.audio.limits import SAME_SECONDS
from prepcli.audio.probe import probe_bytes
from prepcli.commands.verify.indexes import index_problems
from prepcli.errors import RecordRejected
from prepcli.formats.tar import open_regular, read_members
from prepcli.formats.tarred import TAR_NAME
from prepcli.manifest.record import Record
from prepcli.processes.in_hand import take_in_hand
from prepcli.storage.paths import AnyPath

_ONE_DOT = re.compile(r"[^./]+\.[^./]+$")
_SUB = re.compile(r"-sub\d+\.\w+$")


@dataclass(frozen=True, slots=True)
class ShardFiles:
    """One shard to check; `sha256`: the published digests of its files, if known.

    Without `manifest`, its lines are not written yet, and only the tar is checked. `whole`: the name of the manifest
    over all shards, if there are no manifests of shards; `manifest` then has the lines of this shard.
    """

    number: int
    tar: AnyPath | None
    manifest: AnyPath | None
    tar_sha256: str | None = None
    manifest_sha256: str | None = None
    whole: str | None = None

    def line(self, number: int) -> str:
        """The name of a line of `manifest`, for a user."""
        assert self.manifest is not None
        return f"{self.whole}: line {number} of shard {self.number}" if self.whole else f"{self.manifest.name}:{number}"


@dataclass(slots=True)
class ShardReport:
    """The result: counts, seconds of audio in the lines, and problems."""

    number: int
    num_members: int = 0
    num_lines: int = 0
    seconds: float = 0.0
    lines_digest: int = 0
    """Sum of 64-bit hashes of the lines: equal for equal lines in any order."""
    problems: list[str] = field(default_factory=list)


def check_audio(data: bytes, name: str, file: AnyPath, where: str, report: ShardReport) -> AudioInfo | None:
    """Decode the audio `name` in a shard or another file; adds a problem and returns None if that fails."""
    try:
        take_in_hand(name, file)
        info = probe_bytes(data, name)
        check_decoded(data, info, name)
    except RecordRejected as rejected:
        report.problems.append(f"{where}: {rejected.detail}")
        return None
    return info


def check_shard(files: ShardFiles) -> ShardReport:
    """Read the whole shard and decode every member."""
    report = ShardReport(files.number)
    lengths = _check_tar(files, report) if files.tar is not None else None
    if files.manifest is not None:
        _check_manifest(files.manifest, files, lengths, report)
    if not report.problems:
        if files.tar is not None:
            report.problems += index_problems(files.tar, "nemo_tar", files.tar.name)
        if files.manifest is not None:
            name = f"{files.manifest.parent.name}/{files.manifest.name}"
            report.problems += index_problems(files.manifest, "jsonl", name)
    return report


def _check_tar(files: ShardFiles, report: ShardReport) -> dict[str, float] | None:
    """Durations in seconds by member name (nan: undecodable); None if there is no tar."""
    assert files.tar is not None
    lengths: dict[str, float] = {}
    name = files.tar.name
    for member, data in read_members(files.tar, name, files.tar_sha256, report.problems):
        _check_member(files.tar, member, data, lengths, report)
    report.num_members = len(lengths)
    return lengths if files.tar.is_file() else None


def _check_member(
    tar: AnyPath, member: tarfile.TarInfo, data: bytes, lengths: dict[str, float], report: ShardReport
) -> None:
    where = f"{tar.name}: member {member.name}"
    if not member.isreg():
        report.problems.append(f"{where} is not a regular file")
        return
    if not _ONE_DOT.match(member.name):
        report.problems.append(f"{where}: NeMo requires one dot and no folder in a name")
    if _SUB.search(member.name):
        report.problems.append(f"{where}: NeMo would remove -sub<n> from the name and not find it")
    if member.name in lengths:
        report.problems.append(f"{where} occurs twice")
    lengths[member.name] = float("nan")
    info = check_audio(data, member.name, tar, tar.name, report)
    if info is None:
        return
    extension = member.name.rpartition(".")[2]
    if extension != info.format:
        report.problems.append(f"{where} holds {info.format}; NeMo's classic loader goes by the extension")
    lengths[member.name] = info.duration


def _check_manifest(
    manifest: AnyPath, files: ShardFiles, lengths: dict[str, float] | None, report: ShardReport
) -> None:
    name = files.whole or manifest.name
    digest = hashlib.sha256()
    seen: set[str] = set()
    try:
        for number, line in enumerate(_lines(manifest), start=1):
            digest.update(line)
            report.num_lines += 1
            report.lines_digest += line_hash(line)
            where = files.line(number)
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
            seen.add(record.audio_filepath)
            if record.get("shard_id") != files.number:
                report.problems.append(f"{where}: shard_id is {record.get('shard_id')}, not {files.number}")
            if lengths is not None:
                _check_line(where, record, lengths, report)
    except OSError as error:
        report.problems.append(f"{name}: cannot be read: {error.strerror or error}")
        return
    if files.manifest_sha256 not in (None, digest.hexdigest()):
        report.problems.append(f"{name}: not the bytes that were published (SHA-256 differs)")
    for member in [member for member in lengths or {} if member not in seen]:
        report.problems.append(f"{TAR_NAME.format(files.number)}: member {member} has no line in {name}")


def _check_line(where: str, record: Record, lengths: dict[str, float], report: ShardReport) -> None:
    length = lengths.get(record.audio_filepath)
    if length is None:
        report.problems.append(f"{where}: {record.audio_filepath} is not in the tar")
    elif record.offset + record.duration > length + SAME_SECONDS:
        report.problems.append(
            f"{where}: ends at {record.offset + record.duration:.3f} s, but {record.audio_filepath} has {length:.3f} s"
        )
    elif not record.has_offset and record.duration < length - SAME_SECONDS:
        report.problems.append(
            f"{where}: duration is {record.duration:.3f} s, but {record.audio_filepath} has {length:.3f} s"
        )


def _lines(path: AnyPath) -> Iterator[bytes]:
    with open_regular(path) as file:
        yield from file


def line_hash(line: bytes) -> int:
    """A 64-bit hash of a line, for comparing sets of lines without keeping them."""
    return int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "little")
