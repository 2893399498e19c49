"""What the jobs of exports share: ids and shards are planned, and a shard's records are written one after the other."""

import posixpath
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.channels import channels_note
from prepcli.commands.exports.options import ExportOptions
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.names import digest, member_stem, normal_path, segment_suffix
from prepcli.jobs.record_job import RecordContents, RecordJob, RecordUnit, units_of
from prepcli.jobs.records import Records, file_identity, segment_identity
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import FieldKey, Ints, KeyFunction
from prepcli.manifest.record import Record
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.hashing import have_several, num_distinct, occurrences
from prepcli.planning.split import by_count, in_order, seconds_of

# Blanks separate an id from the rest in lists such as Kaldi's. `@` stands before each part that makes an id unique, and
# nowhere else in it: so no id that was made can be that of another file.
_UNSAFE = re.compile(r"[\s@]")
_UNSAFE_IN_ID = re.compile(r"[\s/]")


@lru_cache(maxsize=64)
def file_id(audio_filepath: str) -> str:
    """`train/spk1/utt 3.wav` -> `utt_3`."""
    return path_id(posixpath.basename(normal_path(audio_filepath)) or "_")  # of `/`, which will be a reject


@lru_cache(maxsize=64)
def path_id(audio_filepath: str) -> str:
    """`train/spk1/utt 3.wav` -> `train_spk1_utt_3`."""
    return _UNSAFE.sub("_", member_stem(audio_filepath))


ID_KEYS: dict[str, KeyFunction] = {"path": normal_path, "file_id": file_id, "path_id": path_id}
"""What an index must hold for `plan_ids`."""
MAX_ID_LENGTH = 200


def given_id(text: str) -> str:
    """The id that a record gives itself, or nothing if it cannot stand in lists and in names of files."""
    return text if len(text) <= MAX_ID_LENGTH and text.isprintable() and not _UNSAFE_IN_ID.search(text) else ""


GIVEN_ID = FieldKey("id", given_id, is_optional=True)
"""The further key of an index for `plan_ids` where records may have ids of their own."""


@dataclass(frozen=True, slots=True)
class RecordIds:
    """What the id of each record is made of.

    Attributes:
        given: all records have different ids of their own, and these are used.
        by_file: the names of the files tell all of them apart; otherwise ids are made of whole paths.
        ambiguous: for each record, whether another file would have its id.
        shared: for each record, whether another record has its file.
        occurrences: for each record, the number of records before it with the same segment.
    """

    given: bool
    by_file: bool
    ambiguous: NDArray[np.bool_]
    shared: NDArray[np.bool_]
    occurrences: Ints

    def id_of(self, records: Records, number: int, record: Record) -> str:
        """The id of a record: `utt`, `utt@0_5_2_25` (offset and duration of a segment), `utt@n2` (a second time)."""
        if self.given:
            return str(record.get(GIVEN_ID.field))
        path = record.audio_filepath
        parts = [file_id(path) if self.by_file else path_id(path)]
        if self.ambiguous[number]:
            parts.append(digest(records.base_dirs.index(records.base_dir(number)), normal_path(path)))
        if self.shared[number]:
            parts.append(segment_suffix(record.offset, record.duration)[1:])
        if self.occurrences[number]:
            parts.append(f"n{self.occurrences[number] + 1}")
        return "@".join(parts)


def plan_ids(index: ManifestIndex, audio_base_dir: Path | None, scratch: Scratch | None = None) -> RecordIds:
    """Find out what the ids must be made of; `index.keys` must hold `ID_KEYS`, and may hold `id` (`GIVEN_ID`).

    Names, files and segments are compared by 64-bit hashes: if two ever share one, ids get a part that they do not
    need.
    """
    scratch = scratch or Scratch()
    given = index.keys.get("id", np.empty(0, np.uint64))
    is_given = len(given) > 0 and bool(given.all()) and num_distinct(given) == len(given)
    files = file_identity(index, audio_base_dir, scratch)
    num_files = num_distinct(files)
    names = index.keys["file_id"]
    by_file = num_distinct(names) == num_files
    if not by_file:
        names = index.keys["path_id"]
    segments = segment_identity(index, files, scratch)
    ambiguous, shared = scratch.zeros(len(index), bool), scratch.zeros(len(index), bool)
    if num_distinct(names) != num_files:
        have_several(names, files, ambiguous)
    if num_files != len(files):
        have_several(files, segments, shared)
    return RecordIds(is_given, by_file, ambiguous, shared, occurrences(segments, scratch.empty(len(index), np.int64)))


@dataclass(frozen=True, slots=True)
class ExportContents(RecordContents):
    """The records, their order, and their ids."""

    ids: RecordIds

    def id_of(self, number: int, record: Record) -> str:
        """The id of record `number`."""
        return self.ids.id_of(self.records, number, record)

    def audio_path(self, number: int, record: Record) -> str:
        """Absolute path of the audio of record `number`."""
        return self.records.audio_path(number, record.audio_filepath)


ExportPlan = Plan[RecordUnit, ExportContents]


class ExportJob(RecordJob[RecordUnit, ExportContents]):
    """Turns manifests into the shards of another toolkit. A unit is a shard.

    Attributes:
        takes_ids: whether the ids are the field `id` of the records, where all have different ones.
    """

    takes_ids: ClassVar[bool] = False

    def __init__(self, manifests: Sequence[str], options: ExportOptions, num_workers: int = 1) -> None:
        self.manifests = manifests
        self.options = options
        self.num_workers = num_workers

    @property
    @abstractmethod
    def shard_size(self) -> int:
        """Maximum number of records per unit."""

    @property
    def shuffle_seed(self) -> int | None:
        """The seed of the order of the records; None keeps that of the manifests."""
        return None

    def settings(self, plan: ExportPlan) -> dict[str, Any]:
        """The options, where the audio lies, and where the ids come from."""
        return self.own_settings() | ({"ids": "the records' own"} if plan.contents.ids.given else {})

    def plan(self, workspace: Workspace) -> ExportPlan:
        """Index the manifests, and divide their records into shards of nearly the same number of records."""
        records = self.read(workspace, ID_KEYS | ({"id": GIVEN_ID} if self.takes_ids else {}))
        size = len(records)
        # If every line is a reject, there is one bound and no shard.
        bounds = by_count(size, -(-size // self.shard_size)) if size else np.zeros(1, np.int64)

        def make(scratch: Scratch) -> Values:
            ids = plan_ids(records.index, self.audio_base_dir, scratch)
            order = in_order(size, self.shuffle_seed, scratch)
            return {"order": order, "seconds": seconds_of(records.index.duration, order, bounds)} | {
                field.name: getattr(ids, field.name) for field in fields(RecordIds)
            }

        values = dict(self.layout(records, make))
        order, seconds = values.pop("order"), values.pop("seconds")
        units = units_of("shard", bounds.tolist(), seconds.tolist(), make=RecordUnit)
        return records.plan(units, ExportContents(records, RecordIds(**values), order=order))

    def channels_note(self, markers: Sequence[Marker]) -> dict[str, str]:
        """A line for the summary, if shards have counted records in `SEVERAL_CHANNELS`."""
        return channels_note(
            (marker.extra for marker in markers), "records", "give them the field channel (from 0), or make mono files"
        )
