"""Tars of webdataset and WeNet, and zip archives, as inputs: all files with the same key are one record.

A table `metadata.csv`, `.jsonl` or `.parquet` in an archive gives fields to the audio that it names, as in Hugging
Face's `audiofolder`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

from prepcli.audio.probe import probe
from prepcli.engine.publishing.publish import AccountingError
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.archives import ZipMembers, checksum, linked, repeated, sparse, streamed_members, tar_members
from prepcli.formats.audiofolder import is_metadata, metadata_of, metadata_rows
from prepcli.formats.members import container
from prepcli.formats.tar_walk import SPARSE
from prepcli.jobs.inputs.catalogue import EVERY, FieldNames, line, stated_duration, unusable
from prepcli.jobs.inputs.keys import FIELD_OF, TEXTS, Key, KeyRule, Keys, is_audio
from prepcli.jobs.inputs.splits import canonical, folder_split
from prepcli.storage.addresses import ByteRange
from prepcli.storage.containers import ONE_PASS_SUFFIXES, name_in
from prepcli.storage.member_names import NameEncoding, decoded

_ABOUT_THE_SET = ("tsv", "csv", "yaml", "md", "list")
_MAX_TEXT_BYTES = 16 << 20
_MAX_TABLE_BYTES = 1 << 30


class Member(NamedTuple):
    """A file in a container: its name, its size in bytes, and the function `audio`, which gives access to its content.

    `audio` returns a `ByteRange` if the file can be read in place (in a plain tar, or stored in a zip archive), else
    its content. If the file cannot be read, its size is None, and `audio` raises `RecordRejected`.
    """

    name: str
    size: int | None
    audio: Callable[[], ByteRange | bytes]


Sample = tuple[str, list[tuple[str, Member]]]
"""The key of a sample, and the extension of each of its members with the member."""


@dataclass(frozen=True, slots=True)
class _Archive:
    """An archive: functions that read the names of its members, and the members, from the start on.

    `in_order`: whether members can only be read in their order.
    """

    path: str
    names: Callable[[], Iterable[str]]
    members: Callable[[], Iterator[Member]]
    in_order: bool = False


def sample_lines(
    path: str, keys: Keys | None, columns: FieldNames, encoding: NameEncoding | None = None
) -> Iterator[bytes]:
    """The lines of the catalogue of a tar or a zip archive: one for each sample, in the order of the archive.

    Args:
        path: the archive.
        keys: the rule of its keys; None decides by its names.
        columns: the names of fields that the user has given.
        encoding: the encoding of names that are not UTF-8, and whose encoding the archive does not state.

    Raises:
        UsageError: the archive is damaged, or samples have several files of audio.
    """
    is_zip = path.lower().endswith(".zip")
    if is_zip:
        archive = _of_zip(path, encoding)
    elif path.lower().endswith(ONE_PASS_SUFFIXES):
        archive = _Archive(
            path,
            lambda: (_tar_name(name, encoding, path) for name, _ in streamed_members(path)),
            partial(_of_stream, path, encoding),
            in_order=True,
        )
    else:
        archive = _of_tar(path, encoding)
    rule = KeyRule(keys, columns.audio, archive.names, is_zip=is_zip)
    table = _Table() if archive.in_order else _Table.of(archive)
    samples = _in_order(archive, rule) if archive.in_order else _accounted(archive, rule, columns.audio)
    yield from _lines(path, samples, columns, rule, table)
    yield from table.unused(path)


def _of_tar(path: str, encoding: NameEncoding | None) -> _Archive:
    places = [(_tar_name(name, encoding, path), start, size) for name, start, size in tar_members(path)]

    def members() -> Iterator[Member]:
        for name, start, size in places:
            if size is None or size == SPARSE:
                rejected = linked(path, name) if size is None else sparse(path, name)
                yield Member(name, None, partial(_reject, rejected))
                continue
            place = ByteRange(path, start, size)
            yield Member(name, size, lambda place=place: place)  # type: ignore[misc]

    return _Archive(path, lambda: [name for name, _, _ in places], members)


def _tar_name(name: str, encoding: NameEncoding | None, path: str) -> str:
    """The name of a tar's member; without an encoding, bytes that are not UTF-8 stay surrogates."""
    if encoding is None or name.isascii():
        return name
    raw = name.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return decoded(raw, encoding, path)


def _of_stream(path: str, encoding: NameEncoding | None) -> Iterator[Member]:
    passed: set[str] = set()
    for stored, read in streamed_members(path):
        name = _tar_name(stored, encoding, path)
        try:
            if name in passed:
                raise repeated(path, name)
            passed.add(name)
            data = read()
        except RecordRejected as rejected:
            yield Member(name, None, partial(_reject, rejected))
        else:
            yield Member(name, len(data), lambda data=data: data)  # type: ignore[misc]


def _reject(rejected: RecordRejected) -> bytes:
    raise rejected


