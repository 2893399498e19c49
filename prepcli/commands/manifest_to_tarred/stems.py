"""Finds the records of a tarred set whose tar members cannot be named by the stem of the audio path alone."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.channels import MIX
from prepcli.commands.manifest_to_tarred.layout import TarredLayout, TarSet
from prepcli.commands.manifest_to_tarred.options import TarForm
from prepcli.errors import RejectReason
from prepcli.formats.names import tagged
from prepcli.jobs.records import segment_identity
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.index import ManifestIndex
from prepcli.planning.arrays import Scratch
from prepcli.planning.hashing import Hashes, chunks, have_several, in_sorted, num_distinct
from prepcli.planning.split import Indices, positions_between, selected


def free_stem(stem: str, taken: Hashes) -> str:
    """The stem, with a suffix if it is in `taken`: the sorted hashes of the stems in the set that gets the records."""
    candidate, attempt = stem, 0
    while in_sorted(taken, np.frombuffer(key_bytes(candidate), "<u8"))[0]:
        attempt += 1
        candidate = tagged(stem, attempt, stem)
    return candidate


def with_names(
    sets: list[TarSet],
    left_out: list[tuple[RejectReason, Indices]],
    index: ManifestIndex,
    files: Hashes,
    form: TarForm,
    taken: Hashes | None,
    scratch: Scratch,
) -> TarredLayout:
    """Return the layout of `sets`, with the bits (`ambiguous`, `repeated`) that determine the names of members.

    Both of NeMo's loaders must find the right line for a member. The classic loader looks up members by stem in the
    whole manifest, not by shard, so a stem must stand for one piece of audio in one shard of the whole set.
    """
    shard = _shard_of(sets, len(index), scratch)
    kept = positions_between(shard, 0, None, scratch)
    segments = segment_identity(index, files, scratch)
    stems, roots = index.keys["stem"], index.keys["root"]
    if len(kept) < len(index):
        files, segments, stems, roots, shard = (
            selected(column, kept, scratch) for column in (files, segments, stems, roots, shard)
        )
    ambiguous = scratch.zeros(len(kept), bool)
    repeated = scratch.zeros(len(kept), bool)
    if num_distinct(stems) < num_distinct(files):  # each file has one stem: with equal numbers, each stem has one file
        have_several(stems, files, ambiguous)
    stored = segments if form["slice_with_offset"] else files
    if num_distinct(stored) < len(stored):
        have_several(stored, shard, repeated)
    if roots.any():
        # The names of slices have their offset and duration between stem and shard, which makes them unique.
        chosen = ambiguous.copy() if form["slice_with_offset"] else ambiguous | repeated
        if taken is not None:
            chosen |= in_sorted(taken, stems)
        if form["channel"] not in (None, MIX):  # then records with a channel of their own get a marked name
            chosen[:] = True
        ambiguous |= _like_chosen(stems, roots, chosen)
    return TarredLayout(
        sets=sets,
        left_out=left_out,
        ambiguous=_of_all(ambiguous, kept, len(index), scratch),
        repeated=_of_all(repeated, kept, len(index), scratch),
        num_same_segment=len(kept) - num_distinct(segments),
        num_repeated=int(np.count_nonzero(repeated)),
    )


def _shard_of(sets: Sequence[TarSet], num_records: int, scratch: Scratch) -> NDArray[np.int32]:
    """The number of each record's shard, counted through all sets; -1 for a record in none."""
    shard = scratch.empty(num_records, np.int32)
    shard[:] = -1
    number = 0
    for tar_set in sets:
        for lo, hi in pairwise(tar_set.bounds.tolist()):
            shard[tar_set.records[lo:hi]] = number
            number += 1
    return shard


def _of_all(bits: NDArray[np.bool_], kept: Indices, num_records: int, scratch: Scratch) -> NDArray[np.bool_]:
    """Expand the bits of the records `kept` to all `num_records` records; the others get False."""
    if len(kept) == num_records:
        return bits
    result = scratch.zeros(num_records, bool)
    for chunk in chunks(len(kept)):
        result[kept[chunk]] = bits[chunk]
    return result


def _like_chosen(stems: Hashes, roots: Hashes, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each record, whether its stem may equal the longer name of a member of a `chosen` record.

    The longer name is the stem of the chosen record and a suffix, such as `x-shard1` for `x`. The stem of another
    record may equal it if that stem has such a suffix too, and the stems of both records without suffixes are equal.

    Args:
        stems: for each record, the hash of its stem.
        roots: for each record, the hash of its stem without the suffix; 0 if the stem has no suffix.
        chosen: for each record, whether its members get longer names.
    """
    rows = np.flatnonzero(roots)
    families = np.where(roots[chosen] != 0, roots[chosen], stems[chosen])
    like = np.zeros(len(stems), bool)
    like[rows] = np.isin(roots[rows], families, kind="sort")  # tables of NumPy 2.0.0 overflow
    return like
