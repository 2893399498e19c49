"""Checks exports to other toolkits: each part of an export by itself, then all parts together."""

import importlib.util
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from prepcli.audio.encode import LOSSLESS
from prepcli.audio.limits import SAME_SECONDS
from prepcli.audio.probe import probe
from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.shards import Hashed, ShardReport, add_shard, check_audio, repeated
from prepcli.commands.verify.trainer_codes import check_omnivoice, check_qwen, find_omnivoice, find_qwen
from prepcli.engine.publishing.hashes import ContentHash, hash_of
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.audio_names import WENET_FORMATS
from prepcli.formats.mels import MEL, SEPARATOR
from prepcli.formats.omnilingual import AUDIO, RATE, SIZE, TEXT
from prepcli.formats.parquet import check_installed, file_name, python_values, seconds_in
from prepcli.formats.parquet_audio import audio_value
from prepcli.formats.sets import MelSet, OmnilingualSet, ParquetSet, StoredSet, WenetSet
from prepcli.formats.tar import read_members
from prepcli.formats.wenet import (
    LIST_NAME,
    RAW_LIST_NAME,
    is_dropped,
    num_tokens,
    read_shard_list,
    shards_in,
)
from prepcli.interface.printing import first_line
from prepcli.manifest.scan import Range, lines_of, ranges_of
from prepcli.planning.hashing import Hashes
from prepcli.processes.pools import map_in_order
from prepcli.storage.paths import AnyPath

_LINES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ListPart:
    """Some lines of a file list.

    Attributes:
        root: the folder of the set, from which relative paths in the lines start.
        name: the name of the list.
        first: the number of the first line, from 1.
        lines: the lines.
        published: for each line, the published hash of its mel; None if it is not known or not needed.
        has_mels: whether the lines name mels that the set has, so that they are read and checked.
    """

    root: AnyPath
    name: str
    first: int
    lines: tuple[str, ...]
    published: tuple[str | None, ...]
    has_mels: bool


def _find_mels(one: MelSet, published: Hashed) -> tuple[list[ListPart], list[str]]:
    """The parts of the file lists of a set, to be checked one by one, and a problem for each list that cannot be read.

    Raises:
        UsageError: the set has mels, and torch is missing.
    """
    parts: list[ListPart] = []
    problems: list[str] = []
    if one.has_mels and importlib.util.find_spec("torch") is None:
        raise UsageError("verifying mels needs torch: pip install 'prepcli[models]'")
    for path in one.lists:
        try:
            with path.open(encoding="utf-8") as file:
                lines = [line.removesuffix("\n") for line in file]
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"filelists/{path.name}: cannot be read: {error}")
            continue
        with_mels = one.has_mels and f"_{MEL}_text_" in path.name
        for first in range(0, len(lines), _LINES_AT_ONCE):
            some = tuple(lines[first : first + _LINES_AT_ONCE])
            hashes = tuple(published(line.partition(SEPARATOR)[0]) if with_mels else None for line in some)
            parts.append(ListPart(one.folder, path.name, first + 1, some, hashes, with_mels))
    return parts, problems


def _check_mels(part: ListPart) -> ShardReport:
    """Check that each line of a file list has a path and a text.

    In a list of mels, each mel must be valid; without mels in the set, they are not checked. In a list of audio, each
    file must exist.
    """
    report = ShardReport()
    is_mels = f"_{MEL}_text_" in part.name
    paths = []
    for number, (line, published) in enumerate(zip(part.lines, part.published, strict=True), start=part.first):
        where = f"filelists/{part.name}:{number}"
        fields = line.strip().split(SEPARATOR)
        if len(fields) != 2 or not all(fields):
            report.problems.append(f"{where}: must be path{SEPARATOR}text")
            continue
        path = part.root / fields[0]
        if is_mels:
            paths.append(fields[0])
        if part.has_mels:
            report.num_members += 1
            _check_mel(f"{where}: {fields[0]}", path, published, report)
        elif not is_mels and not path.is_file():
            report.problems.append(f"{where}: there is no file {path}")
    report.num_lines = len(paths)
    report.set_ids(paths)
    return report


