"""Computes the mels of `manifest-to-mels` on a device: its workers decode the clips, the main process computes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prepcli.commands.exports.mels.clips import ClipRules, ClipWriter, Samples, find_clip, read_clip
from prepcli.commands.exports.mels.spectrogram import MelSpectrogram
from prepcli.commands.exports.records import ExportContents
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.run.unit import Advance
from prepcli.engine.state.plan import Plan
from prepcli.errors import RecordRejected, RejectReason
from prepcli.jobs.model_job import Begin, OnDevice, Take, UnitWork
from prepcli.jobs.prefetch import Batch, Decoded, DecodingPool
from prepcli.jobs.record_job import RecordUnit, each_record
from prepcli.models.devices import to_device
from prepcli.models.running import ModelRunner, Result

if TYPE_CHECKING:
    from torch import Tensor

_BATCH_SECONDS = 240.0
_BATCH_CLIPS = 32
_SLACK_SECONDS = 0.05
"""Seconds added to a record's duration when batches are planned: clips may be up to 20 ms longer, plus rounding."""


@dataclass(frozen=True)
class ClipDecoder:
    """Decodes the clips of records: their audio as the mels need it. Worker processes call its methods."""

    contents: ExportContents
    rules: ClipRules

    def ahead(self, numbers: Sequence[int]) -> Iterator[int]:
        """Yield `numbers` in order; audio in an object store is requested for several records at once."""
        return self.contents.records.reading_ahead(numbers)

    def decode(self, number: int) -> Samples:
        """The samples of record `number`; raises `RecordRejected` if it cannot be used."""
        record = self.contents.records.record(number)
        clip = find_clip(self.contents, number, record, self.rules)
        return read_clip(clip, self.rules.form.sampling_rate)


class _Clips(UnitWork[int, "dict[int, Tensor | RecordRejected]"]):
    """The clips of a unit, in batches."""

    def __init__(self, on_device: "MelsOnDevice", contents: ExportContents, unit: RecordUnit) -> None:
        self._contents, self._unit, self._rules = contents, unit, on_device.rules
        self._spectrogram, self._max_samples = on_device.model, on_device.max_batch_samples
        self._durations = contents.records.index.duration
        self._batches = list(self._plan_batches())
        self._mels: dict[int, Tensor | RecordRejected] = {}

    def _plan_batches(self) -> Iterator[Batch[int]]:
        rate = self._rules.form.sampling_rate
        items: list[int] = []
        longest = 0
        for number in self._contents.numbers(self._unit):
            length = int((float(self._durations[number]) + _SLACK_SECONDS) * rate) + 1
            if items and (len(items) == _BATCH_CLIPS or max(longest, length) * (len(items) + 1) > self._max_samples):
                yield Batch(tuple(items), longest)
                items, longest = [], 0
            items.append(number)
            longest = max(longest, length)
        if items:
            yield Batch(tuple(items), longest)

    def batches(self) -> Iterator[Batch[int]]:
        """The batches to decode."""
        yield from self._batches

    def start(self, number: int, decoded: Decoded, runner: ModelRunner, advance: Advance) -> Take:
        """Start to compute the mels of batch `number` on the device; returns the function that waits for them."""
        import torch

        items = self._batches[number].items
        self._mels |= {items[row]: rejected for row, rejected in decoded.rejects.items()}
        rows = [row for row in range(len(items)) if row not in decoded.rejects]
        lengths = torch.from_numpy(decoded.lengths)[rows]
        running = None
        if rows:
            move = partial(_to_device, runner.device)
            audio = torch.from_numpy(decoded.audio)[rows]
            running = runner.run(self._spectrogram.of_batch, audio, lengths, prepare=move)

        def take() -> None:
            if running is not None:
                self._take([items[row] for row in rows], lengths, running.result())
            advance(len(items), float(self._durations[list(items)].sum()))

        return take

    def _take(self, numbers: Sequence[int], lengths: "Tensor", result: Result) -> None:
        for row in result.too_large:
            self._mels[numbers[row]] = RecordRejected(
                RejectReason.OUT_OF_MEMORY, "the device has not enough memory for its mel: give --devices cpu"
            )
        if result.tensors:
            for mel, row in zip(result.tensors[0], result.fitting(len(numbers)), strict=True):
                frames = 1 + int(lengths[row]) // self._rules.form.hop_length
                self._mels[numbers[row]] = mel[:, :frames].clone()

    def finish(self, advance: Advance) -> "dict[int, Tensor | RecordRejected]":
        """Return the mel of each clip by the number of its record; a rejected record has its error instead."""
        return self._mels

    def write(self, computed: "dict[int, Tensor | RecordRejected]", writer: UnitWriter) -> None:
        """Write the mels, in the order of the records."""
        contents, rules = self._contents, self._rules
        clips = ClipWriter(contents, writer, rules)

        def write(number: int) -> float:
            mel = computed[number]
            if isinstance(mel, RecordRejected):
                raise mel
            return clips.write(number, find_clip(contents, number, contents.records.record(number), rules), mel)

        each_record(contents.records, contents.numbers(self._unit), write, writer)


def _to_device(device: str, *tensors: "Tensor") -> "tuple[Tensor, ...]":
    return tuple(to_device(tensor, device) for tensor in tensors)


class MelsOnDevice(OnDevice[RecordUnit, ExportContents, MelSpectrogram]):
    """The spectrogram on a device."""

    def __init__(self, device: str, rules: ClipRules, spectrogram: Callable[[], MelSpectrogram]) -> None:
        """`spectrogram` makes the object that computes mels."""
        super().__init__(device)
        self.rules, self._spectrogram = rules, spectrogram

    def load(self, plan: Plan[RecordUnit, ExportContents]) -> MelSpectrogram:
        """The object that computes mels."""
        return self._spectrogram()

    @property
    def max_batch_samples(self) -> int:
        """Maximum number of samples of a batch of several clips, padding included: four minutes of audio."""
        return int(_BATCH_SECONDS * self.rules.form.sampling_rate)

    def decoder(self, contents: ExportContents) -> ClipDecoder:
        """Return the decoder of the clips."""
        return ClipDecoder(contents, self.rules)

    def read_ahead(self, contents: ExportContents, unit: RecordUnit, workers: DecodingPool[int]) -> Begin:
        """Return the function that begins the unit. No audio is read before that function is called."""
        return lambda tick: _Clips(self, contents, unit)
