"""Checks the exports of codes for two trainers: tars and labels for OmniVoice, JSON lines for Qwen3-TTS."""

import json
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from prepcli.audio.probe import probe
from prepcli.commands.verify.shards import Hashed, ShardReport
from prepcli.engine.publishing.hashes import ContentHash
from prepcli.errors import RecordRejected
from prepcli.formats import qwen3_tts
from prepcli.formats.npy import read_npy
from prepcli.formats.omnivoice import LIST_NAME, NUM_CODEBOOKS, read_list
from prepcli.formats.sets import OmnivoiceSet, QwenSet
from prepcli.formats.tar import read_members
from prepcli.manifest.scan import Range, lines_of, ranges_of
from prepcli.storage.paths import AnyPath


class OmnivoiceShard(NamedTuple):
    """A shard that the list of the set names.

    Attributes:
        codes: the tar with the arrays of codes.
        labels: the file of labels.
        num_records: number of records, from the list.
        published: the published hashes of `codes` and of `labels`; None if not known.
    """

    codes: AnyPath
    labels: AnyPath
    num_records: int
    published: tuple[str | None, str | None]


def find_omnivoice(one: OmnivoiceSet, published: Hashed) -> tuple[list[OmnivoiceShard], list[str]]:
    """The shards that the list of the set names, and the problems of the list.

    The list must name all tars of the folder, by paths that exist. `published` returns the published hash of a file.
    """
    try:
        lines = read_list(one.list)
    except (OSError, ValueError) as error:
        return [], [f"{LIST_NAME}: cannot be read: {error}"]
    problems = []
    shards = []
    for number, line in enumerate(lines, start=1):
        if missing := [str(path) for path in (line.codes, line.labels) if not path.is_file()]:
            problems.append(f"{LIST_NAME}:{number}: there is no file {missing[0]}; has the directory been moved?")
            continue
        names = (f"audios/{line.codes.name}", f"txts/{line.labels.name}")
        hashes = (published(names[0]), published(names[1]))
        shards.append(OmnivoiceShard(line.codes, line.labels, line.num_records, hashes))
    named = {line.codes.name for line in lines}
    problems += [f"audios/{path.name}: is not in {LIST_NAME}" for path in one.shards.values() if path.name not in named]
    return shards, problems


def check_omnivoice(shard: OmnivoiceShard) -> ShardReport:
    """Check that each label of a shard has an array of codes of the stated length, and that each array has a label."""
    report = ShardReport()
    name = f"audios/{shard.codes.name}"
    labels = _labels(shard, report)
    ids = []
    for member, data in read_members(shard.codes, name, shard.published[0], report.problems):
        report.num_members += 1
        id, _, suffix = member.name.partition(".")
        ids.append(id)
        where = f"{name}: member {member.name}"
        label = labels.get(id)
        if suffix != "npy" or label is None:
            report.problems.append(f"{where} is not the array of an id in {shard.labels.name}")
            continue
        try:
            codes = read_npy(data)
        except ValueError as error:
            report.problems.append(f"{where} cannot be read: {error}")
            continue
        wanted = (NUM_CODEBOOKS, label.get("num_tokens"))
        if codes.shape != wanted or not np.issubdtype(codes.dtype, np.integer) or codes.min(initial=0) < 0:
            report.problems.append(f"{where} is {codes.dtype} of shape {codes.shape}, and its label says {wanted}")
        seconds = label.get("duration")
        report.seconds += seconds if isinstance(seconds, int | float) else 0.0
    if missing := sorted(set(labels) - set(ids)):
        report.problems.append(f"{name}: has no array of {missing[0]}")
    if len(ids) != shard.num_records:
        report.problems.append(f"{name}: has {len(ids)} arrays, and {LIST_NAME} says {shard.num_records}")
    report.num_lines = len(labels)
    report.set_ids(ids)
    return report


def _labels(shard: OmnivoiceShard, report: ShardReport) -> dict[str, dict[str, Any]]:
    """The labels of a shard by their ids; lines that are not labels become problems of the report."""
    name = f"txts/{shard.labels.name}"
    data = shard.labels.read_bytes()
    report.compare(name, ContentHash(shard.published[1], data))
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            label = json.loads(line)
            if not isinstance(label["id"], str) or not isinstance(label["text"], str):
                raise TypeError("id and text must be strings")
            found[label["id"]] = label
        except (ValueError, TypeError, KeyError) as error:
            report.problems.append(f"{name}:{number}: is not a label with id and text: {error}")
    return found


def find_qwen(one: QwenSet, published: Hashed) -> tuple[list[Range], list[str]]:
    """The files to check, in parts, and an empty list of problems: the names of files are not checked."""
    return [part for path in one.files() for part in ranges_of(str(path), path.stat().st_size)], []


def check_qwen(part: Range) -> ShardReport:
    """Check that each line has a text, reference audio at the sampling rate that the trainer takes, and codes."""
    report = ShardReport()
    for line in lines_of(part):
        try:
            item = json.loads(line)
            problem = _problem_of(item)
        except (ValueError, TypeError, AttributeError) as error:
            problem, item = f"it is not an object of JSON: {error}", {}
        if problem is not None:
            report.problems.append(f"{part.path}: {line[:60]!r}: {problem}")
            continue
        report.num_lines += 1
        seconds = item.get("duration")
        report.seconds += seconds if isinstance(seconds, int | float) else 0.0
    report.num_members = report.num_lines
    return report


def _problem_of(item: dict[str, Any]) -> str | None:
    if not isinstance(item.get("text"), str) or not isinstance(item.get("audio"), str):
        return "it must have audio and text"
    codes = item.get(qwen3_tts.CODES)
    try:
        array = np.array(codes, np.int64)
    except (ValueError, TypeError, OverflowError):
        array = np.empty(0, np.int64)
    if array.ndim != 2 or array.shape[1] != qwen3_tts.NUM_CODEBOOKS or array.min() < 0:
        return f"{qwen3_tts.CODES} must be lists of {qwen3_tts.NUM_CODEBOOKS} numbers"
    reference = item.get(qwen3_tts.REFERENCE)
    return _problem_of_reference(reference) if isinstance(reference, str) else f"it has no {qwen3_tts.REFERENCE}"


@lru_cache(4096)
def _problem_of_reference(path: str) -> str | None:
    try:
        rate = probe(path).sampling_rate
    except RecordRejected as rejected:
        return f"{qwen3_tts.REFERENCE}: {rejected.detail}"
    if rate != qwen3_tts.REFERENCE_RATE:
        return f"{qwen3_tts.REFERENCE} {path} has {rate} Hz, not {qwen3_tts.REFERENCE_RATE} Hz"
    return None
