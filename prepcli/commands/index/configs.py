"""Finds the sets that an `input_cfg` names, to index their files. The entries of the config are not changed."""

from collections.abc import Iterator
from typing import Any

from prepcli.commands.index.sets import IndexedSet, Places, compressed, sets_in_folder
from prepcli.commands.index.tar_kind import tar_kind
from prepcli.errors import UsageError, option
from prepcli.formats.indexes import MIRROR
from prepcli.manifest.datasets import EntrySettings
from prepcli.manifest.input_cfg import TYPES, config_entries
from prepcli.manifest.sources import expand_paths, specs_in
from prepcli.storage.paths import AnyPath, path_of


def sets_in_config(config: str, places: Places) -> list[IndexedSet]:
    """Find the sets of an `input_cfg`, also those in its groups.

    Raises:
        UsageError: an entry cannot be indexed; or the config names several sets, one of them is a Shar set, and
            its indexes would be in its mirror, the folder that a reader gets as `indexes_root`.
    """
    sets = list(_sets(config, (), places))
    if len(sets) > 1 and any(indexed.mirror is not None for indexed in sets):
        raise UsageError(
            f"{config} names several sets, and a config has one indexes_root: give {option('--indexes-root')} DIR "
            "for the indexes of all of them"
        )
    return sets


def _sets(value: Any, seen: tuple[str, ...], places: Places) -> Iterator[IndexedSet]:
    for entry, kind, within, _ in config_entries(value, TYPES, seen, EntrySettings()):
        if kind == "group":
            yield from _sets(entry.get("input_cfg"), within, places)
        else:
            yield from _set_of(entry, kind, places)


def _set_of(entry: dict[str, Any], kind: str, places: Places) -> Iterator[IndexedSet]:
    if entry.get("shar_path") is not None:
        yield from _shar(entry, entry["shar_path"], places)
        return
    lines = entry.get("cuts_path") if kind.startswith("lhotse") else entry.get("manifest_filepath")
    if not lines:
        raise UsageError(f"an entry of type {kind} names no data")
    indexed = IndexedSet(_short(lines), entry=entry)
    manifests = expanded(lines)
    for path in manifests:
        if path.suffix == ".gz":
            raise UsageError(compressed(path))
    indexed.add(manifests, "jsonl", places)
    if tars := entry.get("tarred_audio_filepaths"):
        indexed.add(expanded(tars), "nemo_tar", places)
    yield indexed


def _shar(entry: dict[str, Any], spec: Any, places: Places) -> Iterator[IndexedSet]:
    if isinstance(spec, dict):
        cuts = expanded(spec.get("cuts") or [])
        if not cuts:
            raise UsageError("a shar_path given by fields must have the field `cuts`")
        indexed = IndexedSet(_short(spec["cuts"]), entry=entry)
        indexed.mirror = None if places.root or places.beside else cuts[0].parent.parent / MIRROR
        for name, value in spec.items():
            paths = expanded(value)
            packed = [path for path in paths if path.suffix == ".gz"]
            if packed:
                raise UsageError(compressed(packed[0]))
            if name == "cuts":
                indexed.add(paths, "jsonl", places)
            else:
                for path in paths:
                    indexed.add([path], tar_kind(path) if path.suffix == ".tar" else "jsonl", places)
        yield indexed
        return
    for folder in specs_in(spec):
        if not path_of(folder).is_dir():
            raise UsageError(f"shar_path is not a directory: {folder}")
        yield from sets_in_folder(path_of(folder), places)


def expanded(spec: Any) -> list[AnyPath]:
    """The files that `spec` names: a path, a brace pattern, or a list of paths and patterns.

    An item of the list may be a pair with a weight, which is ignored.
    """
    return [path_of(path) for name in specs_in(spec) for path in expand_paths(name)]


def _short(spec: Any) -> str:
    while isinstance(spec, list) and spec:
        spec = spec[0]
    return str(spec)