def _of_zip(path: str, encoding: NameEncoding | None) -> _Archive:
    opened = container(path)
    assert isinstance(opened, ZipMembers)
    files = [(opened.name_of(info, encoding), info) for info in opened.files]
    return _Archive(
        path,
        lambda: [name for name, _ in files],
        lambda: (Member(name, info.file_size, partial(opened.audio, info.filename)) for name, info in files),
    )


def _accounted(archive: _Archive, rule: KeyRule, wanted: str | None) -> Iterator[Sample]:
    """Yield the samples of an archive, and check at the end that each file of audio was in one of them.

    Raises:
        AccountingError: a file of audio was lost, or was there twice.
    """
    keys = (_key(name, rule) for name in archive.names())
    expected = sum(key is not None and is_audio(key.extension, wanted) for key in keys)
    count = 0
    for name, members in _samples(archive, rule):
        count += sum(is_audio(extension, wanted) for extension, _ in members)
        yield name, members
    if count != expected:
        raise AccountingError(f"{archive.path} has {expected:,} files of audio, but {count:,} were read")


def _samples(archive: _Archive, rule: KeyRule) -> Iterator[Sample]:
    """Yield the samples of an archive, whose files need not follow each other, in the order of their first files.

    A member with an empty key is a sample of its own.
    """
    keys = [_key(name, rule) for name in archive.names()]
    recurring = _recurring(keys)
    apart: dict[str, list[tuple[str, Member]]] = {}
    if recurring:
        for key, member in zip(keys, archive.members(), strict=True):
            if key is not None and key.key in recurring:
                apart.setdefault(key.key, []).append((key.extension, member))
    for name, members in _adjacent(zip(keys, archive.members(), strict=True)):
        if name not in recurring:
            yield name, members
        elif name in apart:
            yield name, apart.pop(name)


def _key(name: str, rule: KeyRule) -> Key | None:
    """The key of a member; None if it is not a file of a sample."""
    return None if is_metadata(name) else rule.split(name)


def _recurring(keys: Iterable[Key | None]) -> set[str]:
    """The keys of the samples whose files do not follow each other."""
    ended: set[str] = set()
    recurring = set[str]()
    current = ""
    for key in keys:
        if key is not None and key.key != current:
            ended.add(current)
            current = key.key
            if current in ended and current:
                recurring.add(current)
    return recurring


def _adjacent(members: Iterable[tuple[Key | None, Member]]) -> Iterator[Sample]:
    """Yield the samples of members of which those with one key follow each other."""
    current = ""
    together: list[tuple[str, Member]] = []
    for key, member in members:
        if key is None:
            continue
        if together and (key.key != current or not current):
            yield current, together
            together = []
        current = key.key
        together.append((key.extension, member))
    if together:
        yield current, together


def _in_order(archive: _Archive, rule: KeyRule) -> Iterator[Sample]:
    """Yield the samples of an archive that is read from its start.

    Raises:
        UsageError: the files of a sample do not follow each other, or there is a table for the whole archive.
    """
    remedy = f"compressed tars are read in their order only: unpack it (gunzip {archive.path}), and give the plain tar"

    def checked() -> Iterator[tuple[Key | None, Member]]:
        for member in archive.members():
            if is_metadata(member.name):
                raise UsageError(f"{archive.path} has a table of its texts, {member.name}, and {remedy}")
            yield rule.split(member.name), member

    ended: set[str] = set()
    for key, members in _adjacent(checked()):
        if key in ended and all(member.size is not None for _, member in members):
            raise UsageError(
                f"{members[0][1].name} in {archive.path} does not follow the other files of its sample, and {remedy}"
            )
        if key:
            ended.add(key)
        yield key, members


@dataclass(slots=True)
class _Table:
    """The rows of the metadata in an archive, by the name of their audio.

    `files` are the names of the tables; `unusable` are rows that name no audio, each with the name of its table.
    """

    files: Sequence[str] = ()
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    unusable: list[tuple[str, RecordRejected]] = field(default_factory=list)

    @classmethod
    def of(cls, archive: _Archive) -> "_Table":
        """Read the tables of an archive."""
        names = metadata_of(archive.names(), archive.path)
        table = cls(names)
        for member in archive.members() if names else ():
            if is_metadata(member.name):
                try:
                    data = _bytes_of(member, _MAX_TABLE_BYTES)
                except RecordRejected as rejected:
                    raise UsageError(f"{member.name} in {archive.path} cannot be read: {rejected.detail}") from None
                for audio, row in metadata_rows(member.name, data, archive.path):
                    if isinstance(row, RecordRejected):
                        table.unusable.append((member.name, row))
                    else:
                        table.rows.setdefault(audio, []).append(row)
        return table

    def unused(self, path: str) -> Iterator[bytes]:
        """A line of a catalogue for each row that is not used yet."""
        for name, rejected in self.unusable:
            yield unusable(name_in(path, name), rejected)
        for audio, rows in self.rows.items():
            for row in rows:
                detail = f"{path} has no member {audio}, which its {' or '.join(self.files)} names"
                yield unusable(name_in(path, audio), RecordRejected(RejectReason.MISSING_AUDIO, detail), row)


