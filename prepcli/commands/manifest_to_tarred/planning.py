"""The plan of a tarred set: the sets, shards and names of its records."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from prepcli.commands.manifest_to_tarred.layout import TarredLayout, TarSet
from prepcli.commands.manifest_to_tarred.options import TarForm
from prepcli.commands.manifest_to_tarred.present import TEXT, TEXT_KEY, PresentRecords
from prepcli.commands.manifest_to_tarred.sections import shard_counts, uneven_text
from prepcli.commands.manifest_to_tarred.stems import with_names
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RejectReason, UsageError, option
from prepcli.formats.names import marked_root, member_stem, normal_path
from prepcli.formats.tarred import ExistingSet
from prepcli.interface.calls import current_call
from prepcli.interface.printing import number_of
from prepcli.jobs.inputs.named import refuse_one_pass
from prepcli.jobs.record_job import RecordContents, RecordUnit, units_of
from prepcli.jobs.records import Records, file_identity, settings_over
from prepcli.jobs.row_names import take_ids, with_ids
from prepcli.jobs.source import RecordSource
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import KeyFunction
from prepcli.manifest.seconds import notes_on_limit, typical_seconds
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.hashing import Hashes
from prepcli.planning.split import (
    Indices,
    at_group_ends,
    by_count,
    by_seconds,
    order_by_group,
    positions_between,
    seconds_of,
    selected,
    shuffled,
)
from prepcli.storage.input_files import state_of
from prepcli.storage.paths import AnyPath


def plan_sets(
    index: ManifestIndex,
    audio_base_dir: AnyPath | None,
    form: TarForm,
    taken: Hashes | None = None,
    scratch: Scratch | None = None,
) -> TarredLayout:
    """Divide the records of the index into shards.

    `index.keys` must hold `path` (normal_path), `stem` (member_stem) and `root` (marked_root). `taken`: the sorted keys
    of the stems in the set to which the records are added.

    Raises:
        UsageError: more shards than records, or other options that the records do not fit.
    """
    scratch = scratch or Scratch()
    files = file_identity(index, audio_base_dir, scratch)
    low, high = form["min_duration"], form["max_duration"]
    sets: list[TarSet] = []
    left_out: list[tuple[RejectReason, Indices]] = []
    edges = _bucket_edges(form)
    for number, (start, stop) in enumerate(edges):
        folder = f"bucket{number + 1}/" if form["buckets_num"] > 1 else ""
        records = positions_between(index.duration, start, stop, scratch)
        tar_set, dropped = _divide(folder, start, stop, records, index, files, form, scratch)
        sets.append(tar_set)
        if form["remainder"] == "drop":
            left_out.append((RejectReason.REMAINDER_DROPPED, dropped))
    if low is not None:
        left_out.append((RejectReason.BELOW_MIN_DURATION, positions_between(index.duration, None, low, scratch)))
    if high is not None:
        left_out.append(
            (RejectReason.ABOVE_MAX_DURATION, positions_between(index.duration, edges[-1][1] or high, None, scratch))
        )
    return with_names(sets, left_out, index, files, form, taken, scratch)


def _bucket_edges(form: TarForm) -> list[tuple[float | None, float | None]]:
    """The range [min, max) of each static bucket in seconds, as in NeMo's script; one range without static buckets.

    The ranges have equal widths, and the last one includes its upper end.
    """
    if form["buckets_num"] == 1 or form["max_duration"] is None:
        return [(form["min_duration"], form["max_duration"])]
    low = form["min_duration"] or 0.0
    width = (form["max_duration"] - low) / form["buckets_num"]
    edges = [low + number * width for number in range(form["buckets_num"])] + [form["max_duration"] + 1e-5]
    return list(pairwise(edges))


def _divide(
    folder: str,
    low: float | None,
    high: float | None,
    records: Indices,
    index: ManifestIndex,
    files: Hashes,
    form: TarForm,
    scratch: Scratch,
) -> tuple[TarSet, Indices]:
    """Divide `records` into the shards of one set; also returns the records that `--remainder drop` leaves out.

    `low` and `high`: the range of durations of a static bucket in seconds; None without static buckets.
    """
    where = f" in {folder[:-1]} ({low:g} to {high:g} s)" if folder and low is not None and high is not None else ""
    if not len(records):
        limits = (("--min-duration", form["min_duration"]), ("--max-duration", form["max_duration"]))
        given = " and ".join(option(name, f"{value:g}") for name, value in limits if value is not None)
        raise UsageError(f"none of the {number_of(len(index), 'record')} is left by {given or 'the limits'}{where}")
    if form["shuffle"]:
        records = selected(records, shuffled(len(records), form["shuffle_seed"] or 0, scratch), scratch)
    if form["keep_files_together"]:
        records = selected(records, order_by_group(selected(files, records, scratch), scratch), scratch)
    dropped = records[:0]
    if form["shard_hours"] is not None:
        durations = selected(index.duration, records, scratch)
        bounds = by_seconds(durations, form["shard_hours"] * 3600, scratch)
    else:
        num_shards = form["num_shards"] or -(-len(records) // (form["shard_size"] or 1))
        if form["remainder"] == "drop" and form["shard_size"]:
            num_shards = len(records) // form["shard_size"]
        if num_shards > len(records) or num_shards == 0:
            raise UsageError(
                f"{number_of(len(records), 'usable record')}{where} cannot fill {form['num_shards'] or 1} shards"
                + (f" of {form['shard_size']}" if form["shard_size"] else "")
                + (f"; lower {option('--num-shards')}" if form["num_shards"] else f"; lower {option('--shard-size')}")
            )
        if form["remainder"] == "drop":
            size = form["shard_size"] or len(records) // num_shards
            dropped = np.sort(records[num_shards * size :])
            records = records[: num_shards * size]
        bounds = by_count(len(records), num_shards)
    if form["keep_files_together"]:
        bounds = at_group_ends(bounds, selected(files, records, scratch))
    if form["sort_in_shards"]:
        for lo, hi in pairwise(bounds.tolist()):
            shard = records[lo:hi]
            records[lo:hi] = shard[np.argsort(index.duration[shard], kind="stable")]
    return TarSet(folder, low, high, records, bounds, seconds_of(index.duration, records, bounds)), dropped


@dataclass(frozen=True, slots=True)
class TarShard(RecordUnit):
    """A shard: its number, and the records `records[lo:hi]` of set `set_number` of the layout."""

    set_number: int


@dataclass(frozen=True, slots=True)
class TarredContents(RecordContents):
    """The records, and their division into shards.

    `taken`: the sorted hashes of the stems in the set to which the records are added; None for a new set.
    """

    layout: TarredLayout
    taken: Hashes | None

    def numbers(self, unit: RecordUnit) -> list[int]:
        """The numbers of the shard's records."""
        assert isinstance(unit, TarShard)
        numbers: list[int] = self.layout.sets[unit.set_number].records[unit.lo : unit.hi].tolist()
        return numbers


