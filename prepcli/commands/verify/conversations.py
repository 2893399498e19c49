"""Checks conversations in tars: each turn with audio has the next member, and what the turn says of it is true."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from prepcli.audio.info import AudioInfo
from prepcli.audio.limits import segment_samples
from prepcli.commands.verify.indexes import index_problems
from prepcli.commands.verify.shards import CheckedFile, ShardReport, Verification, check_audio
from prepcli.engine.publishing.hashes import ContentHash
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.conversations import MANIFEST_NAME, META_NAME, TAR_NAME, ConversationSet
from prepcli.formats.tar import read_members
from prepcli.gate import check_rate, is_missing
from prepcli.manifest.conversations import Turn, of_turn, turns_of, values_of
from prepcli.manifest.fields import parse_fields


class ConversationShard(NamedTuple):
    """A tar, its manifest (None for pairs of JSON and audio), and the number of conversations that the set states."""

    tar: CheckedFile
    manifest: CheckedFile | None
    num_stated: int | None = None


def find(stored: ConversationSet, of: Verification) -> tuple[list[ConversationShard], list[str]]:
    """The shards to check, and problems such as missing files."""
    if stored.manifests:
        numbers = sorted(stored.manifests.keys() | stored.shards.keys())
        problems = [
            f"{name.format(number)}: missing"
            for number in numbers
            for name, there in ((MANIFEST_NAME, stored.manifests), (TAR_NAME, stored.shards))
            if number not in there
        ]
        both = [number for number in numbers if number in stored.manifests and number in stored.shards]
        files = [(of.file(TAR_NAME.format(number)), of.file(MANIFEST_NAME.format(number))) for number in both]
        return [ConversationShard(*pair) for pair in files], problems
    try:
        listed = stored.listed_shards
    except (OSError, UsageError) as error:
        return [], [f"{META_NAME}: {error}"]
    of.file(META_NAME)
    problems = [f"{shard['url']}: missing" for shard in listed if not (stored.folder / shard["url"]).is_file()]
    there = [shard for shard in listed if (stored.folder / shard["url"]).is_file()]
    return [ConversationShard(of.file(shard["url"]), None, shard.get("nsamples")) for shard in there], problems


def check(shard: ConversationShard) -> ShardReport:
    """Check a shard: its members, in the order in which NeMo takes them, and its indexes."""
    report = ShardReport()
    name = shard.tar.path.name
    members = _members(shard, report)
    if shard.manifest is not None:
        _check_lines(shard.manifest, members, report)
    else:
        _check_pairs(members, name, report)
    if shard.num_stated not in (None, report.num_lines):
        report.problems.append(f"{META_NAME}: {name} has {report.num_lines} conversations, not {shard.num_stated}")
    for extra in members:
        report.problems.append(f"{name}: member {extra[0]} belongs to no turn")
    if not report.problems:
        report.problems += index_problems(shard.tar.path, "nemo_tar", name)
        if shard.manifest is not None:
            report.problems += index_problems(shard.manifest.path, "jsonl", shard.manifest.path.name)
    return report


Members = Iterator[tuple[str, AudioInfo | bytes | None]]


def _members(shard: ConversationShard, report: ShardReport) -> Members:
    """The members of a tar: the properties of audio (None after a problem), and the bytes of JSON."""
    name = shard.tar.path.name
    for member, data in read_members(shard.tar.path, name, shard.tar.published, report.problems):
        report.num_members += 1
        if shard.manifest is None and member.name.endswith(".json"):
            yield member.name, data
        else:
            yield member.name, check_audio(data, member.name, shard.tar.path, f"{name}: {member.name}", report)


def _check_lines(manifest: CheckedFile, members: Members, report: ShardReport) -> None:
    """Check the lines of a manifest against the members. Ids may repeat: files that are joined often have the same."""
    content = ContentHash(manifest.published)
    seen: set[str] = set()
    with manifest.path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            content.update(text)
            where = f"{manifest.path.name}:{number}"
            report.num_lines += 1
            for place, turn in enumerate(_turns(text, where, report), 1):
                if turn.text is None:
                    found = next(members, None)
                    if found is None or found[0] != turn.audio:
                        there = "the tar ends" if found is None else f"the next member is {found[0]}"
                        report.problems.append(f"{where}: names {turn.audio}, but {there}: NeMo stops here")
                        return
                    if turn.audio in seen:
                        report.problems.append(f"{where}: names {turn.audio} again; names must be unique")
                    seen.add(turn.audio)
                    _check_turn(place, turn, found[1], where, report)
    report.compare(manifest.path.name, content)


def _check_pairs(members: Members, name: str, report: ShardReport) -> None:
    """Check the pairs of a tar."""
    for first in members:
        second = next(members, None)
        pair = sorted([first, *([second] if second else [])], key=lambda member: not member[0].endswith(".json"))
        stems = {os.path.splitext(member)[0] for member, _ in pair}
        text = pair[0][1]
        if len(pair) < 2 or len(stems) > 1 or not isinstance(text, bytes):
            report.problems.append(f"{name}: {first[0]} is not followed by its pair; NeMo reads two members at a time")
            return
        report.num_lines += 1
        for place, turn in enumerate(_turns(text, f"{name}: {pair[0][0]}", report, pair[1][0]), 1):
            if turn.text is None:
                _check_turn(place, turn, pair[1][1], f"{name}: {pair[0][0]}", report)


def _turns(text: bytes, where: str, report: ShardReport, sound: str = "") -> list[Turn]:
    """The turns in a JSON; `sound`: the audio of one that names none."""
    try:
        fields = values_of(parse_fields(text))
        if sound and is_missing(fields.get("sound")):
            fields["sound"] = sound
        return turns_of(fields)
    except RecordRejected as rejected:
        report.problems.append(f"{where}: {rejected.detail}")
        return []


def _check_turn(number: int, turn: Turn, info: AudioInfo | bytes | None, where: str, report: ShardReport) -> None:
    if not isinstance(info, AudioInfo):
        return
    try:
        check_rate("sampling_rate", turn.more.get("sampling_rate"), info.sampling_rate)
        _, num_samples = segment_samples(info, turn.offset, turn.duration)
    except RecordRejected as rejected:
        named = RecordRejected(rejected.reason, f"{turn.audio}: {rejected.detail}")
        report.problems.append(f"{where}: {of_turn(number, named).detail}")
    else:
        report.seconds += num_samples / info.sampling_rate
