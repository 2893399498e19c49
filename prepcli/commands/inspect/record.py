"""Reads one record of a set of any size: with indexes, one seek finds its line, and another its audio."""

import os
import re
import tarfile
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe
from prepcli.commands.inspect.kinds import Subject, what_is
from prepcli.commands.inspect.report import FoundAudio, FoundRecord
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.errors import RecordRejected, UsageError, option
from prepcli.formats.conversations import ConversationSet
from prepcli.formats.indexes import (
    MIRROR,
    DamagedError,
    IndexKind,
    Offsets,
    index_beside,
    is_current,
    make_index,
    mirrored,
)
from prepcli.formats.lenient_json import decode_json
from prepcli.formats.names import path_in
from prepcli.formats.npy import read_npy
from prepcli.formats.pairs import is_placeholder
from prepcli.formats.tar import read_content, walk_headers
from prepcli.interface.printing import number_of
from prepcli.jobs.inputs.conversations import conversation_file, conversation_tars
from prepcli.jobs.records import base_directories
from prepcli.manifest.conversations import PLACEHOLDERS, turns_of, values_of
from prepcli.manifest.fields import with_audio_filepath
from prepcli.manifest.mixing import leaves_of
from prepcli.manifest.record import Record
from prepcli.manifest.sources import expand_paths
from prepcli.storage.containers import Catalogue
from prepcli.storage.paths import AnyPath, absolute, path_of

_NUMBER = re.compile(r"(\d+)\D*$")


def find_record(spec: str, number: int, audio_base_dir: AnyPath | None) -> FoundRecord:
    """Read record `number` (from 0) of a manifest, a tarred set, a Shar set or a mix of these, or of conversations.

    Files without a current index are read to count their lines.

    Raises:
        UsageError: the set has fewer records, or is not a set of records; or a file is compressed or damaged.
    """
    subject = what_is(spec)
    if subject.kind == "conversations":
        return _find_conversation(spec, subject, number, audio_base_dir)
    names = [] if subject.data is None else [path for leaf in leaves_of(subject.data) for path in leaf.paths]
    if not names or isinstance(names[0], Catalogue):
        raise UsageError(
            f"{spec} is {subject.title}: {option('--record')} takes manifests, cuts, tarred sets, Shar sets and "
            "conversations"
        )
    paths = [path_of(path) for path in names]
    left = number
    for path in paths:
        offsets = _offsets(path, "jsonl", subject)
        if left < len(offsets) - 1:
            line = _read_line(path, offsets, left)
            audio = [_described_audio(located) for located in named_audio(subject, path, left, line, audio_base_dir)]
            return FoundRecord(number, str(path), left + 1, line, audio)
        left -= len(offsets) - 1
    raise _beyond(spec, number, number - left)


def _beyond(spec: str, number: int, num_records: int) -> UsageError:
    return UsageError(f"{spec} has {number_of(num_records, 'record')}, counted from 0: there is no record {number:,}")


def _find_conversation(spec: str, subject: Subject, number: int, audio_base_dir: AnyPath | None) -> FoundRecord:
    """Read conversation `number` in NeMo's form, with the audio of its turns; raises as `find_record`."""
    if isinstance(subject.export, ConversationSet):
        catalogues = conversation_tars(subject.export, PLACEHOLDERS)
    else:
        catalogues = [conversation_file(file, audio_base_dir, PLACEHOLDERS) for file in expand_paths(spec)]
    left = number
    for catalogue in catalogues:
        if catalogue.endswith(".tar"):
            count = 0
            for count, line in enumerate(catalogue.read(absolute(catalogue)), 1):
                if count > left:
                    return _conversation(line, number, catalogue, left)
        else:
            offsets = _offsets(path_of(catalogue), "jsonl", subject)
            count = len(offsets) - 1
            if left < count:
                read: Any = catalogue.read
                line = next(read(absolute(catalogue), start=int(offsets[left]), first=left + 1))
                return _conversation(line, number, catalogue, left)
        left -= count
    raise _beyond(spec, number, number - left)


def _conversation(line: bytes, number: int, path: str, at: int) -> FoundRecord:
    try:
        record = Record.parse(line)
        turns = turns_of(values_of(record.fields))
    except RecordRejected as rejected:
        raise UsageError(f"{path}:{at + 1} cannot be used: {rejected.detail}") from None
    names = dict.fromkeys(turn.audio for turn in turns if turn.text is None)
    others = record.fields.keys() - {"audio_filepath", "conversations"}
    fields = {name: record.get(name) for name in record.fields if name in others}
    audio = [_described_audio(Located(name, name)) for name in names]
    return FoundRecord(number, str(path), at + 1, fields, audio, [turn.document() for turn in turns])


