"""Writes a pack: one file with the indexes of several sets, which lhotse 2 reads."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from prepcli.commands.index.configs import expanded
from prepcli.commands.index.sets import IndexedSet
from prepcli.engine.state.workspace import atomic_file
from prepcli.errors import UsageError, option
from prepcli.formats.indexes import tar_offsets
from prepcli.formats.set_files import refuse_file_of_set
from prepcli.formats.tar_walk import walk_tar
from prepcli.formats.tarred import member_of_line
from prepcli.formats.training_config import indexed_config
from prepcli.processes.ranks import Rank
from prepcli.storage.paths import AnyPath, StorePath, absolute

_SKIPPED = 0xFFFFFFFF


class _Row(msgspec.Struct):
    audio_filepath: str
    skipme: Any = msgspec.field(name="_skipme", default=False)


def check_pack(pack: Path, sets: Sequence[IndexedSet], rank: Rank) -> None:
    """Check, before the indexes are written, that a pack of them can be written.

    Raises:
        UsageError: there are several ranks, a set is in a store, the YAML next to the pack would replace a file of a
            set, or lhotse 2 cannot be imported.
    """
    if rank.world_size > 1:
        raise UsageError(f"{option('--pack')} takes the indexes of all ranks: give it to one more run, without ranks")
    if any(isinstance(file.path, StorePath) for one in sets for file in one.files):
        raise UsageError(f"{option('--pack')} takes sets in local folders, not in an object store")
    refuse_file_of_set("--pack", pack.with_suffix(".yaml"))
    try:
        import lhotse.index_pack  # noqa: F401
    except ImportError:
        raise UsageError(
            f"{option('--pack')} needs lhotse 2, which writes the format: pip install 'lhotse>=2.0.0a7' (or leave "
            f"{option('--pack')} out; the indexes alone do the same for fewer than some thousand shards)"
        ) from None


def write_pack(pack: Path, sets: Sequence[IndexedSet], root: AnyPath | None, *, overwrite: bool) -> list[str]:
    """Write the pack (one file with the indexes of all sets) and, next to it, a YAML of the sets; returns notes.

    lhotse finds an index in the pack only by exactly the path that the YAML has, so both files are written here.

    Raises:
        UsageError: a set has no entry in a config, its manifests and tars do not match one by one, the indexes are in
            several places, or the pack exists.
    """
    from lhotse.index_pack import IndexPackArraySpec, IndexPackCollectionSpec, write_index_pack

    entries = [one.entry for one in sets if one.entry is not None]
    if len(entries) != len(sets):
        raise UsageError(f"{option('--pack')} takes sets that a training config can name: folders, or an input_cfg")
    roots = {root or one.mirror for one in sets}
    if len(roots) > 1:
        raise UsageError(
            f"{option('--pack')} takes sets with indexes in one place: give {option('--indexes-root')} DIR"
        )
    notes = []
    collections: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="prepcli-pack-") as scratch:
        for number, one in enumerate(sets):
            assert one.entry is not None
            lines, tars = _files(one, "jsonl"), _files(one, "nemo_tar")
            if "shar_path" in one.entry:
                for field, spec in _shar_fields(one.entry):
                    kind = "jsonl" if field == "cuts" else "shar_tar"
                    named = set(map(absolute, expanded(spec)))
                    paths = [path for path in _files(one, kind) if absolute(path) in named]
                    collections.append(IndexPackCollectionSpec(field, kind, spec, tuple(paths)))
                notes.append("NeMo's loader refuses packs of lhotse_shar; lhotse 2 itself reads them")
                continue
            source = one.entry.get("manifest_filepath") or one.entry["cuts_path"]
            collections.append(IndexPackCollectionSpec("manifest", "jsonl", source, tuple(lines)))
            if tars:
                tar_source = one.entry["tarred_audio_filepaths"]
                collections.append(IndexPackCollectionSpec("tar", "nemo_tar", tar_source, tuple(tars)))
                routes = _write_routes(lines, tars, Path(scratch) / str(number))
                spec = {"manifest": source, "tar": tar_source, "normalization": "nemo-audio-member-v1"}
                collections.append(
                    IndexPackArraySpec("native_tar_route", "nemo_manifest_row_to_tar_ordinal_v1", spec, tuple(routes))
                )
        try:
            write_index_pack(pack, collections, indexes_root=roots.pop(), overwrite=overwrite)
        except FileExistsError:
            raise UsageError(f"{pack} exists; give another name, or {option('--overwrite')}") from None
        except ValueError as error:
            raise UsageError(f"lhotse 2 does not take these indexes: {error}") from None
    with atomic_file(pack.with_suffix(".yaml")) as file:
        file.write((indexed_config(entries) + "\n").encode("utf-8"))
    return [*dict.fromkeys(notes), f"the pack is found by the paths in {pack.with_suffix('.yaml')}, to the letter"]


def _files(one: IndexedSet, kind: str) -> list[str]:
    return [str(file.path) for file in one.files if file.kind == kind]


def _shar_fields(entry: dict[str, Any]) -> list[tuple[str, Any]]:
    fields = entry["shar_path"]
    if not isinstance(fields, dict):
        raise UsageError(
            f"{option('--pack')} takes Shar sets whose shar_path names the fields; give the folder of the set instead"
        )
    return list(fields.items())


def _write_routes(manifests: Sequence[str], tars: Sequence[str], folder: Path) -> list[Path]:
    """Write a file of numbers (uint32) for each manifest; returns the paths of the files.

    A file has a number for each line of the manifest: the number of its sample in the tar, or `_SKIPPED` for a line
    with the field `_skipme`. lhotse 2 puts these numbers into the pack.
    """
    if len(manifests) != len(tars):
        raise UsageError(
            f"{option('--pack')} needs a manifest for each tar, but there are {len(manifests)} manifests and "
            f"{len(tars)} tars"
        )
    folder.mkdir(parents=True)
    routes = []
    for number, (manifest, tar) in enumerate(zip(manifests, tars, strict=True)):
        with Path(tar).open("rb") as file:
            walk = walk_tar(file)
        begins = {int(offset): at for at, offset in enumerate(tar_offsets(walk, "nemo_tar"))}
        ordinal = {name: begins[at] for name, at in zip(walk.names, walk.offsets, strict=True) if at in begins}
        values = [_route(line, ordinal, manifest, tar) for line in Path(manifest).read_bytes().splitlines()]
        route = folder / f"{number}.u32"
        route.write_bytes(np.array(values, "<u4").tobytes())
        routes.append(route)
    return routes


def _route(line: bytes, ordinal: dict[str, int], manifest: str, tar: str) -> int:
    try:
        row = msgspec.json.decode(line, type=_Row)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{manifest} has a line that is not a record: {error}") from None
    if row.skipme:
        return _SKIPPED
    name = row.audio_filepath
    found = ordinal.get(name, ordinal.get(member_of_line(name)))
    if found is None:
        raise UsageError(f"{manifest} names {name}, which is not in {tar}; see prepcli verify")
    return found
