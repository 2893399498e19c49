"""The base of export jobs: plans ids and shards, and writes the records of a shard one after the other."""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.channels import channels_note
from prepcli.audio.opening import read_whole
from prepcli.audio.segments import (
    EncodedAudio,
    Policy,
    Segment,
    TargetFormat,
    encoded,
    locate,
    probe,
)
from prepcli.commands.exports.options import ExportOptions
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.names import digest, member_stem, normal_path, segment_suffix
from prepcli.jobs.record_job import RecordContents, RecordJob, RecordUnit
from prepcli.jobs.records import Records, file_identity, segment_identity
from prepcli.jobs.row_names import GIVEN_ID
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import Ints, KeyFunction
from prepcli.manifest.record import Record
from prepcli.planning.arrays import Scratch, Values, values_of
from prepcli.planning.hashing import have_several, num_distinct, occurrences
from prepcli.storage.containers import own_name
from prepcli.storage.paths import AnyPath

# Blanks separate an id from the rest in lists such as Kaldi's. `@` precedes each part that makes an id unique, and
# occurs nowhere else: so such an id cannot equal that of another file.
_UNSAFE = re.compile(r"[\s@]")


@lru_cache(maxsize=64)
def file_id(audio_filepath: str) -> str:
    """`train/spk1/utt 3.wav` -> `utt_3`."""
    return path_id(
        posixpath.basename(normal_path(own_name(audio_filepath))) or "_"
    )  # `/` has no name, and is rejected later


@lru_cache(maxsize=64)
def path_id(audio_filepath: str) -> str:
    """`train/spk1/utt 3.wav` -> `train_spk1_utt_3`."""
    return _UNSAFE.sub("_", member_stem(audio_filepath))


ID_KEYS: dict[str, KeyFunction] = {"path": normal_path, "file_id": file_id, "path_id": path_id}
"""The keys that an index must have for `plan_ids`."""


@dataclass(frozen=True, slots=True)
class RecordIds:
    """The parts from which the id of each record is made.

    Attributes:
        given: all records have their own, different ids, and these are used.
        by_file: file names are unique and become ids; otherwise ids are made from whole paths.
        ambiguous: for each record, whether another file would get the same id.
        shared: for each record, whether another record has its file.
        occurrences: for each record, the number of earlier records with the same segment.
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


def plan_ids(index: ManifestIndex, audio_base_dir: AnyPath | None, scratch: Scratch | None = None) -> RecordIds:
    """Choose the parts of the ids; `index.keys` must hold `ID_KEYS`, and may hold `id` (`GIVEN_ID`).

    Names, files and segments are compared by 64-bit hashes: if two different ones have the same hash, ids get a part
    that they do not need.
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
class AudioContents(RecordContents):
    """The records, their order, and their audio."""

    def audio_path(self, number: int, record: Record) -> str:
        """Absolute path of the audio of record `number`."""
        return self.records.audio_path(number, record.audio_filepath)

    def segment(self, number: int, record: Record, policy: Policy, *, is_stored: bool = False) -> Segment:
        """The audio of record `number`.

        `is_stored`: its bytes go into the output, so the file is read at once if the record begins with it.

        Raises:
            RecordRejected: the audio is missing, damaged, or shorter than the record says.
        """
        path = self.audio_path(number, record)
        source = read_whole(path, path) if is_stored and not record.offset else path
        place = record.offset, record.duration, record.get("channel")
        return locate(source, probe(source, path), *place, policy, path)

    def load_audio(
        self, number: int, record: Record, target: TargetFormat, policy: Policy, *, check: bool
    ) -> tuple[Segment, EncodedAudio]:
        """The audio of record `number`, and the file that stores it; for the arguments see `encoded`."""
        segment = self.segment(number, record, policy, is_stored=True)
        return segment, encoded(segment, target, policy, check=check)


@dataclass(frozen=True, slots=True)
class ExportContents(AudioContents):
    """The records, their order, their audio, and their ids."""

    ids: RecordIds

    def id_of(self, number: int, record: Record) -> str:
        """The id of record `number`."""
        return self.ids.id_of(self.records, number, record)


ExportPlan = Plan[RecordUnit, ExportContents]
OptionsT = TypeVar("OptionsT", bound=ExportOptions)


class ExportJob(RecordJob[RecordUnit, ExportContents], Generic[OptionsT]):
    """Turns manifests into the shards of another toolkit. A unit is a shard.

    Attributes:
        takes_ids: whether the field `id` is used if all records have different ids.
    """

    takes_ids: ClassVar[bool] = False
    options: OptionsT

    def __init__(self, manifests: Sequence[str], options: OptionsT, num_workers: int = 1) -> None:
        options.check()
        self.manifests = manifests
        self.options = options
        self.num_workers = num_workers

    def settings(self, plan: ExportPlan) -> dict[str, Any]:
        """The options, the folder of the audio, and the source of the ids."""
        return self.own_settings() | ({"ids": "the records' own"} if plan.contents.ids.given else {})

    def plan(self, workspace: Workspace) -> ExportPlan:
        """Index the manifests, and divide their records into shards of nearly the same number of records."""
        records = self.read(workspace, ID_KEYS | ({"id": GIVEN_ID} if self.takes_ids else {}))

        def make(scratch: Scratch) -> Values:
            return values_of(plan_ids(records.index, self.audio_base_dir, scratch))

        units, order, ids = self.shards(records, self.options.unit_size, self.options.seed, make)
        return records.plan(units, ExportContents(records, RecordIds(**ids), order=order))

    def channels_note(self, markers: Sequence[Marker]) -> dict[str, str]:
        """A line for the summary if shards have counted records in `SEVERAL_CHANNELS`."""
        return channels_note((marker.extra for marker in markers), "records")
