"""Tars of webdataset and WeNet, and zip archives, as inputs: all files with the same key are one record.

The keys of webdataset end at the first dot of a base name (webdataset/tariterators.py), those of WeNet at the last dot
of a name (wenet/dataset/processor.py).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec

from prepcli.audio.probe import probe
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.archives import ZipMembers, checksum, linked, repeated, streamed_members, tar_members
from prepcli.formats.members import container
from prepcli.jobs.inputs.catalogue import (
    FieldNames,
    is_audio_suffix,
    line,
    stated_duration,
    unusable,
)
from prepcli.storage.addresses import ByteRange
from prepcli.storage.containers import ONE_PASS_SUFFIXES, name_in

Keys = Literal["webdataset", "wenet"]
_WEBDATASET_KEY = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)
_HIDDEN = re.compile(r"(^|/)(__[^/]*__($|/)|\._|\.DS_Store$)")
_TEXTS = ("txt", "text", "transcript", "normalized.txt")
_MAX_TEXT_BYTES = 16 << 20


class Member(NamedTuple):
    """A file in a container: its name, its size in bytes, and the function `audio`, which gives access to its content.

    `audio` returns a `ByteRange` if the file can be read in place (in a plain tar, or stored in a zip archive), else
    its content. If the file cannot be read, its size is None, and `audio` raises `RecordRejected`.
    """

    name: str
    size: int | None
    audio: Callable[[], ByteRange | bytes]


def sample_lines(path: str, keys: Keys, columns: FieldNames) -> Iterator[bytes]:
    """The lines of the catalogue of a tar or a zip archive: one for each sample, in the order of the archive.

    Raises:
        UsageError: the archive is damaged, or samples have several files of audio.
    """
    is_zip = path.lower().endswith(".zip")
    members = (
        _of_zip(path) if is_zip else _of_stream(path) if path.lower().endswith(ONE_PASS_SUFFIXES) else _of_tar(path)
    )
    return _lines(path, _samples(members, keys, is_sorted=not is_zip), columns)


def _of_tar(path: str) -> Iterator[Member]:
    for name, start, size in tar_members(path):
        if size is None:
            yield Member(name, None, partial(_reject, linked(path, name)))
            continue
        place = ByteRange(path, start, size)
        yield Member(name, size, lambda place=place: place)  # type: ignore[misc]


def _of_stream(path: str) -> Iterator[Member]:
    passed: set[str] = set()
    for name, read in streamed_members(path):
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


def _of_zip(path: str) -> Iterator[Member]:
    found = container(path)
    assert isinstance(found, ZipMembers)
    for info in found.files:
        yield Member(info.filename, info.file_size, partial(found.audio, info.filename))


def _key_of(name: str, keys: Keys) -> tuple[str, str] | None:
    """The key and the extension of a member; None if it belongs to no sample.

    Audio without a key, such as `a/.wav`, is a sample of its own, whose key is empty.
    """
    if _HIDDEN.search(name):
        return None
    key, dot, extension = name.rpartition(".")
    if keys == "wenet":
        return (key, extension) if dot else None
    found = _WEBDATASET_KEY.match(name)
    if found is None:
        return ("", extension.lower()) if dot and is_audio_suffix(extension) else None
    return found[1], found[2].lower()


def _samples(
    members: Iterable[Member], keys: Keys, *, is_sorted: bool
) -> Iterator[tuple[str, list[tuple[str, Member]]]]:
    """Yield the key of each sample with its members, as pairs of extension and member.

    `is_sorted`: whether the members of a sample follow each other, as in a tar. A member with an empty key is a sample
    of its own.
    """
    if is_sorted:
        current: str | None = None
        together: list[tuple[str, Member]] = []
        for member in members:
            found = _key_of(member.name, keys)
            if found is None:
                continue
            if found[0] != current and together:
                yield str(current), together
                together = []
            current = found[0]
            together.append((found[1], member))
            if not current:
                yield current, together
                together = []
        if together:
            yield str(current), together
        return
    by_key: dict[str, list[tuple[str, Member]]] = {}
    for member in members:
        if (found := _key_of(member.name, keys)) is not None:
            by_key.setdefault(found[0], []).append((found[1], member))
    without_key = by_key.pop("", [])
    yield from by_key.items()
    yield from (("", [one]) for one in without_key)


def _lines(path: str, samples: Iterable[tuple[str, list[tuple[str, Member]]]], columns: FieldNames) -> Iterator[bytes]:
    for key, members in samples:
        audio = [(extension, one) for extension, one in members if _is_audio(extension, columns.audio)]
        if len({extension for extension, _ in audio}) > 1:
            names = " and ".join(one.name for _, one in audio[:2])
            raise UsageError(
                f"{path} has several files of audio in a sample, {names}: choose with "
                f"{option('--audio-column', audio[0][0])}"
            )
        name = name_in(path, audio[0][1].name if audio else members[0][1].name)
        fields: dict[str, Any] = {}
        try:
            if not audio:
                if all(extension.endswith(("tsv", "csv", "yaml", "md", "list")) for extension, _ in members):
                    continue  # this file is about the whole set
                raise RecordRejected(RejectReason.MISSING_AUDIO, f"the sample {key} has no audio")
            if not key:
                raise RecordRejected(
                    RejectReason.BAD_FIELD,
                    f"{audio[0][1].name} has no name before its first dot, so no reader takes it",
                )
            if len(audio) > 1:
                raise RecordRejected(RejectReason.BAD_FIELD, f"several samples in {path} have the key {key}")
            stated = _fields(members)
            fields = columns.rename(stated)
            fields.setdefault("id", key.rpartition("/")[2])
            place = audio[0][1].audio()
            seconds = stated_duration(stated) or probe(place, name).duration
            yield line(name, seconds, fields, crc32=checksum(place))
        except RecordRejected as rejected:
            yield unusable(name, rejected, fields)


def _is_audio(extension: str, wanted: str | None) -> bool:
    return extension == wanted.lstrip(".").lower() if wanted is not None else is_audio_suffix(extension)


def _fields(members: Iterable[tuple[str, Member]]) -> dict[str, Any]:
    """The fields of a sample: all fields of its JSON file, and `text`, `lang` and `cls` from files of their own."""
    fields: dict[str, Any] = {}
    for extension, member in members:
        if extension == "json":
            fields |= _decoded(member)
        elif extension in _TEXTS or extension == "lang":
            fields.setdefault("lang" if extension == "lang" else "text", _text_of(member))
        elif extension == "cls":
            fields.setdefault("cls", _text_of(member))
    return fields


def _decoded(member: Member) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(_bytes_of(member))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordRejected(RejectReason.BROKEN_JSON, f"{member.name}: broken JSON: {error}") from None
    if not isinstance(found, dict):
        raise RecordRejected(RejectReason.BROKEN_JSON, f"{member.name} is not a JSON object")
    return found


def _text_of(member: Member) -> str:
    try:
        return _bytes_of(member).decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise RecordRejected(RejectReason.NOT_UTF8, f"{member.name} is not UTF-8") from None


def _bytes_of(member: Member) -> bytes:
    from prepcli.audio.opening import read_whole

    if (member.size or 0) > _MAX_TEXT_BYTES:
        raise RecordRejected(RejectReason.BAD_FIELD, f"{member.name} has {member.size:,} bytes, too many for a text")
    return read_whole(member.audio(), member.name)
