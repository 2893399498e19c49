"""manifest-to-mels on GPUs: worker processes decode, the main process of each rank computes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from prepcli.commands.exports.job import ExportContents, ExportPlan, ExportShard
from prepcli.commands.exports.mels.clips import Samples, find_clip, read_clip
from prepcli.commands.exports.mels.job import ClipWriter, MelsJob
from prepcli.commands.exports.mels.options import MelsOptions
from prepcli.commands.exports.mels.spectrogram import MelSpectrogram
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.job import Advance
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected
from prepcli.jobs.model_job import Begin, ModelJob, UnitWork
from prepcli.jobs.prefetch import Batch, Decoded, DecodingPool
from prepcli.manifest.record import Record
from prepcli.models.devices import to_device, use_full_float32

if TYPE_CHECKING:
    from torch import Tensor

_BATCH_SECONDS = 240.0
_BATCH_CLIPS = 32
_SLACK_SECONDS = 0.05
"""A clip may be so much longer than its record says (20 ms, and rounding)."""


@dataclass(frozen=True)
class ClipDecoder:
    """Decodes the clips of records in worker processes."""

    contents: ExportContents
    options: MelsOptions

    def ahead(self, numbers: Sequence[int]) -> Iterator[int]:
        """The records in order; of audio in an object store, several files are requested at once."""
        return self.contents.records.reading_ahead(numbers)

    def decode(self, number: int) -> Samples:
        """The samples of record `number`; raises `RecordRejected` where it cannot be used."""
        record = Record.parse(self.contents.records.line(number))
        return read_clip(find_clip(self.contents, number, record, self.options), self.options)


@dataclass(frozen=True)
class _Group(UnitWork[int, "list[Tensor | RecordRejected]"]):
    """The clips of a unit: decoded in batches, computed one by one, so that no mel depends on its batch."""

    contents: ExportContents
    unit: ExportShard
    job: MelsJob
    spectrogram: MelSpectrogram
    max_samples: int

    @property
    def _numbers(self) -> list[int]:
        numbers: list[int] = self.contents.order[self.unit.lo : self.unit.hi].tolist()
        return numbers

    def batches(self) -> Iterator[Batch[int]]:
        durations = self.contents.records.index.duration
        rate = self.job.mels.sampling_rate
        items: list[int] = []
        longest = 0
        for number in self._numbers:
            length = int((float(durations[number]) + _SLACK_SECONDS) * rate) + 1
            if items and (len(items) == _BATCH_CLIPS or max(longest, length) * (len(items) + 1) > self.max_samples):
                yield Batch(tuple(items), longest)
                items, longest = [], 0
            items.append(number)
            longest = max(longest, length)
        if items:
            yield Batch(tuple(items), longest)

    def compute(self, decoded: Iterator[Decoded], device: str, advance: Advance) -> "list[Tensor | RecordRejected]":
        import torch

        durations = self.contents.records.index.duration
        found: list[Tensor | RecordRejected] = []
        for batch in self.batches():
            rows = next(decoded)
            if not rows.audio.size:
                found += [rows.rejects[row] for row in range(len(batch.items))]
            else:
                audio = to_device(torch.from_numpy(rows.audio), device)
                for row in range(len(batch.items)):
                    if row in rows.rejects:
                        found.append(rows.rejects[row])
                    else:
                        found.append(self.spectrogram(audio[row, : int(rows.lengths[row])]).cpu())
            advance(len(batch.items), float(durations[list(batch.items)].sum()))
        return found

    def write(self, computed: "list[Tensor | RecordRejected]", writer: UnitWriter) -> None:
        records = self.contents.records
        clips = ClipWriter(self.contents, self.unit, writer, self.job.mels)
        for number, mel in zip(self._numbers, computed, strict=True):
            try:
                if isinstance(mel, RecordRejected):
                    raise mel
                clip = find_clip(self.contents, number, Record.parse(records.line(number)), self.job.mels)
            except RecordRejected as rejected:
                writer.reject(records.reject_source(number), rejected, records.origin(number))
            else:
                writer.count(1, clips.write(number, clip, mel))


class MelsOnDevice(ModelJob[ExportShard, ExportContents, MelSpectrogram]):
    """The same as `MelsJob`, on the device of this rank."""

    command: ClassVar[str] = MelsJob.command

    def __init__(self, job: MelsJob, device: str) -> None:
        super().__init__(device, job.num_workers)
        self.job = job

    def plan(self, workspace: Workspace) -> ExportPlan:
        """As `MelsJob`."""
        return self.job.plan(workspace)

    def settings(self, plan: ExportPlan) -> dict[str, Any]:
        """As `MelsJob`."""
        return self.job.settings(plan)

    def output_patterns(self, plan: ExportPlan) -> Sequence[str]:
        """As `MelsJob`."""
        return self.job.output_patterns(plan)

    def input_files(self, plan: ExportPlan) -> "list[str | Path]":
        """As `MelsJob`."""
        return list(self.job.input_files(plan))

    def planned_rejects(self, plan: ExportPlan) -> Iterator[bytes]:
        """As `MelsJob`."""
        return self.job.planned_rejects(plan)

    def finish(self, plan: ExportPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """As `MelsJob`."""
        return self.job.finish(plan, markers, writer)

    def load_model(self) -> MelSpectrogram:
        """What computes mels."""
        return self.job.spectrogram

    def set_up_device(self) -> None:
        """Have PyTorch compute in full float32."""
        use_full_float32()

    @property
    def max_batch_samples(self) -> int:
        """Those of four minutes."""
        return int(_BATCH_SECONDS * self.job.mels.sampling_rate)

    def decoder(self, contents: ExportContents) -> ClipDecoder:
        """Reads the clips."""
        return ClipDecoder(contents, self.job.mels)

    def read_ahead(self, contents: ExportContents, unit: ExportShard, workers: DecodingPool[int]) -> Begin:
        """Nothing is read ahead."""
        return lambda tick: _Group(contents, unit, self.job, self.model, self.max_batch_samples)
