"""The base of export jobs: reads the records and their audio, and plans their ids and the shards."""

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from prepcli.audio.opening import read_whole
from prepcli.audio.probe import probe
from prepcli.audio.segments import EncodedAudio, Policy, Segment, TargetFormat, encoded, locate
from prepcli.commands.exports.options import ExportOptions
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.jobs.ids import GIVEN_ID, ID_KEYS, RecordIds, plan_ids
from prepcli.jobs.record_job import RecordContents, RecordJob, RecordUnit
from prepcli.manifest.record import Record
from prepcli.planning.arrays import Scratch, Values, values_of


@dataclass(frozen=True, slots=True)
class AudioContents(RecordContents):
    """The records, their order, and their audio."""

    def segment(self, number: int, record: Record, policy: Policy, *, is_stored: bool = False) -> Segment:
        """Find the audio of record `number`; it is not decoded yet.

        `is_stored`: whether the output stores the audio, in new or in unchanged form. If so, and if the record begins
        at 0 s, the whole file is read into memory at once.

        Raises:
            RecordRejected: the audio is missing, damaged, or shorter than the record says.
        """
        path = self.records.audio_path(number, record.audio_filepath)
        source = read_whole(path, path) if is_stored and not record.offset else path
        place = record.offset, record.duration, record.get("channel")
        return locate(source, probe(source, path), *place, policy, path)

    def load_audio(
        self, number: int, record: Record, target: TargetFormat, policy: Policy, *, check: bool
    ) -> tuple[Segment, EncodedAudio]:
        """The audio of record `number`, and the encoded audio for the output; for the arguments see `encoded`."""
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

    def settings(self, plan: ExportPlan) -> dict[str, Any]:
        """The options, the folder of the audio, and whether the ids are those that the records have."""
        return self.own_settings() | ({"ids": "the records' own"} if plan.contents.ids.given else {})

    def plan(self, workspace: Workspace) -> ExportPlan:
        """Index the manifests, and divide their records into shards of nearly the same number of records."""
        records = self.read(workspace, ID_KEYS | ({"id": GIVEN_ID} if self.takes_ids else {}))

        def make(scratch: Scratch) -> Values:
            return values_of(plan_ids(records.index, self.audio_base_dir, scratch))

        units, order, ids = self.shards(records, self.options.unit_size, self.options.seed, make)
        return records.plan(units, ExportContents(records, RecordIds(**ids), order=order))