def _check_mel(where: str, path: AnyPath, published: str | None, report: ShardReport) -> None:
    import torch

    try:
        data = path.read_bytes()
        mel: Any = torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:  # torch.load raises errors of zip, errors of pickle, and its own
        report.problems.append(f"{where}: cannot be read: {first_line(error)}")
        return
    report.compare(where, ContentHash(published, data))
    if not isinstance(mel, torch.Tensor) or mel.dtype != torch.float32 or mel.dim() != 2 or not mel.numel():
        report.problems.append(f"{where}: not a float32 tensor of shape (bands, frames)")
    elif not bool(torch.isfinite(mel).all()):
        report.problems.append(f"{where}: has values that are not numbers")


class CheckedFile(NamedTuple):
    """A file to check, and its published hash if that is known."""

    path: AnyPath
    published: str | None


def _find_parquet(one: ParquetSet, published: Hashed) -> tuple[list[CheckedFile], list[str]]:
    """The Parquet files to check, and a problem if their numbers, which begin at 0, have gaps."""
    check_installed()
    found = one.shards
    missing = [file_name(number) for number in range(max(found, default=-1) + 1) if number not in found]
    problems = [f"{', '.join(missing)}: missing; files must be numbered from 0"] if missing else []
    return [CheckedFile(path, published(path.name)) for path in found.values()], problems


def _check_parquet(check: Callable[[Any, AnyPath, ShardReport], None], file: CheckedFile) -> ShardReport:
    """Compare a Parquet file with its published hash, and check its rows; a file that cannot be read is a problem.

    `check`: checks the rows of the opened file, and adds to the report.
    """
    import pyarrow
    import pyarrow.parquet as pq

    report, name = ShardReport(), file.path.name
    try:
        if file.published is not None:
            report.compare(name, hash_of(file.path, file.published))
        with pq.ParquetFile(file.path) as opened:
            check(opened, file.path, report)
    except (pyarrow.ArrowException, OSError) as error:
        report.problems.append(f"{name}: cannot be read: {first_line(error)}")
    return report


def _check_audio_rows(opened: Any, path: AnyPath, report: ShardReport) -> None:
    """Check that each row of a Parquet file has an id, and audio that can be decoded and has the stated duration."""
    ids = []
    columns = [name for name in ("id", "audio", "duration") if name in opened.schema_arrow.names]
    for group in range(opened.num_row_groups):
        for row in python_values(opened.read_row_group(group, columns)):
            _check_row(f"{path.name}: row {report.num_lines}", row, path, report)
            report.num_lines += 1
            ids.append(str(row.get("id")))
    report.set_ids(ids)


def _check_row(where: str, row: dict[str, Any], path: AnyPath, report: ShardReport) -> None:
    audio = row.get("audio")
    data = audio.get("bytes") if isinstance(audio, dict) else None
    name = "" if row.get("id") is None else str(row["id"])  # other programs write ids as numbers
    if not isinstance(data, bytes) or not name:
        report.problems.append(f"{where} has no id, or no audio with bytes")
        return
    report.num_members += 1
    info = check_audio(data, name, path, where, report)
    if info is None:
        return
    report.seconds += info.duration
    try:
        duration = info.duration if row.get("duration") is None else seconds_in(row["duration"])
    except ValueError as error:
        report.problems.append(f"{where}: {error}")
        return
    if info.format in LOSSLESS and abs(duration - info.duration) > SAME_SECONDS:
        report.problems.append(f"{where}: duration is {duration:.3f} s, but its audio has {info.duration:.3f} s")


def _find_omnilingual(one: OmnilingualSet, published: Hashed) -> tuple[list[CheckedFile], list[str]]:
    """The files of all partitions to check, and an empty list of problems: the names of files are not checked."""
    check_installed()
    start = len(f"{one.folder}/")
    return [CheckedFile(path, published(str(path)[start:])) for path in one.shards.values()], []


def _check_omnilingual_rows(opened: Any, path: AnyPath, report: ShardReport) -> None:
    """Check that each row of a file has a text, and mono audio at 16 kHz with the stated number of samples."""
    if missing := {TEXT, AUDIO, SIZE} - set(opened.schema_arrow.names):
        report.problems.append(f"{path.name}: has no column {', '.join(sorted(missing))}")
        return
    for group in range(opened.num_row_groups):
        table = opened.read_row_group(group, [TEXT, AUDIO, SIZE])
        audio = table.column(AUDIO).combine_chunks()
        for row, (text, size) in enumerate(zip(*map(python_values, (table[TEXT], table[SIZE])), strict=True)):
            where = f"{path.name}: row {report.num_lines}"
            report.num_lines += 1
            if not isinstance(text, str):
                report.problems.append(f"{where} has no text")
            _check_list(where, audio, row, size, path, report)


