"""The records that exports read, with their audio and their ids, and their division into shards."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from prepcli.audio.limits import check_target_rate
from prepcli.audio.opening import read_whole
from prepcli.audio.probe import probe
from prepcli.audio.segments import EncodedAudio, Policy, Segment, TargetFormat, encoded, locate, with_channel
from prepcli.commands.exports.options import AudioArguments
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.jobs.ids import GIVEN_ID, ID_KEYS, RecordIds, plan_ids
from prepcli.jobs.record_job import RecordContents, RecordUnit
from prepcli.jobs.source import RecordSource
from prepcli.manifest.record import Record
from prepcli.planning.arrays import Scratch, Values, values_of


class Conversion(NamedTuple):
    """How the audio of records is stored: its format, the samples and channels taken, and the check of copies."""

    target: TargetFormat
    policy: Policy
    check: bool = False


def conversion(policy: Policy, codec: str | None, sampling_rate: int | None, more: AudioArguments) -> Conversion:
    """The conversion that options ask for; raises `UsageError` if the sampling rate (Hz) or the channel is invalid."""
    check_target_rate(sampling_rate)
    return Conversion(TargetFormat(codec, sampling_rate), with_channel(policy, more["channel"]), more["check_audio"])


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

    def load_audio(self, number: int, record: Record, wanted: Conversion) -> tuple[Segment, EncodedAudio]:
        """The audio of record `number`, and the encoded audio for the output."""
        segment = self.segment(number, record, wanted.policy, is_stored=True)
        return segment, encoded(segment, wanted.target, wanted.policy, check=wanted.check)


@dataclass(frozen=True, slots=True)
class ExportContents(AudioContents):
    """The records, their order, their audio, and their ids."""

    ids: RecordIds

    def id_of(self, number: int, record: Record) -> str:
        """The id of record `number`."""
        return self.ids.id_of(self.records, number, record)


ExportPlan = Plan[RecordUnit, ExportContents]


def seed_of(more: Any) -> int | None:
    """The value of `--shuffle-seed` with `--shuffle`, else None: the records keep their order."""
    return more["shuffle_seed"] if more["shuffle"] else None


def plan_export(
    source: RecordSource, workspace: Workspace, size: int, seed: int | None = None, *, takes_ids: bool = False
) -> ExportPlan:
    """Index the manifests, and divide their records into units of nearly the same number of records.

    Args:
        source: the manifests.
        workspace: the workspace of the run.
        size: maximum number of records per unit.
        seed: for shuffling the records; None keeps their order.
        takes_ids: whether the field `id` is used if all records have different ids.
    """
    records = source.read(workspace, ID_KEYS | ({"id": GIVEN_ID} if takes_ids else {}))

    def make(scratch: Scratch) -> Values:
        return values_of(plan_ids(records.index, source.audio_base_dir, scratch))

    units, order, ids = source.shards(records, size, seed, make)
    return records.plan(units, ExportContents(records, RecordIds(**ids), order=order))


def export_settings(source: RecordSource, plan: ExportPlan) -> dict[str, Any]:
    """The options, the folder of the audio, and whether the ids are those that the records have."""
    return source.settings | ({"ids": "the records' own"} if plan.contents.ids.given else {})
