"""Checks tars with codes and their labels for OmniVoice."""

import json
from typing import Any, NamedTuple

import numpy as np

from prepcli.commands.verify.shards import CheckedFile, ShardReport, Verification
from prepcli.engine.publishing.hashes import ContentHash
from prepcli.formats.npy import read_npy
from prepcli.formats.omnivoice import LIST_NAME, NUM_CODEBOOKS, OmnivoiceSet, read_list
from prepcli.formats.tar import read_members


class ListedShard(NamedTuple):
    """The two files that a line of the list names, and the number of records that it states."""

    codes: CheckedFile
    labels: CheckedFile
    num_records: int


def find(export: OmnivoiceSet, of: Verification) -> tuple[list[ListedShard], list[str]]:
    """The shards that the list of the set names, and the problems of the list.

    The list must name all tars of the folder, by paths that exist.
    """
    try:
        lines = read_list(export.list)
    except (OSError, ValueError) as error:
        return [], [f"{LIST_NAME}: cannot be read: {error}"]
    problems = []
    shards = []
    for number, line in enumerate(lines, start=1):
        if missing := [str(path) for path in (line.codes, line.labels) if not path.is_file()]:
            problems.append(f"{LIST_NAME}:{number}: there is no file {missing[0]}; has the directory been moved?")
            continue
        codes = of.file(f"audios/{line.codes.name}")._replace(path=line.codes)
        labels = of.file(f"txts/{line.labels.name}")._replace(path=line.labels)
        shards.append(ListedShard(codes, labels, line.num_records))
    named = {line.codes.name for line in lines}
    problems += [
        f"audios/{path.name}: is not in {LIST_NAME}" for path in export.shards.values() if path.name not in named
    ]
    return shards, problems


def check(shard: ListedShard) -> ShardReport:
    """Check that each label of a shard has an array of codes of the stated length, and that each array has a label."""
    report = ShardReport()
    name = f"audios/{shard.codes.path.name}"
    labels = _labels(shard.labels, report)
    ids = []
    for member, data in read_members(shard.codes.path, name, shard.codes.published, report.problems):
        report.num_members += 1
        id, _, suffix = member.name.partition(".")
        ids.append(id)
        where = f"{name}: member {member.name}"
        label = labels.get(id)
        if suffix != "npy" or label is None:
            report.problems.append(f"{where} is not the array of an id in {shard.labels.path.name}")
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
    report.count_ids(ids)
    report.num_lines = len(labels)
    return report


def _labels(file: CheckedFile, report: ShardReport) -> dict[str, dict[str, Any]]:
    """The labels of a shard by their ids; lines that are not labels become problems of the report."""
    name = f"txts/{file.path.name}"
    data = file.path.read_bytes()
    report.compare(name, ContentHash(file.published, data))
    labels: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            label = json.loads(line)
            if not isinstance(label["id"], str) or not isinstance(label["text"], str):
                raise TypeError("id and text must be strings")
            labels[label["id"]] = label
        except (ValueError, TypeError, KeyError) as error:
            report.problems.append(f"{name}:{number}: is not a label with id and text: {error}")
    return labels
