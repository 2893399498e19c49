"""Checks, without NeMo, that NeMo can load the sets of a blend: files, shards, and the first shard of each set."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from prepcli.commands.blend.nodes import Node
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.lenient_json import decode_json
from prepcli.formats.names import path_in
from prepcli.formats.shar_set import SharSet, is_codes_field
from prepcli.interface.printing import number_of
from prepcli.jobs.inputs.shar import shar_lines
from prepcli.jobs.inputs.tarred import check_complete, shard_of, tarred_lines
from prepcli.manifest.fields import parse_fields
from prepcli.manifest.lines import read_line
from prepcli.manifest.parquet_rows import check_audio_bytes
from prepcli.manifest.scan import Range, lines_of
from prepcli.manifest.sources import expand_paths, specs_in
from prepcli.storage.addresses import is_absolute, is_address
from prepcli.storage.containers import place_of
from prepcli.storage.paths import exists, path_of

# As NeMo reads a shard's number off a path (LazyNeMoTarredIterator in nemo_adapters.py).
_NUMBERS = {
    "manifest": re.compile(r"manifest[^/]*_(\d+)[^/]*\.json"),
    "tar": re.compile(r"audio[^/]*_(\d+)[^/]*\.tar"),
}
_LOST = (RejectReason.MISSING_AUDIO, RejectReason.MISSING_FIELD)
"""Why a line of a shard has no audio in its tar, or a member of the tar has no line."""


def check_set(name: str, leaf: Node) -> None:
    """Check that the files of a data set are there, fit together, and that the first shard has what its lines name.

    Reads the headers of one tar, so that the check of a large set takes no longer than that of a small one; `verify`
    checks every record.

    Raises:
        UsageError: NeMo could not load the set, or would stop at its first records. The message begins with `name`.
    """
    entry = leaf.entry
    try:
        if entry.get("shar_path") is not None:
            _check_shar(entry["shar_path"])
        elif entry.get("tarred_audio_filepaths") is not None or entry["type"] == "nemo_tarred":
            _check_tarred(entry)
        elif entry["type"] == "parquet":
            for path in specs_in(entry["manifest_filepath"]):
                check_audio_bytes(path, entry.get("audio_field", "audio"))
        elif entry["type"] == "nemo":
            for path in _files(entry["manifest_filepath"]):
                _check_audio(path)
        elif entry["type"] == "lhotse":
            _check_source(entry["cuts_path"])
    except UsageError as error:
        raise UsageError(f"{name}: {error} ({option('--no-check')} leaves this check out)") from None


def _files(spec: Any) -> list[str]:
    return [path for named in specs_in(spec) for path in expand_paths(named)]


def _check_tarred(entry: Mapping[str, Any]) -> None:
    """Check an entry with manifests and tars.

    If the manifests are a list, each is a set of its own, with the tars at the same place of theirs.
    """
    for key in ("manifest_filepath", "tarred_audio_filepaths"):
        if not entry.get(key):
            raise UsageError(f"an entry of type {entry['type']} has no {key}")
    specs = specs_in(entry["manifest_filepath"]), specs_in(entry["tarred_audio_filepaths"])
    for manifest_spec, tar_spec in zip_longest(*specs):
        if manifest_spec is None or tar_spec is None:
            counts = f"{len(specs[0])} manifest_filepath and {len(specs[1])} tarred_audio_filepaths"
            raise UsageError(f"an entry has {counts}; each needs its counterpart")
        _check_shards(expand_paths(manifest_spec), expand_paths(tar_spec), is_nemo=entry["type"].startswith("nemo"))


def _check_shards(manifests: Sequence[str], tars: Sequence[str], is_nemo: bool) -> None:
    """Check the shards of one set; `is_nemo`: whether NeMo pairs them by their numbers, and not by their order."""
    if not is_nemo:
        if len(manifests) != len(tars):
            raise UsageError(
                f"{number_of(len(manifests), 'manifest')} ({manifests[0]} ...), but {number_of(len(tars), 'tar')}"
            )
        return
    by_number = _by_number(tars, "tar")
    first = min(by_number)
    folder, numbers = path_of(tars[0]).parent, dict[int, str]()
    if len(manifests) > 1:
        numbers = _by_number(manifests, "manifest")
        check_complete(numbers, by_number, folder)
    else:
        check_complete(dict.fromkeys(_shards_in(manifests[0])), by_number, folder)
    manifest, number = numbers.get(first, manifests[0]), None if numbers else first
    if not any(map(is_address, (manifest, by_number[first]))):
        _check_lines(tarred_lines(manifest, {number: by_number[first]}), manifest)


def _by_number(paths: Sequence[str], kind: str) -> dict[int, str]:
    """The paths by the number of their shard.

    Raises:
        UsageError: a path has no number, or two paths have the same.
    """
    numbered: dict[int, str] = {}
    for path in paths:
        match = _NUMBERS[kind].search(path)
        if match is None:
            name = "audio_0.tar" if kind == "tar" else "manifest_0.json"
            raise UsageError(f"NeMo finds no number of a shard in {path}; name it as {name}")
        other = numbered.setdefault(int(match[1]), path)
        if other is not path:
            raise UsageError(f"NeMo would take {other} and {path} for the same shard; give one another number")
    return numbered


def _shards_in(manifest: str) -> Iterator[int]:
    """The `shard_id` of each line that has one."""
    for line in lines_of(Range(manifest, 0, None)):
        with contextlib.suppress(RecordRejected):
            if line.strip() and (number := shard_of(parse_fields(line))) is not None:
                yield number


def _check_lines(lines: Iterable[bytes], place: str) -> None:
    """Check that each line of a shard has its audio in the tar, each member its line, and one line can be used.

    Raises:
        UsageError: a line or a member has no counterpart, or no line can be used.
    """
    num_usable, why = 0, ""
    for line in lines:
        try:
            num_usable += read_line(line, cuts=False) is not None
        except RecordRejected as rejected:
            why = why or rejected.detail
            if rejected.reason in _LOST:
                raise UsageError(f"{place} and its tar do not fit together: {why}") from None
    if not num_usable:
        raise UsageError(f"{place} has no line that can be used: {why or 'it is empty'}")


def _check_shar(spec: Any) -> None:
    """Check a `shar_path`: that all fields have as many shards as the cuts, and that the first shard fits together."""
    if not isinstance(spec, dict):
        for folder in specs_in(spec):
            flat = SharSet(path_of(folder), is_flat=True)
            _check_shar((flat if flat.record_files() else SharSet(path_of(folder))).entry()["shar_path"])
        return
    files = {field: _files(paths) for field, paths in spec.items()}
    for field, paths in files.items():
        if len(paths) != len(files["cuts"]):
            raise UsageError(f"{len(files['cuts'])} shards of cuts, but {len(paths)} of {field}; copy the set again")
    audio = {field: paths[0] for field, paths in files.items() if field != "cuts" and not is_codes_field(field)}
    if audio and not any(map(is_address, (files["cuts"][0], *audio.values()))):
        _check_lines(shar_lines(files["cuts"][0], audio), files["cuts"][0])


def _check_audio(manifest: str) -> None:
    """Check that the audio of a manifest's first usable line is there."""
    for line in lines_of(Range(manifest, 0, None)):
        try:
            usable = read_line(line, cuts=False)
        except RecordRejected:
            continue  # a note counts such lines
        if usable is None or usable.record is None:
            continue
        path, folder = usable.record.audio_filepath, str(path_of(manifest).parent)
        if is_address(path) or is_address(folder) or exists(path_in(folder, path)):
            return
        if place_of(path) is not None:
            raise UsageError(f"{manifest} names {path}, which is in a container: make a tarred set of it for NeMo")
        if is_absolute(path):
            raise UsageError(f"{manifest} names {path}, which is not there")
        raise UsageError(
            f"{manifest} names its audio relative to its folder, and {folder} has no {path}; move the manifest into "
            "the folder from which its paths start (fix-durations leaves paths as they are)"
        )


def _check_source(cuts: str) -> None:
    """Check that the audio of the first cut in a file is there, if it is a file."""
    for line in lines_of(Range(cuts, 0, None)):
        if not line.strip():
            continue
        for source in _sources(decode_json(line, dict)):
            if not is_address(source) and not exists(source):
                raise UsageError(f"{cuts} names {source}, which is not there, from the folder {os.getcwd()}")
        return


def _sources(cut: Mapping[str, Any]) -> Iterator[str]:
    """The files with the audio of a cut."""
    recording = cut.get("recording")
    for source in (recording.get("sources") or []) if isinstance(recording, dict) else []:
        if isinstance(source, dict) and source.get("type") == "file":
            yield str(source.get("source"))