def _of_split(path: str, samples: Iterable[Sample], wanted: str | None, table: _Table) -> Iterator[Sample]:
    """Yield the samples of one split, if folders in the archive are called after splits; those outside belong to each.

    Raises:
        UsageError: there are several splits to choose from, or none of the samples is of the split that is wanted.
    """
    there: set[str] = set()
    accepted = None if wanted in (None, EVERY) else canonical(wanted)
    for key, members in samples:
        split = folder_split(members[0][1].name)
        there |= {split} if split is not None else set()
        if len(there) > 1 and wanted is None:
            names = " and ".join(sorted(there))
            raise UsageError(f"{path} has members of several splits, {names}: choose one with {option('--split')}")
        if None in (split, accepted) or split == accepted:
            yield key, members
        else:
            for _, member in members:
                table.rows.pop(member.name, None)
    if accepted is not None and there and accepted not in there:
        raise UsageError(f"{path} has no split {wanted}; it has {', '.join(sorted(there))}")


def _lines(path: str, samples: Iterable[Sample], columns: FieldNames, rule: KeyRule, table: _Table) -> Iterator[bytes]:
    """Yield a line for each file of audio in the samples, and for each row of the table about it."""
    for key, members in _of_split(path, samples, columns.split, table):
        audio = [(extension, member) for extension, member in members if is_audio(extension, columns.audio)]
        if len({extension for extension, _ in audio}) > 1:
            raise UsageError(rule.choice(path, [member.name for _, member in audio]))
        if not audio:
            if not all(extension.endswith(_ABOUT_THE_SET) for extension, _ in members):
                rejected = RecordRejected(RejectReason.MISSING_AUDIO, f"the sample {key} has no audio")
                yield unusable(name_in(path, members[0][1].name), rejected)
            continue
        for _, member in audio:
            for row in table.rows.pop(member.name, [None]):
                yield _line(path, key, members, member, len(audio) > 1, row, columns, table)


def _line(
    path: str,
    key: str,
    members: Sequence[tuple[str, Member]],
    audio: Member,
    has_others: bool,
    row: dict[str, Any] | None,
    columns: FieldNames,
    table: _Table,
) -> bytes:
    """The line for a file of audio: its fields are those of the other files of its sample, and of its row."""
    name = name_in(path, audio.name)
    fields: dict[str, Any] = {}
    try:
        if not key:
            detail = f"{audio.name} has no name before its first dot, so no reader takes it"
            raise RecordRejected(RejectReason.BAD_FIELD, detail)
        if has_others:
            raise RecordRejected(RejectReason.BAD_FIELD, f"several samples in {path} have the key {key}")
        if not _is_unicode(audio.name):
            detail = f"{audio.name!a} is not UTF-8; name the encoding of the names with {option('--name-encoding')}"
            raise RecordRejected(RejectReason.NOT_UTF8, detail)
        stated = _fields(members) | (row or {})
        if table.files and row is None and not stated:
            detail = f"no row of {' or '.join(table.files)} names {audio.name}"
            raise RecordRejected(RejectReason.MISSING_TRANSCRIPT, detail)
        fields = columns.rename(stated)
        fields.setdefault("id", key.rpartition("/")[2])
        place = audio.audio()
        offset = None if row is None else row.get("offset")
        seconds = stated_duration(stated) or probe(place, name).duration
        if offset is not None and (not isinstance(offset, int | float) or stated_duration(stated) is None):
            detail = f"{audio.name}: a row with an offset needs it and a duration in seconds, not {offset!r}"
            raise RecordRejected(RejectReason.BAD_OFFSET, detail)
        return line(name, seconds, fields, offset, crc32=checksum(place))
    except RecordRejected as rejected:
        return unusable(name, rejected, fields)


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fields(members: Iterable[tuple[str, Member]]) -> dict[str, Any]:
    """The fields of a sample: all fields of its JSON file, and those of `FIELD_OF` and the text from other files."""
    fields: dict[str, Any] = {}
    for extension, member in members:
        if extension == "json":
            fields |= _decoded(member)
        elif extension in TEXTS or extension in FIELD_OF:
            fields.setdefault(FIELD_OF.get(extension, "text"), _text_of(member))
    return fields


def _decoded(member: Member) -> dict[str, Any]:
    try:
        content = msgspec.json.decode(_bytes_of(member))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordRejected(RejectReason.BROKEN_JSON, f"{member.name}: broken JSON: {error}") from None
    if not isinstance(content, dict):
        raise RecordRejected(RejectReason.BROKEN_JSON, f"{member.name} is not a JSON object")
    return content


def _text_of(member: Member) -> str:
    try:
        return _bytes_of(member).decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise RecordRejected(RejectReason.NOT_UTF8, f"{member.name} is not UTF-8") from None


def _bytes_of(member: Member, most: int | None = None) -> bytes:
    from prepcli.audio.opening import read_whole

    if (member.size or 0) > (most or _MAX_TEXT_BYTES):
        raise RecordRejected(RejectReason.BAD_FIELD, f"{member.name} has {member.size:,} bytes, too many for a text")
    return read_whole(member.audio(), member.name)
