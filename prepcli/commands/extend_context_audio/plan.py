"""Plans context audio: groups records by voice, and voices into bundles, the units of work."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prepcli.errors import RejectReason
from prepcli.jobs.records import LeftOut, file_identity
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import Floats
from prepcli.planning.arrays import Scratch
from prepcli.planning.split import Indices, seconds_of
from prepcli.storage.paths import AnyPath

BUNDLE_SECONDS = 12 * 3600.0
"""Approximate seconds of audio in a bundle of a large corpus. A batch holds utterances of equal length of one bundle:
with less audio, most batches would be small. A bundle takes seconds on a GPU and a few minutes on a CPU."""
NUM_BUNDLES = 16
"""Number of bundles of a small corpus: enough for a few ranks, and little work is lost when a run stops."""


@dataclass(frozen=True, slots=True)
class ContextLayout:
    """The division of records into bundles. A group is the records of one voice.

    Attributes:
        order: the numbers of the records in all bundles; bundle k is `order[bounds[k]:bounds[k + 1]]`, ascending.
        bounds: the first position of each bundle in `order`, then the length of `order`.
        seconds: seconds of audio of each bundle.
        groups: for each record, a number that is the same for records of one group.
        files: for each record, a number that is the same for records with one path of audio.
        alone: the numbers of records without another record of their group; they are in no bundle.
        num_groups: the number of groups in the bundles.
        largest_group: seconds of audio of the longest group.
    """

    order: Indices
    bounds: Indices
    seconds: Floats
    groups: NDArray[np.uint64]
    files: NDArray[np.uint64]
    alone: Indices
    num_groups: int
    largest_group: float

    @property
    def left_out(self) -> LeftOut:
        """The records outside of all bundles, with the reason."""
        return [(RejectReason.SPEAKER_HAS_ONE_UTTERANCE, self.alone)]


def plan_bundles(index: ManifestIndex, audio_base_dir: AnyPath | None, scratch: Scratch | None = None) -> ContextLayout:
    """Divide the records into bundles with about the same number of seconds.

    A group, which has the records of one voice, is not divided. Groups are taken in the order of their first records.
    A group of one record is in no bundle. The bundles depend only on the records.

    `index` must have the keys `path`, from `normal_path`, and `group`, from `group_key`.
    """
    groups = index.keys["group"]
    files = file_identity(index, audio_base_dir, scratch)
    _, first, number, size = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    seconds = np.asarray(np.bincount(number, weights=index.duration, minlength=len(size)), np.float64)
    paired = size > 1
    kept = np.flatnonzero(paired)
    kept = kept[np.argsort(first[kept])]
    bundle_of_group = np.full(len(size), -1, np.int64)
    bundle_of_group[kept] = _bundles(seconds[kept])
    bundle = bundle_of_group[number]
    alone = np.flatnonzero(bundle < 0)
    order = np.argsort(bundle, kind="stable")[len(alone) :]
    num_bundles = int(bundle_of_group.max(initial=-1)) + 1
    bounds = np.searchsorted(bundle[order], np.arange(num_bundles + 1))
    largest = float(seconds[kept].max(initial=0.0))
    of_bundles = seconds_of(index.duration, order, bounds)
    return ContextLayout(order, bounds, of_bundles, groups, files, alone, len(kept), largest)


def _bundles(seconds: NDArray[np.float64]) -> Indices:
    """Divide groups of records into bundles of consecutive groups; return the number of each group's bundle.

    `seconds` has the total audio of each group. The groups are laid end to end, and the total time is divided into
    equal parts. The groups whose middle is in the same part are a bundle. Bundles are numbered from 0, without gaps.
    """
    if not len(seconds):
        return np.zeros(0, np.int64)
    target = min(BUNDLE_SECONDS, float(seconds.sum()) / NUM_BUNDLES)
    middle = np.cumsum(seconds) - seconds / 2
    cell = (middle / target).astype(np.int64)
    return np.cumsum(np.diff(cell, prepend=cell[0]) > 0)
