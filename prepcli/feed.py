"""Decoded batches for a model: worker processes decode and resample a few batches ahead, into shared memory."""

import mmap
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.context import BaseContext

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.encode import to_float32
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe_file
from prepcli.audio.read import read_segment, segment_samples, select_channel
from prepcli.audio.resample import resample
from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest.record import Record
from prepcli.processes import WorkerPool, begin_worker
from prepcli.records import Records

Samples = NDArray[np.float32]

TICK = 0.25
"""Seconds between two looks at the progress while a batch is waited for."""
_KEPT_INFOS = 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """Records to decode into rows of `num_samples`, and to be zero-padded to it."""

    records: tuple[int, ...]
    num_samples: int

    @property
    def num_values(self) -> int:
        """Samples of all rows."""
        return len(self.records) * self.num_samples


@dataclass(slots=True)
class Decoded:
    """Rows (B, T) of audio in [-1, 1) and how many samples of each are audio; rejected rows hold zeros only.

    `audio` is valid until the next batch is asked for.
    """

    audio: Samples
    lengths: NDArray[np.int64]
    rejects: dict[int, RecordRejected] = field(default_factory=dict)


class SegmentDecoder:
    """The samples of records as a model wants them: float32, one channel, at its sampling rate."""

    def __init__(self, records: Records, sampling_rate: int, min_samples: int) -> None:
        """`sampling_rate` in Hz; less than `min_samples` samples at that rate are rejected."""
        self._records = records
        self._rate = sampling_rate
        self._min_samples = min_samples
        self._infos: dict[str, AudioInfo] = {}

    def decode(self, record: int) -> Samples:
        """The samples (n,) of a record: of several channels the one its `channel` names, or else the first.

        Raises:
            RecordRejected: the audio is missing, broken, shorter than the record says, or too short for the model.
        """
        entry = Record.parse(self._records.line(record))
        path = self._records.audio_path(record, entry.audio_filepath)
        info = self._info(path)
        start, num_samples = segment_samples(info, entry.offset, entry.duration)
        samples = read_segment(path, info, start, num_samples)
        if info.num_channels > 1:
            channel = entry.get("channel") or 0
            if type(channel) is not int:
                raise RecordRejected(RejectReason.BAD_FIELD, f"channel is {channel!r}; it must be a number from 0")
            samples = select_channel(samples, channel)
        mono = to_float32(samples[:, 0])
        if info.sampling_rate != self._rate:
            mono = resample(mono, info.sampling_rate, self._rate)
        if len(mono) < self._min_samples:
            raise RecordRejected(
                RejectReason.BAD_DURATION,
                f"{entry.duration:g} s is too short for the model, which needs {self._min_samples / self._rate:g} s",
            )
        return mono

    def _info(self, path: str) -> AudioInfo:
        info = self._infos.get(path)
        if info is None:
            if len(self._infos) >= _KEPT_INFOS:
                self._infos.clear()
            info = self._infos[path] = probe_file(path)
        return info

    def fill(self, batch: Batch, audio: Samples) -> Decoded:
        """Decode a batch into `audio` (B, T); a row's samples beyond T, one at most by rounding, are left out."""
        decoded = Decoded(audio, np.zeros(len(batch.records), np.int64))
        for row, record in enumerate(batch.records):
            audio[row] = 0
            try:
                samples = self.decode(record)[: batch.num_samples]
            except RecordRejected as rejected:
                decoded.rejects[row] = rejected
            else:
                audio[row, : len(samples)] = samples
                decoded.lengths[row] = len(samples)
        return decoded


class _Worker:
    """What a worker process holds; set once by `_start_worker`."""

    decoder: SegmentDecoder
    slots: Sequence[mmap.mmap]


def _start_worker(decoder: SegmentDecoder, slots: Sequence[mmap.mmap]) -> None:
    begin_worker()
    _Worker.decoder, _Worker.slots = decoder, slots


def _decode(batch: Batch, slot: int | None) -> Decoded:
    if slot is None:
        return _Worker.decoder.fill(batch, np.empty((len(batch.records), batch.num_samples), np.float32))
    decoded = _Worker.decoder.fill(batch, _view(_Worker.slots[slot], batch))
    decoded.audio = np.empty((0, 0), np.float32)  # it is in the slot: nothing to send
    return decoded


def _view(slot: mmap.mmap, batch: Batch) -> Samples:
    return np.frombuffer(slot, np.float32, batch.num_values).reshape(len(batch.records), batch.num_samples)


def decoded_batches(
    decoder: SegmentDecoder,
    batches: Iterator[Batch],
    most_samples: int,
    num_workers: int,
    context: BaseContext,
    tick: Callable[[], None],
) -> Iterator[Decoded]:
    """Decode `batches` in worker processes and yield them in order; a few wait ready, no more.

    Batches of up to `most_samples` samples come through shared memory, which is made before the processes are (it
    needs `fork`); longer ones are sent. Memory: two such batches for each worker, and two more.

    Raises:
        IncompleteError: a worker was killed.
    """
    num_slots = 2 * num_workers + 2
    shared = context.get_start_method() == "fork"
    slots = [mmap.mmap(-1, 4 * most_samples) for _ in range(num_slots)] if shared else []
    free: deque[int] = deque(range(num_slots))
    waiting: deque[tuple[Batch, int, Future[Decoded]]] = deque()
    with WorkerPool(num_workers, context, _start_worker, (decoder, slots)) as pool:
        while True:
            for batch in islice(batches, len(free)):
                slot = free.popleft()
                fits = shared and batch.num_values <= most_samples
                waiting.append((batch, slot, pool.submit(_decode, batch, slot if fits else None)))
            if not waiting:
                return
            batch, slot, future = waiting.popleft()
            while not pool.wait([future], TICK):
                tick()
            decoded = future.result()
            if not decoded.audio.size and batch.num_values:
                decoded.audio = _view(slots[slot], batch)
            yield decoded
            free.append(slot)
