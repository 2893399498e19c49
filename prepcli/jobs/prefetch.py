"""Decoded batches for a model: worker processes decode and resample a few batches ahead, into shared memory."""

import mmap
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.probe import Probes
from prepcli.audio.resample import resample
from prepcli.audio.segments import CONTEXT, decode_mono, locate
from prepcli.engine.run.crashes import DECODING, ignore_crashes_of_worker, with_notes
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason
from prepcli.jobs.records import Records
from prepcli.manifest.record import Record
from prepcli.processes.notes import take_notes
from prepcli.processes.pools import WorkerPool
from prepcli.processes.workers import begin_worker, keep_freed_memory, wait_for

Samples = NDArray[np.float32]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Batch(Generic[Item]):
    """Items to decode into rows.

    Attributes:
        items: the input of a `Decoder`, for example numbers of records.
        num_samples: length of each row; shorter audio is zero-padded.
    """

    items: tuple[Item, ...]
    num_samples: int

    @property
    def num_values(self) -> int:
        """The number of samples of all rows, with padding."""
        return len(self.items) * self.num_samples


@dataclass(slots=True)
class Decoded:
    """A decoded batch.

    Attributes:
        audio: (B, T), in [-1, 1); valid until the next batch is requested. Rejected rows are zeros; T may be 0 if all
            rows are rejected.
        lengths: (B,), samples of each row that are audio.
        rejects: why rows were rejected, by the number of the row.
        keys: short names of the items. The model's process keeps them in a file while it computes the batch, so that
            after a crash these items are known (`prepcli.engine.run.crashes`). Empty: it keeps nothing.
        notes: messages of the worker, for the summary of the run.
    """

    audio: Samples
    lengths: NDArray[np.int64]
    rejects: dict[int, RecordRejected] = field(default_factory=dict)
    keys: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)


class Decoder(Protocol[Item]):
    """Decodes items in worker processes, which get the decoder when they start."""

    def ahead(self, items: Sequence[Item], /) -> Iterator[Item]:
        """Yield the items in order; if their audio is in an object store, several are requested at once."""

    def decode(self, item: Item, /) -> Samples:
        """Return the samples (n,) of one item.

        Raises:
            RecordRejected: the item cannot be used.
        """


class SegmentDecoder:
    """Decodes records for a model, to float32 samples of one channel at the model's sampling rate."""

    def __init__(self, records: Records, sampling_rate: int, min_samples: int) -> None:
        """Decode `records` at `sampling_rate` (Hz); audio below `min_samples` samples at that rate is rejected."""
        self._records = records
        self._rate = sampling_rate
        self._min_samples = min_samples
        self._probe = Probes()

    def ahead(self, records: Sequence[int]) -> Iterator[int]:
        """Yield the records in order; if their audio is in an object store, several are requested at once."""
        return self._records.reading_ahead(records)

    def decode(self, record: int) -> Samples:
        """Return the samples (n,) of a record, from the channel in its field `channel`, or else from the first.

        Raises:
            RecordRejected: the audio is missing, broken, shorter than the record says, or too short for the model.
        """
        entry = Record.of_checked(self._records.line(record))
        path = self._records.audio_path(record, entry.audio_filepath)
        info = self._probe(path)
        mono = decode_mono(locate(path, info, entry.offset, entry.duration, entry.get("channel"), CONTEXT))
        if info.sampling_rate != self._rate:
            mono = resample(mono, info.sampling_rate, self._rate)
        if len(mono) < self._min_samples:
            raise RecordRejected(
                RejectReason.BAD_DURATION,
                f"{entry.duration:g} s is too short for the model, which needs {self._min_samples / self._rate:g} s",
            )
        return mono


