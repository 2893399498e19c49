"""A speaker model on a device, and the work for a unit: its utterances are embedded batch by batch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from prepcli.engine.run.unit import Advance
from prepcli.engine.state.plan import Plan
from prepcli.errors import RecordRejected, RejectReason
from prepcli.jobs.model_job import OnDevice, Take, UnitWork
from prepcli.jobs.prefetch import Batch, Decoded, SegmentDecoder
from prepcli.jobs.record_job import ContentsT, RecordUnit
from prepcli.jobs.records import Records
from prepcli.models.batches import equal_length_batches
from prepcli.models.devices import to_device
from prepcli.models.protocols import SpeakerEncoder
from prepcli.models.running import ModelRunner, Result
from prepcli.models.speakers import load_speaker_encoder
from prepcli.planning.split import Indices

if TYPE_CHECKING:
    from torch import Tensor

Computed = TypeVar("Computed")

COMPUTED, PADDED, BATCHES = "computed_seconds", "padded_seconds", "batches"
"""Keys of the counts of a unit: seconds of audio with padding, seconds of padding, batches."""


class SpeakerOnDevice(OnDevice[RecordUnit, ContentsT, SpeakerEncoder]):
    """A speaker model on a device."""

    def __init__(self, device: str, speaker_model: str, batch_duration: float) -> None:
        """`speaker_model`: the name of the model, or its file. `batch_duration`: maximum seconds of a batch."""
        super().__init__(device)
        self._speaker_model, self._batch_duration = speaker_model, batch_duration

    def load(self, plan: Plan[RecordUnit, ContentsT]) -> SpeakerEncoder:
        """Load the speaker model."""
        return load_speaker_encoder(self._speaker_model)

    @property
    def max_batch_samples(self) -> int:
        """The number of samples of the batch duration."""
        return int(self._batch_duration * self.model.sampling_rate)

    def decoder(self, contents: ContentsT) -> SegmentDecoder:
        """Return the decoder of the records' audio."""
        return SegmentDecoder(contents.records, self.model.sampling_rate, self.model.min_samples)


class EmbeddingWork(UnitWork[int, Computed]):
    """Computes the embeddings of records; a subclass makes the results of a unit from them.

    Attributes:
        numbers: the numbers of the records.
        durations: the seconds of each record.
        rejects: why records have no embedding, by their positions in `numbers`; complete after `embedded`.
        extra: counts under the keys `COMPUTED`, `PADDED` and `BATCHES`.
    """

    def __init__(
        self,
        numbers: Indices,
        records: Records,
        encoder: SpeakerEncoder,
        max_samples: int,
        is_known: NDArray[np.bool_] | None = None,
    ) -> None:
        """Divide the records into batches.

        Args:
            numbers: the numbers of the records, ascending.
            records: all records of the job.
            encoder: the model.
            max_samples: maximum number of samples per batch.
            is_known: for each of `numbers`, whether `known` has the embedding, so that the record is not decoded; None:
                `known` has none.
        """
        self.numbers = numbers
        self.durations: NDArray[np.float64] = records.index.duration[numbers]
        self.rejects: dict[int, RecordRejected] = {}
        self.extra = dict.fromkeys((COMPUTED, PADDED, BATCHES), 0.0)
        self._records = records
        self._encoder = encoder
        num_samples = np.rint(self.durations * encoder.sampling_rate).astype(np.int64)
        lengths = encoder.padded_lengths(np.maximum(num_samples, encoder.min_samples))
        self._lengths = lengths
        self._is_known = np.zeros(len(numbers), bool) if is_known is None else is_known
        missing = np.flatnonzero(~self._is_known)
        self._batches = [missing[batch] for batch in equal_length_batches(lengths[missing], max_samples)]
        self._embeddings: Tensor

    def known(self) -> NDArray[np.float32]:
        """An array (N, dim) with the embeddings that are known before the model runs; all others are NaN.

        By default none is known.
        """
        return np.full((len(self.numbers), self._encoder.dim), np.nan, np.float32)

    def batches(self) -> Iterator[Batch[int]]:
        """The batches to decode."""
        for batch in self._batches:
            yield Batch(tuple(self.numbers[batch].tolist()), int(self._lengths[batch[0]]))

    def begin(self, device: str, advance: Advance) -> None:
        """Load the known embeddings to the device, and count their records as done."""
        import torch

        is_known = self._is_known
        self._embeddings = torch.from_numpy(self.known()).to(device)
        advance(int(is_known.sum()), float(self.durations[is_known].sum()))

    def start(self, number: int, decoded: Decoded, runner: ModelRunner, advance: Advance) -> Take:
        """Start the encoder on a batch; returns the function that waits for the embeddings and stores them."""
        import torch

        batch, encoder, device = self._batches[number], self._encoder, runner.device
        self.rejects |= {int(batch[row]): rejected for row, rejected in decoded.rejects.items()}
        computed = decoded.audio.size / encoder.sampling_rate
        self.extra[COMPUTED] += computed
        self.extra[PADDED] += computed - float(decoded.lengths.sum()) / encoder.sampling_rate
        self.extra[BATCHES] += 1

        def move(audio: "Tensor", lengths: "Tensor") -> "tuple[Tensor, Tensor]":
            return to_device(audio, device), to_device(lengths, device)

        running = None
        if decoded.audio.size:
            audio = torch.from_numpy(decoded.audio)
            lengths = torch.from_numpy(np.maximum(decoded.lengths, encoder.min_samples))
            running = runner.run(encoder.embed, audio, lengths, keys=decoded.keys, prepare=move)

        def take() -> None:
            if running is not None:
                self._take(batch, running.result(), device)
            advance(len(batch), float(self.durations[batch].sum()))

        return take

    def _take(self, batch: Indices, result: Result, device: str) -> None:
        """Keep the embeddings of a batch that `device` has computed; reject records that did not fit into memory."""
        import torch

        for position in batch[result.too_large].tolist():
            self.rejects.setdefault(position, self._too_large(position, device))
        if result.tensors:
            fitting = torch.from_numpy(batch[result.fitting(len(batch))])
            self._embeddings[to_device(fitting, device)] = result.tensors[0]

    def embedded(self) -> "Tensor":
        """Return the embeddings (N, dim), on the device; records without an embedding are rejected, and have NaN."""
        import torch

        without = (~torch.isfinite(self._embeddings).all(1)).cpu().numpy()
        for position in np.flatnonzero(without).tolist():
            detail = "the speaker model has no embedding for it: is it silent?"
            self.rejects.setdefault(position, RecordRejected(RejectReason.UNREADABLE_AUDIO, detail))
        return self._embeddings

    def is_readable(self) -> NDArray[np.bool_]:
        """An array (N,): whether each record has an embedding. Call `embedded` first, which rejects more records."""
        readable = np.ones(len(self.numbers), bool)
        readable[list(self.rejects)] = False
        return readable

    def _too_large(self, position: int, device: str) -> RecordRejected:
        entry = self._records.record(int(self.numbers[position]))
        return RecordRejected(
            RejectReason.OUT_OF_MEMORY,
            f"the speaker model has not enough memory on {device} for the {entry.duration:g} s of "
            f"{entry.audio_filepath}, even alone (no --batch-duration helps); take a device with more memory, "
            "and --retry-rejects",
        )