def _offsets(path: AnyPath, kind: IndexKind, subject: Subject) -> Offsets:
    """The byte offset of each record of a file, then the size of the file; from a current index, else computed."""
    if path.suffix == ".gz":
        raise UsageError(
            f"{path} is compressed: {option('--record')} needs files in which it can seek; unpack a copy of it (gunzip)"
        )
    folder = subject.folder or path.parent
    for index in (index_beside(path), folder / MIRROR / mirrored(path)):
        if is_current(index, path.stat()):
            return np.frombuffer(index.read_bytes(), "<u8")
    try:
        return np.frombuffer(make_index(path, kind), "<u8")
    except DamagedError as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def _read_line(path: AnyPath, offsets: Offsets, at: int) -> dict[str, Any]:
    with path.open("rb") as file:
        file.seek(int(offsets[at]))
        line = file.read(int(offsets[at + 1]) - int(offsets[at]))
    try:
        fields: dict[str, Any] = decode_json(with_audio_filepath(line), dict[str, Any])
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(
            f"{path}:{at + 1} is not a record: {error}; if the file was changed, its index is stale: "
            "prepcli index --check"
        ) from None
    return fields


class Located(NamedTuple):
    """The audio or the codes of a record: the content of a tar's member, the name of a file, or a problem.

    Attributes:
        where: the tar, or the file; the field if its tar is missing.
        name: name of the member or of the file.
        data: the content of the member; None for a file.
        problem: why the audio or the codes are missing; None if they were found.
        field: the field of a Shar set; empty for other sets.
    """

    where: str
    name: str = ""
    data: bytes | None = None
    problem: str | None = None
    field: str = ""


def named_audio(
    subject: Subject, path: AnyPath, at: int, fields: dict[str, Any], audio_base_dir: AnyPath | None
) -> Iterator[Located]:
    """Find the audio and the codes of a record, whose `fields` are in line `at` (from 0) of `path`.

    Yields one item per field of a Shar set; for other sets one item, or none if the record names no audio.

    Raises:
        UsageError: a tar cannot be read.
    """
    if subject.kind == "shar":
        for field, tars in (subject.tars | subject.codes).items():
            tar = next((tar for tar in tars if _number(tar) == _number(path)), None)
            if tar is None:
                yield Located(field, problem="its tar is missing", field=field)
            else:
                yield _of_pair(tar, at, subject)._replace(field=field)
    elif "shard_id" in fields:
        yield _of_tarred(path, at, fields, subject)
    elif "audio_filepath" in fields:
        (base,) = base_directories([str(path)], audio_base_dir)
        name = path_in(base, str(fields["audio_filepath"]))
        yield Located(name, name)


def _described_audio(located: Located) -> FoundAudio:
    name = located.name if located.data is not None else os.path.basename(located.name)
    audio = FoundAudio(located.where, name, problem=located.problem)
    if located.problem is not None:
        return audio
    if is_placeholder(located.name):
        audio.description = "a placeholder: the cut lacks this field"
        return audio
    if located.data is not None and located.name.endswith(".npy"):
        codes = read_npy(located.data)
        audio.description = f"{codes.dtype} {tuple(codes.shape)}"
        return audio
    try:
        (info,) = map_refusing_crashes(_probe, [(located.name, located.data)])
    except RecordRejected as rejected:
        audio.problem = rejected.detail
        return audio
    channels = f", {info.num_channels} channels" if info.num_channels > 1 else ""
    size = "" if located.data is None else f", {len(located.data):,} bytes"
    lasts = f"{info.sampling_rate} Hz, {info.duration:.3f} s"
    audio.description = f"{info.format} {info.subtype}, {lasts}{channels}{size}"
    return audio


def _of_pair(tar: AnyPath, at: int, subject: Subject) -> Located:
    offsets = _offsets(tar, "shar_tar", subject)
    if at >= len(offsets) - 1:
        return Located(str(tar), problem=f"it has {len(offsets) - 1:,} items only")
    return Located(str(tar), *_member_at(tar, int(offsets[at])))


def _of_tarred(path: AnyPath, at: int, fields: dict[str, Any], subject: Subject) -> Located:
    """Find the audio of a manifest line in the tar of its shard. `at`: the number of the line in the manifest, from 0.

    Member number `at` is tried first, then the members before it, because lines may share a member; then the others.
    """
    tar = path.parent / f"audio_{fields['shard_id']}.tar"
    if not tar.exists():
        tar = path.parent.parent / tar.name
    if not tar.exists():
        return Located(str(tar), problem="it is missing")
    offsets = _offsets(tar, "nemo_tar", subject)
    wanted = str(fields.get("audio_filepath"))
    last = len(offsets) - 2
    first = min(at, last)
    for number in (*range(first, -1, -1), *range(first + 1, last + 1)):
        name, data = _member_at(tar, int(offsets[number]), wanted)
        if name == wanted:
            return Located(str(tar), name, data)
    return Located(str(tar), wanted, problem="it has no member of this name")


def _member_at(tar: AnyPath, offset: int, wanted: str | None = None) -> tuple[str, bytes]:
    """The name and the content of the member at a byte offset of a tar.

    If `wanted` is given and the member has another name, its content is not read but returned as `b""`.
    """
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


def _probe(task: tuple[str, bytes | None]) -> AudioInfo:
    name, data = task
    return probe(name if data is None else data, name)


def _number(path: AnyPath) -> int | None:
    match = _NUMBER.search(path.name)
    return int(match[1]) if match else None
