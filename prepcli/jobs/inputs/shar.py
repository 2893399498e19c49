"""Lhotse Shar as input: each supervision of a cut is a record, whose audio is that of the cut, in a tar."""

from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from math import inf
from pathlib import PurePosixPath
from typing import Any, NoReturn

import msgspec

from prepcli.audio.probe import probe
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.archives import TarMembers, checksum, tar_members
from prepcli.formats.lenient_json import decode_json
from prepcli.formats.members import container
from prepcli.formats.pairs import UnpairedError, is_placeholder, pair_members
from prepcli.formats.shar import CONTEXT, TARGET
from prepcli.gate import FirstPlaces, fit
from prepcli.jobs.inputs.catalogue import line, unusable
from prepcli.jobs.inputs.supervisions import SourceCut, SourceSupervision, SupervisionReader
from prepcli.manifest.scan import Range, lines_of
from prepcli.storage.addresses import ByteRange
from prepcli.storage.containers import MOVED, name_in

_OF_CONTEXT = ("context_audio_offset", "context_audio_duration", "context_recording_id")


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
    reader = _ShardReader(target, context)
    lines = (text for text in lines_of(Range(cuts, 0, None)) if text.strip())
    texts: Iterator[bytes | None] = iter(lines)
    for number, text in enumerate(chain(texts, repeat(None)), 1):
        items = [next(pair, None) for pair in pairs]
        if text is None and not any(items):
            return
        if text is None or items[0] is None or items[-1] is None:
            raise UsageError(f"{cuts} and its tars have different numbers of items; copy the shard again")
        yield from reader.lines(text, f"{cuts}:{number}", items[0], items[-1])


def target_of(fields: Mapping[str, object]) -> str:
    """The field with the audio of the cuts themselves, not of their contexts.

    This is `recording`, else `target_audio` (of Magpie-TTS), else the first of the other fields in alphabetical order.

    Raises:
        UsageError: there is no field but `context_audio`.
    """
    field = next((name for name in ("recording", TARGET, *sorted(fields)) if name in fields and name != CONTEXT), None)
    if field is None:
        raise UsageError(f"the Lhotse Shar has no audio of its cuts, only {CONTEXT}; copy the folder {TARGET} too")
    return field


def _pairs(tar: str) -> Iterator[str]:
    """Yield a name for each pair of members in a tar, which are data and its JSON: the name of the data."""
    members = _members(tar)
    # Names that are repeated are read from the tar again, because a name stands for one member.
    names = (name for name, _, size in tar_members(tar) if size is not None) if members.repeated else members.members
    try:
        for data, _ in pair_members(iter(names), str):
            yield data
    except UnpairedError as error:
        raise UsageError(f"{tar}: {error}; copy the shard again") from None


class _ShardReader:
    """Makes the lines for the cuts of a shard, with the tars of their audio and of their contexts."""

    def __init__(self, target: str, context: str | None) -> None:
        self._target, self._context = target, context
        self._supervisions = SupervisionReader()
        self._first_places = FirstPlaces()
        self._places: dict[str, str] = {}  # of ids whose members have the same name

    def lines(self, text: bytes, place: str, member: str, other: str) -> Iterator[bytes]:
        """Yield the lines for a cut, whose JSON text lies at `place`.

        `member` and `other` are the names of its audio and of its context.

        Raises:
            UsageError: the text is not JSON, or a member belongs to another cut.
        """
        name, known = name_in(self._target, member), {}
        try:
            cut: SourceCut = decode_json(text, SourceCut)
            known = {"id": cut.id}
            _check_names(cut.id, place, {str(self._target): member, str(self._context or self._target): other})
            if is_placeholder(member):
                raise RecordRejected(RejectReason.MISSING_AUDIO, f"the cut {cut.id} has no audio")
            if cut.type not in ("MonoCut", "MultiCut", ""):
                raise RecordRejected(RejectReason.BAD_FIELD, f"{cut.id} is a {cut.type}; only single cuts are read")
            fit(0.0, cut.duration, inf, f"the cut {cut.id}", self._target)
            if member in _members(self._target).repeated:
                self._refuse_repeated(cut.id, place, member)
            self._first_places.check(cut.id, place)
            crc32 = checksum(_member(self._target, member))
            has_context = self._context is not None and not is_placeholder(other)
            of_context = _context_fields(str(self._context), other) if has_context else {}
        except RecordRejected as rejected:
            yield unusable(name, rejected, known)
            return
        except msgspec.ValidationError as error:
            detail = f"{place} is not a cut of lhotse: {error}"
            yield unusable(name, RecordRejected(RejectReason.BAD_FIELD, detail))
            return
        except ValueError as error:
            raise UsageError(f"{place} is not a cut: {error}; repair the set first") from None
        for record in self._supervisions.records(cut):
            try:
                if isinstance(record, RecordRejected):
                    raise record
                if record.id != cut.id:
                    self._first_places.check(record.id, place)
                fields = {field: value for field, value in record.fields.items() if field not in _OF_CONTEXT}
                if (channel := _channel(cut, record.supervision)) is not None:
                    fields["channel"] = channel
                if record.span.moved:
                    fields[MOVED] = True
                # The audio in the tar begins with the cut.
                whole = not record.span.start and record.span.duration == cut.duration
                yield line(
                    name,
                    record.span.duration,
                    fields | of_context,
                    None if whole else record.span.start,
                    crc32,
                )
            except RecordRejected as rejected:
                yield unusable(name, rejected, known)

    def _refuse_repeated(self, id: str, place: str, member: str) -> NoReturn:
        first = self._places.setdefault(id, place)
        where = f"in {first} and in {place}" if first != place else f"in {place} and in a later line"
        detail = (
            f"the id {id} is there twice, {where}, and {self._target} has several members {member}, so that no name "
            "tells them apart; make the Shar again with ids that differ"
        )
        raise RecordRejected(RejectReason.BAD_FIELD, detail)


def _check_names(id: str, place: str, members: Mapping[str, str]) -> None:
    """Check that the members of tars are those of a cut: lhotse names them by the cut's id.

    Raises:
        UsageError: a member has the name of another cut, so that each following cut would get the audio of another.
    """
    for tar, member in members.items():
        if member.rpartition(".")[0] != id and str(PurePosixPath(member).with_suffix("")) != id:
            raise UsageError(
                f"{place} is the cut {id}, but {tar} has {member} in its place: a member is missing, or their order "
                "was changed; copy the shard again"
            )


def _channel(cut: SourceCut, supervision: SourceSupervision | None) -> int | None:
    """The channel of a supervision among those of its cut, whose audio has only these; None: all of them.

    Raises:
        RecordRejected: the cut does not have the channel.
    """
    if cut.type != "MultiCut" or supervision is None or not isinstance(cut.channel, list) or len(cut.channel) < 2:
        return None
    channel = supervision.channel
    if isinstance(channel, list):
        if len(channel) != 1:
            return None
        channel = channel[0]
    if channel not in cut.channel:
        detail = f"the cut {cut.id} does not have channel {channel} of {supervision.name}"
        raise RecordRejected(RejectReason.BAD_FIELD, detail)
    return cut.channel.index(channel)


def _context_fields(tar: str, member: str) -> dict[str, Any]:
    name = name_in(tar, member)
    return {"context_audio_filepath": name, "context_audio_duration": probe(_member(tar, member), name).duration}


def _member(tar: str, member: str) -> ByteRange:
    return _members(tar).audio(member)


def _members(tar: str) -> TarMembers:
    members = container(tar)
    assert isinstance(members, TarMembers)
    return members
