"""Checks shards and data lists for WeNet."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prepcli.audio.probe import probe
from prepcli.commands.verify.shards import CheckedFile, ShardReport, Verification, check_audio
from prepcli.errors import RecordRejected
from prepcli.formats.audio_names import WENET_FORMATS
from prepcli.formats.tar import read_members
from prepcli.formats.wenet import LIST_NAME, RAW_LIST_NAME, WenetSet, is_dropped, num_tokens, read_shard_list, shards_in
from prepcli.manifest.scan import Range, lines_of, ranges_of


def find(export: WenetSet, of: Verification) -> tuple[Sequence[CheckedFile | Range], list[str]]:
    """The shards to check, and the problems of `shards.list`; or the parts of a data list.

    The list must name all shards of the folder, each once; absolute paths must exist.
    """
    if export.is_raw:
        if not export.list.is_file():
            return [], [f"{RAW_LIST_NAME}: missing"]
        return ranges_of(str(export.list), export.list.stat().st_size), []
    try:
        listed = read_shard_list(export.list)
    except OSError as error:
        return [], [f"{LIST_NAME}: cannot be read: {error.strerror}"]
    problems = []
    for number, path in enumerate(listed, start=1):
        if path.is_absolute() and not path.is_file():
            problems.append(f"{LIST_NAME}:{number}: there is no file {path}; has the directory been moved?")
    names = [path.name for path in listed]
    there = [f"{prefix}_{number:09d}.tar" for prefix, shards in shards_in(export.folder).items() for number in shards]
    problems += [f"{name}: is not in {LIST_NAME}" for name in there if name not in names]
    problems += [f"{name}: missing" for name in names if name not in there]
    if len(set(names)) < len(names):
        problems.append(f"{LIST_NAME}: names a shard twice")
    return [of.file(name) for name in dict.fromkeys(names) if name in there], problems


def check(part: CheckedFile | Range) -> ShardReport:
    """Check a shard, or some lines of a data list."""
    return _check_shard(part) if isinstance(part, CheckedFile) else _check_lines(part)


def _check_shard(shard: CheckedFile) -> ShardReport:
    """Check that WeNet's reader finds a text and audio for each key of a shard, and decode the audio."""
    report = ShardReport()
    name = shard.path.name
    keys: list[str] = []
    text: tuple[str, str] | None = None
    for member, data in read_members(shard.path, name, shard.published, report.problems):
        report.num_members += 1
        key, _, suffix = member.name.rpartition(".")
        where = f"{name}: member {member.name}"
        if not member.isreg() or not key:
            report.problems.append(f"{where} is not a file <key>.txt or <key>.<audio format>")
        elif suffix == "txt":
            if text is not None:
                report.problems.append(f"{name}: {text[0]} has no audio")
            text = (key, _decoded(data, where, report))
        elif suffix not in WENET_FORMATS:
            report.problems.append(f"{where}: WeNet does not take .{suffix} for audio")
        else:
            if text is None or text[0] != key:
                report.problems.append(f"{where} does not follow its text, {key}.txt")
            keys.append(key)
            info = check_audio(data, member.name, shard.path, name, report)
            if info is not None:
                report.seconds += info.duration
                report.num_dropped += is_dropped(info.duration, num_tokens(text[1] if text is not None else ""))
            text = None
    if text is not None:
        report.problems.append(f"{name}: {text[0]} has no audio")
    report.count_ids(keys)
    return report


def _decoded(data: bytes, where: str, report: ShardReport) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        report.problems.append(f"{where} is not UTF-8")
        return ""


def _check_lines(part: Range) -> ShardReport:
    """Check lines of a data list, and the headers of the audio that they name."""
    report = ShardReport()
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
    report.num_members = len(keys)
    report.count_ids(keys)
    return report


def _check_item(item: Any) -> tuple[str, float, str]:
    """Check an item of a data list; returns its key, its seconds of audio, and its text.

    Audio with a relative path is not read, because the path starts from the folder of training.

    Raises:
        KeyError: a field is missing.
        TypeError: a field has the wrong type.
        ValueError: the start and the end of the item are not a range within the audio file.
        RecordRejected: the audio is missing or cannot be read.
    """
    key, path, text = item["key"], item["wav"], item["txt"]
    if not all(isinstance(value, str) for value in (key, path, text)):
        raise TypeError("they must be strings")
    start, end = float(item.get("start", 0.0)), item.get("end")
    if not Path(path).is_absolute():
        length = 1.0 if end is None else float(end) - start
        if not (start >= 0 and 0 < length < float("inf")):
            raise ValueError(f"{start} to {end} s is not a part of a file")
        return key, length, text
    info = probe(path)
    stop = info.duration if end is None else float(end)
    if not 0 <= start < stop <= info.duration + 1 / info.sampling_rate:
        raise ValueError(f"{start} to {stop} s is not a part of {path}, which lasts {info.duration} s")
    return key, stop - start, text
