"""Writes the final files of a tarred set: one manifest for all shards, `metadata.yaml`, and lines for a config."""

from collections.abc import Callable, Sequence
from typing import IO, Any, BinaryIO, cast

from prepcli.commands.manifest_to_tarred.layout import TarSet
from prepcli.commands.manifest_to_tarred.options import DYNAMIC_BUCKETS, TarForm
from prepcli.commands.manifest_to_tarred.own_options import own_config
from prepcli.commands.manifest_to_tarred.sections import MANIFESTS, TARS
from prepcli.engine.publishing.output_files import OutputFile
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.formats.indexes import INDEX_SUFFIX, LineOffsets
from prepcli.formats.names import absolute_folder
from prepcli.formats.tarred import (
    SHARD_MANIFEST_NAME,
    ExistingSet,
    manifest_name,
    metadata_name,
    metadata_yaml,
    names_in_config,
)
from prepcli.formats.training_config import INDEXED_CONFIG, indexed_config, tarred_entry
from prepcli.manifest.index import check_is_manifest
from prepcli.manifest.parts import Columns
from prepcli.manifest.scan import scan_all
from prepcli.manifest.sources import Reader
from prepcli.planning.arrays import Growing
from prepcli.planning.cut_points import duration_bins
from prepcli.storage.ahead import files_ahead
from prepcli.storage.paths import AnyPath

CHUNK_BYTES = 1 << 20


def merge_set(
    writer: UnitWriter,
    tar_set: TarSet,
    units: Sequence[str],
    form: TarForm,
    base: ExistingSet | None,
    created: float,
    durations: Growing,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the set's manifest and metadata through `writer`; adds the durations of its records to `durations`.

    `units`: the ids of its shards.

    If records are added to a set, `base`, the manifest has the lines of `base`, then the lines of the new shards. Both
    files get the name of the next version. The metadata keep the options of `base`, and have its metadata in their
    history.

    Returns:
        The lines for the summary, and the keys for bucketing (`bucketing`), empty for a static bucket.
    """
    first = base.num_shards if base else 0
    version = base.version + 1 if base else 0
    num_shards = first + tar_set.num_shards
    names = [tar_set.folder + SHARD_MANIFEST_NAME.format(first + k) for k in range(tar_set.num_shards)]
    out = writer.workspace.out
    parts = [base.manifest] if base else []
    if form["shard_manifests"]:
        parts += map(writer.made, units, names)
    else:
        parts += [writer.part(f"parts/{name}") for name in names]
    merged = writer.open(tar_set.folder + manifest_name(version))
    index = Growing(writer.folder, "<u8") if form["index"] and not form["shard_manifests"] else None
    num_records = _join(merged, parts, index, durations)
    if index is not None:
        writer.add_after(tar_set.folder + manifest_name(version) + INDEX_SUFFIX, index.array().data.cast("B"))
    bins = bucketing(durations, form) if form["buckets_num"] == 1 else {}
    config = _dataset_config({**form, "min_duration": tar_set.min_duration, "max_duration": tar_set.max_duration})
    own = own_config(form, base)
    if base is not None:
        config |= base.dataset_config
    config |= {"num_shards": num_shards} | bins
    per_shard = base.num_samples_per_shard if base else None
    metadata = writer.open(tar_set.folder + metadata_name(version))
    metadata.write(
        metadata_yaml(
            created=created,
            version=version,
            num_samples_per_shard=per_shard or num_records // num_shards,
            is_concatenated=base is not None,
            dataset_config=config,
            own_config=own,
            history=_history(base),
        )
    )
    folder = out / tar_set.folder
    tars, manifests = names_in_config(version, num_shards, form["shard_manifests"])
    details: dict[str, Any] = {f"{tar_set.folder}{MANIFESTS}": folder / manifests}
    if form["only_manifests"]:
        return details, bins
    details = {f"{tar_set.folder}{TARS}": folder / tars} | details
    if form["index"]:
        top = absolute_folder(str(folder))
        details[f"{tar_set.folder}{INDEXED_CONFIG}"] = indexed_config(
            [tarred_entry(f"{top}/{manifests}", f"{top}/{tars}")]
        )
    return details, bins


def _join(target: OutputFile, parts: Sequence[AnyPath], index: Growing | None, durations: Growing) -> int:
    """Write all parts to `target`; adds the offsets of the lines to `index`, and the seconds of records to `durations`.

    Returns:
        The number of lines.
    """
    lines = LineOffsets()

    def copy(chunk: bytes) -> None:
        starts = lines.of(chunk)
        if index is not None:
            index.append(starts)
        target.write(chunk)

    for part in files_ahead(parts, str):
        with part.open("rb") as file:
            source = _Copied(file, copy)
            num_bytes = 0
            for piece in scan_all(Reader(str(part), cast(BinaryIO, source)), Columns(spans=False, digest=False)):
                num_bytes += piece.num_bytes
                check_is_manifest(str(part), piece, num_bytes)
                durations.append(piece.duration)
        if not source.last.endswith(b"\n"):  # manifests of other programs may lack the last line end
            copy(b"\n")
    if index is not None:
        index.append([lines.num_bytes])
    return lines.num_lines


class _Copied:
    """Reads a file, and calls `copy` with each chunk that is read; `last` is the chunk that was read last."""

    def __init__(self, file: IO[bytes], copy: Callable[[bytes], None]) -> None:
        self._file, self._copy = file, copy
        self._left = b""
        self.last = b"\n"

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end."""
        if not self._left:
            self._left = self._file.read(CHUNK_BYTES)
            if self._left:
                self._copy(self._left)
                self.last = self._left
        data, self._left = self._left[:size], self._left[size:]
        return data


def bucketing(collected: Growing, form: TarForm) -> dict[str, Any]:
    """The keys of a config for bucketing, with bins for the durations `collected`; empty for fewer than two records.

    The array of durations is sorted in place.
    """
    durations = collected.array()
    num_bins = min(form["dynamic_buckets_num"] or DYNAMIC_BUCKETS, len(durations))
    if num_bins < 2:
        return {}
    durations.sort()
    bins = duration_bins(durations, num_bins)
    return {
        "use_lhotse": True,
        "use_bucketing": True,
        "num_buckets": len(bins) + 1,
        "bucket_duration_bins": [float(edge) for edge in bins],
    }


def _dataset_config(form: TarForm) -> dict[str, Any]:
    """The fields of NeMo's `ASRTarredDatasetConfig`, which refuses any other field."""
    return {
        "num_shards": form["num_shards"],
        "shuffle": form["shuffle"],
        "max_duration": form["max_duration"],
        "min_duration": form["min_duration"],
        "shuffle_seed": form["shuffle_seed"] if form["shuffle"] else None,
        "sort_in_shards": form["sort_in_shards"],
        "slice_with_offset": form["slice_with_offset"],
        "shard_manifests": form["shard_manifests"],
        "keep_files_together": form["keep_files_together"],
        "force_codec": form["force_codec"],
        "use_lhotse": False,
        "use_bucketing": False,
        "num_buckets": None,
        "bucket_duration_bins": None,
    }


def _history(base: ExistingSet | None) -> list[dict[str, Any]]:
    if base is None:
        return []
    own = {key: value for key, value in base.metadata.items() if key != "history"}
    return [*(base.metadata.get("history") or []), own]
