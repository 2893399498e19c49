"""Lhotse Shar as input: each supervision of a cut is a record, whose audio is that of the cut, in a tar."""

from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from typing import Any

import msgspec

from prepcli.audio.probe import probe
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.archives import TarMembers, checksum
from prepcli.formats.members import container
from prepcli.formats.pairs import UnpairedError, is_placeholder, pair_members
from prepcli.formats.shar import CONTEXT, TARGET
from prepcli.jobs.inputs.catalogue import line, unusable
from prepcli.manifest.scan import Range, lines_of
from prepcli.storage.addresses import ByteRange
from prepcli.storage.containers import name_in

_SAME = 1e-3
"""Up to this difference in seconds, a supervision that begins and ends like its cut covers the whole cut."""
_NAMES = (("text", "text"), ("speaker", "speaker"), ("language", "lang"), ("gender", "gender"))
_OF_CONTEXT = ("context_audio_offset", "context_audio_duration", "context_recording_id")


class _Supervision(msgspec.Struct):
    start: float = 0.0
    duration: float = 0.0
    channel: Any = 0
    text: str | None = None
    speaker: str | None = None
    language: str | None = None
    gender: str | None = None
    custom: dict[str, Any] | None = None


class _Cut(msgspec.Struct):
    id: str
    type: str = ""
    start: float = 0.0
    duration: float = 0.0
    supervisions: list[_Supervision] = []


_decode = msgspec.json.Decoder(_Cut).decode


def shar_lines(cuts: str, tars: Mapping[str, str]) -> Iterator[bytes]:
    """Yield the catalogue lines of a shard: for each cut one line per supervision.

    A cut without supervisions gives one line without a text.

    Args:
        cuts: the cuts file of the shard.
        tars: the shard's tar for each field with audio. Only two fields are read: the result of `target_of`, and
            `context_audio` if the shard has it.

    Raises:
        UsageError: a file is damaged, or the cuts and the tars have different numbers of items.
    """
    target = tars[target_of(tars)]
    context = tars.get(CONTEXT)
    pairs = [_pairs(tar) for tar in (target, *([context] if context else []))]
    lines = (text for text in lines_of(Range(cuts, 0, None)) if text.strip())
    texts: Iterator[bytes | None] = iter(lines)
    for number, text in enumerate(chain(texts, repeat(None)), 1):
        items = [next(one, None) for one in pairs]
        if text is None and not any(items):
            return
        if text is None or items[0] is None or items[-1] is None:
            raise UsageError(f"{cuts} and its tars have different numbers of items; copy the shard again")
        try:
            cut = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{cuts}:{number} is not a cut: {error}; repair the set first") from None
        yield from _of_cut(cut, target, context, items[0], items[-1])


def target_of(fields: Mapping[str, object]) -> str:
    """The field with the audio of the cuts themselves, not of their contexts.

    This is `recording`, else `target_audio` (of Magpie-TTS), else the first of the other fields in alphabetical order.

    Raises:
        UsageError: there is no field but `context_audio`.
    """
    found = next((name for name in ("recording", TARGET, *sorted(fields)) if name in fields and name != CONTEXT), None)
    if found is None:
        raise UsageError(f"the Lhotse Shar has no audio of its cuts, only {CONTEXT}; copy the folder {TARGET} too")
    return found


def _pairs(tar: str) -> Iterator[str]:
    """Yield a name for each pair of members in a tar, which are data and its JSON: the name of the data."""
    members = container(tar)
    assert isinstance(members, TarMembers)
    try:
        for data, _ in pair_members(iter(members.members), str):
            yield data
    except UnpairedError as error:
        raise UsageError(f"{tar}: {error}; copy the shard again") from None


def _of_cut(cut: _Cut, target: str, context: str | None, member: str, other: str) -> Iterator[bytes]:
    name = name_in(target, member)
    try:
        if is_placeholder(member):
            raise RecordRejected(RejectReason.MISSING_AUDIO, f"the cut {cut.id} has no audio")
        if cut.type not in ("MonoCut", "MultiCut", ""):
            raise RecordRejected(RejectReason.BAD_FIELD, f"{cut.id} is a {cut.type}; only single cuts are read")
        if not cut.duration > 0:
            raise RecordRejected(RejectReason.BAD_DURATION, f"the cut {cut.id} has no duration above 0")
        of_context = {} if context is None or is_placeholder(other) else _context(context, other)
    except RecordRejected as rejected:
        yield unusable(name, rejected, {"id": cut.id})
        return
    crc32 = checksum(_member(target, member))
    for number, one in enumerate(cut.supervisions or [_Supervision(duration=cut.duration)]):
        fields: dict[str, Any] = {"id": cut.id if not number else f"{cut.id}-{number + 1}"}
        fields |= {field: value for own, field in _NAMES if (value := getattr(one, own)) is not None}
        fields |= {name: value for name, value in (one.custom or {}).items() if name not in (*fields, *_OF_CONTEXT)}
        covers = abs(one.start) <= _SAME and abs(one.duration - cut.duration) <= _SAME
        if cut.type == "MultiCut" and type(one.channel) is int:
            fields["channel"] = one.channel
        # The audio in the tar begins with the cut.
        offset = None if covers else max(one.start, 0.0)
        yield line(name, cut.duration if covers else one.duration, fields | of_context, offset, crc32)


def _context(tar: str, member: str) -> dict[str, Any]:
    name = name_in(tar, member)
    return {"context_audio_filepath": name, "context_audio_duration": probe(_member(tar, member), name).duration}


def _member(tar: str, member: str) -> ByteRange:
    members = container(tar)
    assert isinstance(members, TarMembers)
    return members.audio(member)