def _check_list(where: str, audio: Any, row: int, size: object, path: AnyPath, report: ShardReport) -> None:
    try:
        data = audio_value(audio, row, where)
    except RecordRejected as rejected:
        report.problems.append(rejected.detail)
        return
    report.num_members += 1
    info = check_audio(data, where, path, where, report)
    if info is None:
        return
    report.seconds += info.duration
    if (info.sampling_rate, info.num_channels) != (RATE, 1):
        report.problems.append(f"{where}: its audio is not mono at {RATE} Hz")
    elif info.num_samples != size:
        report.problems.append(f"{where}: {SIZE} is {size}, but its audio has {info.num_samples} samples")


def _find_shards(one: WenetSet, published: Hashed) -> tuple[list[CheckedFile], list[str]]:
    """The shards to check, and the problems of `shards.list`.

    The list must name all shards of the folder, each once; absolute paths must exist.
    """
    try:
        listed = read_shard_list(one.list)
    except OSError as error:
        return [], [f"{LIST_NAME}: cannot be read: {error.strerror}"]
    problems = []
    for number, path in enumerate(listed, start=1):
        if path.is_absolute() and not path.is_file():
            problems.append(f"{LIST_NAME}:{number}: there is no file {path}; has the directory been moved?")
    names = [path.name for path in listed]
    there = [f"{prefix}_{number:09d}.tar" for prefix, found in shards_in(one.folder).items() for number in found]
    problems += [f"{name}: is not in {LIST_NAME}" for name in there if name not in names]
    problems += [f"{name}: missing" for name in names if name not in there]
    if len(set(names)) < len(names):
        problems.append(f"{LIST_NAME}: names a shard twice")
    parts = [CheckedFile(one.folder / name, published(name)) for name in dict.fromkeys(names) if name in there]
    return parts, problems


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
    report.num_lines = len(keys)
    report.set_ids(keys)
    return report


def _decoded(data: bytes, where: str, report: ShardReport) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        report.problems.append(f"{where} is not UTF-8")
        return ""


def _find_lines(one: WenetSet, published: Hashed) -> tuple[list[Range], list[str]]:
    """The data list to check, in parts, and a problem if it is missing."""
    if not one.list.is_file():
        return [], [f"{RAW_LIST_NAME}: missing"]
    return ranges_of(str(one.list), one.list.stat().st_size), []


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
    report.num_lines = report.num_members = len(keys)
    report.set_ids(keys)
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


_Parts = tuple[Sequence[Any], list[str]]
_CHECKS: dict[str, tuple[Callable[[Any, Hashed], _Parts], Callable[[Any], Any]]] = {
    "wenet": (_find_shards, _check_shard),
    "raw": (_find_lines, _check_lines),
    "mels": (_find_mels, _check_mels),
    "parquet": (_find_parquet, partial(_check_parquet, _check_audio_rows)),
    "omnilingual": (_find_omnilingual, partial(_check_parquet, _check_omnilingual_rows)),
    "omnivoice": (find_omnivoice, check_omnivoice),
    "qwen3-tts": (find_qwen, check_qwen),
}
"""The checks by kind; `raw` is a data list of WeNet.

Each kind has two functions. The first returns the parts to check, and problems such as missing files; the second checks
a part.
"""


def verify_export(one: StoredSet, published: Hashed, num_workers: int, report: VerifyReport) -> None:
    """Check each part of an export, and that ids are unique over all parts."""
    report.kind = one.kind
    find, check = _CHECKS["raw" if isinstance(one, WenetSet) and one.is_raw else one.kind]
    parts, problems = find(one, published)
    ids: list[Hashes] = []
    num_dropped = 0
    mapped = map_in_order if one.kind == "mels" else map_refusing_crashes  # mels need no decoder
    for part in mapped(check, parts, num_workers):
        ids.append(part.id_hashes)
        num_dropped += part.num_dropped
        add_shard(part, "", report)
    report.problems += problems
    if num_repeated := len(repeated(ids)):
        report.problems.append(f"{num_repeated} records have the id of another record; ids must be unique")
    if num_dropped:
        report.notes.append(
            f"{num_dropped:,} records would be dropped by WeNet's default filter_conf (10 to 10,240 frames, 1 to "
            "200 characters)"
        )
