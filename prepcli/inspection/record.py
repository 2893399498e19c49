"""One record of a set of any size: with indexes, its line and its audio are found by a seek each."""

import os
import re
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from prepcli.audio.info import AudioInfo
from prepcli.audio.past_crashes import map_refusing_crashes
from prepcli.audio.probe import probe_bytes, probe_file
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.indexes import (
    MIRROR,
    DamagedError,
    IndexKind,
    Offsets,
    beside,
    is_current,
    make_index,
    mirrored,
)
from prepcli.formats.npy import read_npy
from prepcli.formats.pairs import is_placeholder
from prepcli.formats.shar import decode_json
from prepcli.formats.tar import read_content, walk_headers
from prepcli.inspection.audio import candidate
from prepcli.inspection.kinds import Subject, what_is
from prepcli.inspection.report import FoundAudio, FoundRecord
from prepcli.manifest.mixing import leaves_of
from prepcli.processes.in_hand import take_in_hand
from prepcli.records import base_directories
from prepcli.storage.paths import path_of

_NUMBER = re.compile(r"(\d+)\D*$")


def find_record(spec: str, number: int, audio_base_dir: Path | None) -> FoundRecord:
    """Read record `number` (from 0) of a manifest, a tarred set, a Shar set or a mix of these.

    Files without a current index are read to count their lines.

    Raises:
        UsageError: there is no such record, or the set has no records.
    """
    subject = what_is(spec)
    if subject.data is None:
        raise UsageError(f"{spec} is {subject.title}: --record takes manifests, cuts, tarred sets and Shar sets")
    paths = [path_of(path) for leaf in leaves_of(subject.data) for path in leaf.paths]
    left = number
    for path in paths:
        offsets = _offsets(path, "jsonl", subject)
        if left < len(offsets) - 1:
            line = _read_line(path, offsets, left)
            return FoundRecord(
                number, str(path), left + 1, line, list(_audio(subject, path, left, line, audio_base_dir))
            )
        left -= len(offsets) - 1
    raise UsageError(f"{spec} has {number - left:,} records, counted from 0: there is no record {number:,}")


def _offsets(path: Path, kind: IndexKind, subject: Subject) -> Offsets:
    """The offsets of a file's records, and its size; from its index if that is current."""
    if path.suffix == ".gz":
        raise UsageError(f"{path} is compressed: --record needs files in which it can seek; unpack it (gunzip) first")
    folder = subject.folder or path.parent
    for index in (beside(path), folder / MIRROR / mirrored(path)):
        if is_current(index, path.stat()):
            return np.fromfile(index, "<u8")
    try:
        return np.frombuffer(make_index(path, kind), "<u8")
    except DamagedError as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def _read_line(path: Path, offsets: Offsets, at: int) -> dict[str, Any]:
    with path.open("rb") as file:
        file.seek(int(offsets[at]))
        line = file.read(int(offsets[at + 1]) - int(offsets[at]))
    try:
        fields: dict[str, Any] = decode_json(line, dict[str, Any])
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(
            f"{path}:{at + 1} is not a record: {error}; if the file was changed, its index is stale: "
            "prepcli index --check"
        ) from None
    return fields


def _audio(
    subject: Subject, path: Path, at: int, fields: dict[str, Any], audio_base_dir: Path | None
) -> Iterator[FoundAudio]:
    if subject.kind == "shar":
        for field, tars in (subject.tars | subject.codes).items():
            tar = next((tar for tar in tars if _number(tar) == _number(path)), None)
            yield FoundAudio(field, problem="its tar is missing") if tar is None else _of_pair(tar, at, subject)
    elif "shard_id" in fields:
        yield _of_tarred(path, at, fields, subject)
    elif "audio_filepath" in fields:
        (base,) = base_directories([str(path)], audio_base_dir)
        name = candidate(base, (str(fields["audio_filepath"]), 0.0, 0.0)).path
        try:
            (info,) = map_refusing_crashes(_probe, [(name, None)])
            yield FoundAudio(name, os.path.basename(name), _described(info))
        except RecordRejected as rejected:
            yield FoundAudio(name, problem=rejected.detail)


def _of_pair(tar: Path, at: int, subject: Subject) -> FoundAudio:
    offsets = _offsets(tar, "shar_tar", subject)
    if at >= len(offsets) - 1:
        return FoundAudio(str(tar), problem=f"it has {len(offsets) - 1:,} items only")
    name, data = _member_at(tar, int(offsets[at]))
    found = FoundAudio(str(tar), name)
    if is_placeholder(name):
        found.description = "a placeholder: the cut lacks this field"
    elif name.endswith(".npy"):
        codes = read_npy(data)
        found.description = f"{codes.dtype} {tuple(codes.shape)}"
    else:
        _describe(found, data)
    return found


def _of_tarred(path: Path, at: int, fields: dict[str, Any], subject: Subject) -> FoundAudio:
    """The member that a line names. Members are in the order of the lines that first use them."""
    tar = path.parent / f"audio_{fields['shard_id']}.tar"
    if not tar.exists():
        tar = path.parent.parent / tar.name
    if not tar.exists():
        return FoundAudio(str(tar), problem="it is missing")
    offsets = _offsets(tar, "nemo_tar", subject)
    wanted = str(fields.get("audio_filepath"))
    last = len(offsets) - 2
    first = min(at, last)
    for number in (*range(first, -1, -1), *range(first + 1, last + 1)):
        name, data = _member_at(tar, int(offsets[number]), wanted)
        if name == wanted:
            found = FoundAudio(str(tar), name)
            _describe(found, data)
            return found
    return FoundAudio(str(tar), wanted, problem="it has no member of this name")


def _member_at(tar: Path, offset: int, wanted: str | None = None) -> tuple[str, bytes]:
    """Name and content of the member at an offset; the content only if the name is the wanted one."""
    try:
        with tar.open("rb") as file:
            file.seek(offset)
            with tarfile.open(fileobj=file, mode="r:") as members:
                for member in islice(walk_headers(members), 1):
                    content = read_content(members, member) if wanted in (None, member.name) else b""
                    return member.name, content
    except (tarfile.TarError, EOFError) as error:
        raise UsageError(
            f"{tar} has no member at byte {offset:,}: {error}; if it was changed, its index is stale: prepcli index "
            "--check"
        ) from None
    raise UsageError(f"{tar} has no member at byte {offset:,}; its index is stale: prepcli index --check")


def _describe(found: FoundAudio, data: bytes) -> None:
    try:
        (info,) = map_refusing_crashes(_probe, [(found.name, data)])
        found.description = _described(info) + f", {len(data):,} bytes"
    except RecordRejected as rejected:
        found.problem = rejected.detail


def _probe(task: tuple[str, bytes | None]) -> AudioInfo:
    name, data = task
    take_in_hand(name)
    return probe_file(name) if data is None else probe_bytes(data, name)


def _described(info: AudioInfo) -> str:
    channels = f", {info.num_channels} channels" if info.num_channels > 1 else ""
    return f"{info.format} {info.subtype}, {info.sampling_rate} Hz, {info.duration:.3f} s{channels}"


def _number(path: Path) -> int | None:
    match = _NUMBER.search(path.name)
    return int(match[1]) if match else None


def lines_of(found: FoundRecord) -> list[str]:
    """The record for people."""
    lines = [f"record {found.number:,}: {found.file}:{found.line}"]
    lines += [f"  {name:<22}{_shown(value)}" for name, value in found.fields.items()]
    for audio in found.audio:
        lines.append(f"audio  {audio.where}")
        lines.append(f"  {audio.name}  {audio.problem or audio.description}")
    return lines


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else text[:197] + "..."
