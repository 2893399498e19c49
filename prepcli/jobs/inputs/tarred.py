"""NeMo's tarred sets as inputs: each line of a manifest, with the member of the tar that holds its audio.

The rules are those of LazyNeMoTarredIterator (nemo/collections/common/data/lhotse/nemo_adapters.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from prepcli.audio.probe import probe
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.archives import TarMembers, checksum
from prepcli.formats.members import container
from prepcli.formats.tarred import member_of_line
from prepcli.jobs.inputs.catalogue import unusable
from prepcli.manifest.fields import decode_value, is_skipped, parse_fields
from prepcli.manifest.record import fields_to_json, number_of
from prepcli.manifest.scan import Range, lines_of
from prepcli.storage.containers import BEGINNING, name_in

_WHOLE_SECONDS = 0.2
"""If the durations of a member and of its line differ by fewer seconds, NeMo's loader reads the whole member and
ignores the offset in the line."""


def tarred_lines(manifest: str, tars: Mapping[int | None, str]) -> Iterator[bytes]:
    """Yield the catalogue lines of a manifest of a tarred set, then one unusable line per member that no line names.

    Args:
        manifest: the manifest of a shard, or of the whole set.
        tars: the tar of each shard, by the `shard_id` in the lines of the shard. For the manifest of a single shard,
            the key of its tar is None.

    Raises:
        UsageError: a tar is damaged.
    """
    used: dict[str, set[str]] = {tar: set() for tar in tars.values()}
    for text in lines_of(Range(manifest, 0, None)):
        try:
            fields = parse_fields(text) if text.strip() else None
        except RecordRejected:
            fields = None
        if fields is None or "audio_filepath" not in fields or is_skipped(fields):
            yield text + b"\n"  # the reader of the line reports why it cannot be used
            _note_skipped(fields, tars, used)
            continue
        tar = tars.get(None) or tars.get(shard_of(fields))
        path = decode_value(fields["audio_filepath"])
        if tar is None or not isinstance(path, str):
            yield _refused(fields, RejectReason.BAD_FIELD, "shard_id names no tar of the set")
            continue
        members = _members(tar)
        member = _member_of(path, members)
        if member is None:
            yield _refused(fields, RejectReason.MISSING_AUDIO, f"{tar} has no member {path}")
            continue
        used[tar].add(member)
        try:
            yield _line(fields, tar, member, members)
        except RecordRejected as rejected:
            yield unusable(name_in(tar, member), rejected, _without_path(fields))
    for tar, names in used.items():
        for member in _members(tar).members:
            if member not in names and not member.endswith((".json", ".txt")):
                detail = f"no line of {manifest} names this member of {tar}"
                yield unusable(name_in(tar, member), RecordRejected(RejectReason.MISSING_FIELD, detail))


def _members(tar: str) -> TarMembers:
    members = container(tar)
    assert isinstance(members, TarMembers)
    return members


def _note_skipped(
    fields: Mapping[str, msgspec.Raw] | None, tars: Mapping[int | None, str], used: Mapping[str, set[str]]
) -> None:
    """Add the member that a skipped line names to `used`. Else it would be rejected as a member without a line."""
    tar = tars.get(None) or (tars.get(shard_of(fields)) if fields else None)
    path = decode_value(fields["audio_filepath"]) if fields and "audio_filepath" in fields else None
    if tar is not None and isinstance(path, str) and (member := _member_of(path, _members(tar))) is not None:
        used[tar].add(member)


def shard_of(fields: Mapping[str, msgspec.Raw]) -> int | None:
    """The `shard_id` of a line of a manifest of a whole set; None if it has none."""
    shard = decode_value(fields["shard_id"]) if "shard_id" in fields else None
    return shard if type(shard) is int else None


def _member_of(path: str, tar: TarMembers) -> str | None:
    """The member of a tar that the path in a line names; None if the tar does not have it."""
    return next((name for name in (path, member_of_line(path)) if name in tar.members), None)


def _line(fields: Mapping[str, msgspec.Raw], tar: str, member: str, members: TarMembers) -> bytes:
    place = members.audio(member)
    changes: dict[str, Any] = {"audio_filepath": name_in(tar, member)}
    if (crc32 := checksum(place)) is not None:
        changes[BEGINNING] = crc32
    remove = ["shard_id"]
    offset = number_of(fields["offset"]) if "offset" in fields else None
    duration = number_of(fields["duration"]) if "duration" in fields else None
    if offset or duration is None:
        stored = probe(place, name_in(tar, member)).duration
        if duration is None:
            changes["duration"] = stored - (offset or 0.0)
        elif abs(duration - stored) < _WHOLE_SECONDS:
            remove.append("offset")
    return fields_to_json(fields, changes, remove) + b"\n"


def _without_path(fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    return {name: raw for name, raw in fields.items() if name not in ("audio_filepath", "duration", "offset")}


def _refused(fields: Mapping[str, msgspec.Raw], reason: RejectReason, detail: str) -> bytes:
    path = decode_value(fields["audio_filepath"])
    return unusable(str(path), RecordRejected(reason, detail), _without_path(fields))


def check_complete(manifests: Mapping[int, object], tars: Mapping[int, object], folder: object) -> None:
    """Raise `UsageError` if a shard has a tar and no manifest, or the other way round."""
    only_tars, only_manifests = sorted(set(tars) - set(manifests)), sorted(set(manifests) - set(tars))
    if only_manifests:
        raise UsageError(f"{folder} lacks the tar of shard {only_manifests[0]}; copy it again")
    if only_tars:
        raise UsageError(f"{folder} lacks the manifest of shard {only_tars[0]}; copy it again")
