"""Checks that WeNet's reader finds a text and decodable audio for every key, in shards and in data lists."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tarfile import TarInfo
from typing import Any

from prepcli.audio.check import check_decoded
from prepcli.audio.probe import probe_bytes, probe_file
from prepcli.commands.verify.export_parts import ExportReport, Hashed
from prepcli.errors import RecordRejected
from prepcli.formats.sets import WenetSet
from prepcli.formats.tar import read_members
from prepcli.formats.wenet import (
    AUDIO_FORMATS,
    LIST_NAME,
    RAW_LIST_NAME,
    is_dropped,
    num_tokens,
    read_shard_list,
    shards_in,
)
from prepcli.manifest.scan import Range, lines_of, ranges_of
from prepcli.processes.in_hand import take_in_hand


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A shard to check, and the SHA-256 under which it was published, if it is known."""

    number: int
    tar: Path
    sha256: str | None


def find_parts(one: WenetSet, sha256: Hashed) -> tuple[Sequence[ShardFile | Range], list[str]]:
    """The shards, or the parts of the data list, to check."""
    return _find_lines(one.list) if one.is_raw else _find_shards(one, sha256)


def check_part(part: ShardFile | Range) -> ExportReport:
    """Check a shard, or lines of the data list."""
    return _check_shard(part) if isinstance(part, ShardFile) else _check_lines(part)


def _find_shards(one: WenetSet, sha256: Hashed) -> tuple[list[ShardFile], list[str]]:
    """`shards.list` must name the shards of the folder, in order, where the reader finds them."""
    try:
        listed = read_shard_list(one.list)
    except OSError as error:
        return [], [f"{LIST_NAME}: cannot be read: {error.strerror}"]
    problems = []
    for number, path in enumerate(listed, start=1):
        if path.is_absolute() and not path.is_file():
            problems.append(f"{LIST_NAME}:{number}: there is no file {path}; has the directory been moved?")
    names = [path.name for path in listed]
    there = {
        f"{prefix}_{number:09d}.tar": number for prefix, numbers in shards_in(one.folder).items() for number in numbers
    }
    problems += [f"{name}: is not in {LIST_NAME}" for name in there if name not in names]
    problems += [f"{name}: missing" for name in names if name not in there]
    if len(set(names)) < len(names):
        problems.append(f"{LIST_NAME}: names a shard twice")
    parts = [ShardFile(there[name], one.folder / name, sha256(name)) for name in dict.fromkeys(names) if name in there]
    return parts, problems


def _check_shard(shard: ShardFile) -> ExportReport:
    """Read a whole shard and decode its audio."""
    report = ExportReport(shard.number)
    keys: list[str] = []
    text: tuple[str, str] | None = None
    for member, data in read_members(shard.tar, shard.tar.name, shard.sha256, report.problems):
        report.num_members += 1
        key, _, suffix = member.name.rpartition(".")
        where = f"{shard.tar.name}: member {member.name}"
        if not member.isreg() or not key:
            report.problems.append(f"{where} is not a file <key>.txt or <key>.<audio format>")
        elif suffix == "txt":
            if text is not None:
                report.problems.append(f"{shard.tar.name}: {text[0]} has no audio")
            text = (key, _decoded(data, where, report))
        elif suffix not in AUDIO_FORMATS:
            report.problems.append(f"{where}: WeNet does not take .{suffix} for audio")
        else:
            if text is None or text[0] != key:
                report.problems.append(f"{where} does not follow its text, {key}.txt")
            keys.append(key)
            _check_audio(member, data, text[1] if text is not None else "", shard.tar.name, report)
            text = None
    if text is not None:
        report.problems.append(f"{shard.tar.name}: {text[0]} has no audio")
    report.num_lines = len(keys)
    report.add_ids(keys)
    return report


def _decoded(data: bytes, where: str, report: ExportReport) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        report.problems.append(f"{where} is not UTF-8")
        return ""


def _check_audio(member: TarInfo, data: bytes, text: str, where: str, report: ExportReport) -> None:
    try:
        take_in_hand(member.name)
        info = probe_bytes(data, member.name)
        check_decoded(data, info, member.name)
    except RecordRejected as rejected:
        report.problems.append(f"{where}: {rejected.detail}")
        return
    report.seconds += info.duration
    report.num_dropped += is_dropped(info.duration, num_tokens(text))


def _find_lines(path: Path) -> tuple[list[Range], list[str]]:
    if not path.is_file():
        return [], [f"{RAW_LIST_NAME}: missing"]
    return ranges_of(str(path), path.stat().st_size), []


def _check_lines(part: Range) -> ExportReport:
    """Check the lines, and the headers of the audio that they name."""
    report = ExportReport(part.start)
    keys = []
    for line in lines_of(part):
        try:
            item = json.loads(line)
            key, seconds, text = _check_item(item)
        except (ValueError, TypeError, KeyError) as error:
            report.problems.append(f"{RAW_LIST_NAME}: {line[:60]!r} is not a line with key, wav and txt: {error}")
            continue
        except RecordRejected as rejected:
            report.problems.append(f"{RAW_LIST_NAME}: {item['key']}: {rejected.detail}")
            continue
        keys.append(key)
        report.seconds += seconds
        report.num_dropped += is_dropped(seconds, num_tokens(text))
    report.num_lines = report.num_members = len(keys)
    report.add_ids(keys)
    return report


def _check_item(item: Any) -> tuple[str, float, str]:
    """Key, seconds and text of an item; relative paths start where training does, so they are not looked at."""
    key, path, text = item["key"], item["wav"], item["txt"]
    if not all(isinstance(value, str) for value in (key, path, text)):
        raise TypeError("they must be strings")
    start, end = float(item.get("start", 0.0)), item.get("end")
    if not Path(path).is_absolute():
        length = 1.0 if end is None else float(end) - start
        if not (start >= 0 and 0 < length < float("inf")):
            raise ValueError(f"{start} to {end} s is not a part of a file")
        return key, length, text
    take_in_hand(path)
    info = probe_file(path)
    stop = info.duration if end is None else float(end)
    if not 0 <= start < stop <= info.duration + 1 / info.sampling_rate:
        raise ValueError(f"{start} to {stop} s is not a part of {path}, which lasts {info.duration} s")
    return key, stop - start, text