TarredPlan = Plan[TarShard, TarredContents]


def settings_of_set(source: RecordSource, form: TarForm, base: ExistingSet | None) -> dict[str, Any]:
    """The options, the folders of relative audio paths, and for an addition the version to which it adds."""
    options = replace(current_call().options, **form)
    settings = settings_over(source.manifests, source.audio_base_dir, options)
    return settings if base is None else settings | {f"{option('--concat-to')} version": base.version}


def plan_set(
    source: RecordSource, workspace: Workspace, form: TarForm, base: ExistingSet | None, num_workers: int
) -> TarredPlan:
    """Index the manifests and divide their records into shards; `base`: the set to which they are added, if any."""
    if form["shuffle"]:
        refuse_one_pass(source.manifests)
    keys: dict[str, KeyFunction] = {"path": normal_path, "stem": member_stem, "root": marked_root}
    if base is not None:
        keys[TEXT_KEY] = TEXT
    records = source.read(workspace, with_ids(keys, source.manifests))
    by_id = take_ids(records.index)
    present = None
    if base is not None:
        present = PresentRecords.of_manifest(base.manifest, form["slice_with_offset"], num_workers)
    layout = _layout(source, records, form, base, present)
    taken = present.names if present else None
    contents = TarredContents(records, layout, taken, left_out=layout.left_out, by_id=by_id)
    return records.plan(list(_units(layout, base)), contents, layout.left_out, _notes(records, layout, form, base))


def _layout(
    source: RecordSource, records: Records, form: TarForm, base: ExistingSet | None, present: PresentRecords | None
) -> TarredLayout:
    if not len(records):
        return TarredLayout(sets=[])
    state = None if base is None else [base.version, tuple(state_of(base.manifest))]

    def make(scratch: Scratch) -> Values:
        layout = plan_sets(records.index, source.audio_base_dir, form, present.names if present else None, scratch)
        if present is not None and not form["allow_duplicates"]:
            present.refuse(records, layout)
        return layout.to_values()

    return TarredLayout.from_values(
        source.layout(records, make, settings_of_set(source, form, base), state, form["allow_duplicates"])
    )


def _units(layout: TarredLayout, base: ExistingSet | None) -> Iterator[TarShard]:
    first = base.num_shards if base else 0
    for set_number, tar_set in enumerate(layout.sets):
        name = f"{tar_set.folder.replace('/', '-')}shard"
        make = partial(TarShard, set_number=set_number)
        yield from units_of(name, tar_set.bounds.tolist(), tar_set.seconds.tolist(), first=first, make=make)


def _notes(records: Records, layout: TarredLayout, form: TarForm, base: ExistingSet | None) -> list[str]:
    uneven = uneven_text(shard_counts(layout, base)) if form["remainder"] == "drop" else ""
    notes = [f"{uneven}: NeMo's classic loader on several GPUs needs that"] if uneven else []
    notes += notes_on_limit(form["max_duration"], typical_seconds(records.index.duration))
    if layout.num_same_segment:
        num_same = number_of(layout.num_same_segment, "record", "name")
        notes.append(f"{num_same} the same segment as an earlier one; all are kept")
    num_repeated = layout.num_repeated
    if num_repeated and not form["slice_with_offset"]:
        notes.append(
            f"{number_of(num_repeated, 'record', 'are')} segments of files that go into several shards, a copy into "
            f"each; {option('--keep-files-together')} or {option('--slice-with-offset')} would avoid the copies"
        )
    return notes