def decode_batch(decoder: Decoder[Item], batch: Batch[Item], audio: Samples | None = None) -> Decoded:
    """Decode the items of a batch, each into a row of an array; items that cannot be used are rejected.

    Args:
        decoder: decodes the items.
        batch: the items.
        audio: (B, T), the array to write into. Samples beyond T are dropped (at most one per row, from rounding). None:
            an array of this shape is allocated, but only after an item could be decoded: T comes from a manifest, and a
            far too long duration in it would take much memory for nothing.
    """
    num_rows = len(batch.items)
    decoded = Decoded(np.empty((num_rows, 0), np.float32) if audio is None else audio, np.zeros(num_rows, np.int64))
    decoded.audio[:] = 0
    for row, item in enumerate(decoder.ahead(batch.items)):
        try:
            samples = decoder.decode(item)[: batch.num_samples]
        except RecordRejected as rejected:
            decoded.rejects[row] = rejected
        else:
            if not decoded.audio.size:
                decoded.audio = np.zeros((num_rows, batch.num_samples), np.float32)
            decoded.audio[row, : len(samples)] = samples
            decoded.lengths[row] = len(samples)
    return decoded


class _Worker:
    """State of a worker process, set once by `_start_worker`."""

    decoder: Decoder[Any]
    slots: Sequence[mmap.mmap]
    workspace: Workspace


def _start_worker(decoder: Decoder[Any], slots: Sequence[mmap.mmap], workspace: Workspace) -> None:
    begin_worker()
    ignore_crashes_of_worker()
    keep_freed_memory()
    _Worker.decoder, _Worker.slots, _Worker.workspace = decoder, slots, workspace


def _decode(batch: Batch[Any], slot: int | None) -> Decoded:
    audio = None if slot is None else _view(_Worker.slots[slot], batch)
    with with_notes(_Worker.workspace, DECODING):
        decoded = decode_batch(_Worker.decoder, batch, audio)
    decoded.notes = take_notes()
    if slot is None:
        return decoded
    decoded.audio = np.empty((0, 0), np.float32)  # the audio is in the shared slot and is not sent
    return decoded


def _call(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function. If a worker has crashed before, note in the workspace which audio the function decodes."""
    with with_notes(_Worker.workspace, DECODING):
        return function(*arguments)


def _view(slot: mmap.mmap, batch: Batch[Any]) -> Samples:
    return np.frombuffer(slot, np.float32, batch.num_values).reshape(len(batch.items), batch.num_samples)


class DecodingPool(WorkerPool, Generic[Item]):
    """Worker processes that decode batches ahead of a model, and read other files for it.

    A batch of up to `max_samples` samples comes back through shared memory, a larger one through a pipe. The shared
    memory has room for two batches per worker and two more batches; it is allocated before the processes start. After a
    crash, workers write into `workspace` which audio they decode (see `prepcli.engine.run.crashes`).

    Raises:
        WorkerDiedError: at the end of the `with` block, if a worker was killed or has crashed.
    """

    def __init__(
        self,
        decoder: Decoder[Item],
        max_samples: int,
        num_workers: int,
        workspace: Workspace,
    ) -> None:
        self._num_slots = 2 * num_workers + 2
        self._max_samples = max_samples
        self._slots = [mmap.mmap(-1, 4 * max_samples) for _ in range(self._num_slots)]
        super().__init__(num_workers, _start_worker, (decoder, self._slots, workspace))

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Call a module-level function in a worker, and return the future of its result."""
        return super().submit(_call, function, *arguments)

    def decoded(self, batches: Iterator[Batch[Item]], tick: Callable[[], None]) -> Iterator[Decoded]:
        """Decode `batches` and yield them in order, a few ahead; `tick` is called while waiting."""
        free: deque[int] = deque(range(self._num_slots))
        waiting: deque[tuple[Batch[Item], int, bool, Future[Decoded]]] = deque()
        while True:
            for batch in islice(batches, len(free)):
                slot = free.popleft()
                fits = batch.num_values <= self._max_samples
                waiting.append((batch, slot, fits, super().submit(_decode, batch, slot if fits else None)))
            if not waiting:
                return
            batch, slot, fits, future = waiting.popleft()
            decoded = wait_for(future, tick)
            if fits:
                decoded.audio = _view(self._slots[slot], batch)
            yield decoded
            free.append(slot)

    def __enter__(self) -> "DecodingPool[Item]":
        return self
