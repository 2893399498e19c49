"""Encodes one unit of shards: divides the segments into batches, runs the codec, and writes tars of codes."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.extend_codec_codes.content import record_audio
from prepcli.commands.extend_codec_codes.file_segments import UsedSegment
from prepcli.commands.extend_codec_codes.plan import InputShard
from prepcli.commands.extend_codec_codes.shard_index import Found, ShardIndex
from prepcli.commands.extend_codec_codes.unusual_segments import counts_of
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.run.unit import Advance
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.audio_states import States
from prepcli.formats.codes import CODES_NAME, CODES_OF, CodesWriter, codes_type
from prepcli.formats.indexes import index_name
from prepcli.formats.shar import TARGET, shard_text
from prepcli.jobs.model_job import Take, UnitWork
from prepcli.jobs.prefetch import Batch, Decoded
from prepcli.manifest.shar_cuts import cut_lines
from prepcli.models.batches import equal_length_batches, full_batches
from prepcli.models.devices import to_device, use_full_float32
from prepcli.models.protocols import Codec, Precision
from prepcli.models.running import ModelRunner, Result, Running
from prepcli.models.sinc import can_resample, resample_sinc, resampled_length
from prepcli.models.widths import MAX_VALUES
from prepcli.models.windows import encode_in_windows, reach_of
from prepcli.storage.paths import AnyPath, relative

if TYPE_CHECKING:
    from torch import Tensor

    from prepcli.commands.extend_codec_codes.on_device import CodecOnDevice
    from prepcli.manifest.parts import Ints


@dataclass(frozen=True, slots=True)
class BatchShape:
    """The shape of a batch on the device, and the properties of the rows that are copied to it.

    Attributes:
        sampling_rate: rate of the decoded rows (Hz); the codec's own if they need no resampling.
        num_frames: length of the batch in frames; shorter rows are zero-padded.
        num_rows: number of rows of the whole batch; missing rows are filled with silence. Few different shapes are
            used, because a GPU needs 25 to 100 ms to prepare for a new one.
        num_given: number of rows with audio. Silent rows are added only if it is more than 1, and not to the parts of a
            batch that is divided because it does not fit into memory.
        mixes_lengths: whether the rows may have different lengths.
        peak: the level of the largest sample of each row after scaling; 0: rows are not scaled.
    """

    sampling_rate: int
    num_frames: int
    num_rows: int
    num_given: int
    mixes_lengths: bool
    peak: float = 0.0


_SILENCE = 1e-7
"""Added to the largest sample of a row before scaling, as in OmniVoice's programs, so that silence stays silent."""


def move_rows(
    codec: Codec, shape: BatchShape, device: str, rows: "Tensor", lengths: "Tensor", frames: "Tensor"
) -> "tuple[Tensor, Tensor, Tensor]":
    """Copy some rows of a batch to the device, at the codec's sampling rate and in the shape of the whole batch.

    Args:
        codec: the codec, on `device`.
        shape: the shape of the whole batch.
        device: "cpu" or "cuda:N".
        rows: (B, T), on the CPU.
        lengths: (B,), samples of each row that are audio; 0 for a row that could not be decoded. It is encoded as
            silence, and its codes are dropped.
        frames: (B,), frames of each row.

    Returns:
        The arguments of `encode_rows`.
    """
    import torch

    use_full_float32()  # an earlier batch may have set TF32, which would round the products of the resampling filter
    step = codec.samples_per_frame
    audio = to_device(rows, device)
    if shape.sampling_rate != codec.sampling_rate:
        audio = resample_sinc(audio, shape.sampling_rate, codec.sampling_rate)
        lengths = resampled_length(lengths, shape.sampling_rate, codec.sampling_rate)
        # The filter writes beyond the end of rows that are shorter than others in the batch.
        within = torch.arange(audio.shape[1], device=audio.device) < to_device(lengths, device)[:, None]
        audio = audio * within
    if shape.peak:
        audio = audio / (audio.abs().amax(1, keepdim=True) + _SILENCE) * shape.peak
    # A single row that does not fit cannot be divided further, so no silent rows are added to it.
    more = shape.num_rows - len(rows) if len(rows) == shape.num_given > 1 else 0
    audio = torch.nn.functional.pad(audio, (0, shape.num_frames * step - audio.shape[1], 0, more))
    lengths = torch.maximum(lengths, (frames - 1) * step + 1)
    lengths = torch.nn.functional.pad(lengths, (0, more), value=audio.shape[1])
    return audio, lengths if shape.mixes_lengths else to_device(lengths, device), frames


def encode_rows(
    codec: Codec, precision: Precision, max_frames: int, audio: "Tensor", lengths: "Tensor", frames: "Tensor"
) -> "tuple[Tensor, Tensor]":
    """Encode B rows of audio, and drop the silent rows that `move_rows` may have added after them.

    Args:
        codec: the codec, on the device of the audio.
        precision: the precision of the codec's computation.
        max_frames: a row with more frames, if it is the only one, is encoded in windows.
        audio: (B or more, T), on the device; see `move_rows`.
        lengths: (B or more,), samples of each row.
        frames: (B,), frames of each row, without the silent rows.

    Returns:
        The codes (B, C, F), with C codebooks, and the number of frames (B,) of each row.
    """
    if len(frames) == 1 and (num_frames := int(frames[0])) > max_frames:
        return encode_in_windows(codec, precision, audio, num_frames, max_frames), frames
    codes, counts = codec.encode(audio, lengths, precision)
    return codes[: len(frames)], counts[: len(frames)]


ENCODED, USED, BATCHES, COMPARED, DIFFERENT = "encoded_seconds", "used_seconds", "batches", "compared", "different"
"""Keys of the counts of a unit: seconds encoded, seconds of all targets and contexts, batches; codes compared with
those of full float32, and the number of different codes."""
IN_CODEC = "codec_seconds"
"""Key of the seconds that a unit spent in the codec."""

COMPARE_EVERY, ROWS_COMPARED = 32, 4
"""With a faster precision than fp32, `ROWS_COMPARED` rows of every `COMPARE_EVERY`-th batch are also encoded in full
float32, to measure the difference."""

Codes = NDArray[np.integer[Any]]


class UnitEncoder(UnitWork[Any, "list[Codes | RecordRejected]"]):
    """Encodes the segments of a unit; `finish` returns the codes of each segment, or the reason why it has none."""

    def __init__(
        self,
        shards: Sequence[InputShard],
        indices: Sequence[ShardIndex],
        on_device: "CodecOnDevice[Any, Any]",
        folder: AnyPath,
    ) -> None:
        """`folder` is the folder of the Shar set; for records, it is not used, and `shards` is empty."""
        self.shards = shards
        self.indices = indices
        self._codec, self._settings = on_device.model, on_device.codec
        self._folder = folder
        self._on_gpu, self._mixes_lengths = on_device.is_on_gpu, on_device.mixes_lengths
        self._members: list[UsedSegment] = []
        self._in_windows = self._mixes_lengths and reach_of(self._codec) is not None
        self._number: dict[tuple[bytes, int], int] = {}
        self._records: list[int] = []
        self._seconds: list[float] = []
        self.extra: dict[str, float] = dict.fromkeys((ENCODED, USED, BATCHES, COMPARED, DIFFERENT, IN_CODEC), 0)
        self.lost_records, self.lost_seconds = 0, 0.0
        for index in indices:
            for name, segments in index.fields.items():
                for seconds, segment in zip(index.seconds, segments, strict=True):
                    self._add(segment, seconds if name == TARGET else None)
        self._num_frames = self._count_frames()
        self._unusable = dict(self._find_unusable())
        self._batches = list(self._plan_batches())
        missing = RecordRejected(RejectReason.UNREADABLE_AUDIO, "not encoded")
        self._found: list[Codes | RecordRejected] = [
            self._unusable.get(number, missing) for number in range(len(self._members))
        ]

    def _add(self, segment: Found, seconds: float | None) -> None:
        """Add the audio in one field of a cut or record to the segments to encode and to the counts.

        A target without a usable segment counts as a lost record.

        Args:
            segment: the segment, or the reason why it is unusable. None: there is no audio.
            seconds: the duration of the cut or record if the field is the target. None: another field.
        """
        if segment is None or isinstance(segment, RecordRejected):
            if seconds is not None:
                self.lost_records += 1
                self.lost_seconds += seconds
            return
        number = self._number.setdefault((segment.digest, segment.num_samples), len(self._members))
        if number == len(self._members):
            self._members.append(segment)
            self._records.append(0)
            self._seconds.append(0.0)
        self.extra[USED] += segment.num_samples / segment.sampling_rate
        for name in counts_of(segment.segment, self._codec.sampling_rate):
            self.extra[name] = self.extra.get(name, 0) + 1
        if seconds is not None:
            self._records[number] += 1
            self._seconds[number] += seconds

    def _count_frames(self) -> "Ints":
        codec = self._codec
        samples = [
            resampled_length(member.num_samples, member.sampling_rate, codec.sampling_rate) for member in self._members
        ]
        frames: Ints = -(-np.array(samples, np.int64) // codec.samples_per_frame)
        return frames

    @property
    def _max_samples(self) -> int:
        """Maximum number of samples of a batch, at the codec's rate.

        On a GPU, it keeps the output of each layer of the codec within `MAX_VALUES` values. On a CPU, it is not limited
        (`sys.maxsize`).
        """
        return int(MAX_VALUES / self._codec.values_per_sample) if self._on_gpu else sys.maxsize

    @property
    def _max_frames(self) -> int:
        """The maximum number of frames in a batch."""
        rate, step = self._codec.sampling_rate, self._codec.samples_per_frame
        return min(int(self._settings.batch_duration * rate), self._max_samples) // step

    def _find_unusable(self) -> Iterator[tuple[int, RecordRejected]]:
        """Yield (number, reason) for each segment whose length or sampling rate the codec cannot take."""
        codec = self._codec
        max_frames = sys.maxsize if self._in_windows else self._max_samples // codec.samples_per_frame
        for number in np.flatnonzero(self._num_frames > max_frames).tolist():
            seconds = self._members[number].segment.duration
            yield (
                number,
                RecordRejected(
                    RejectReason.OUT_OF_MEMORY,
                    f"{seconds:g} s are too long for a layer of the codec on a GPU, which can compute "
                    f"{self._max_samples / codec.sampling_rate:.0f} s at once: continue with --devices cpu "
                    "--retry-rejects, or cut the record in two",
                ),
            )
        short = RecordRejected(
            RejectReason.BAD_DURATION,
            f"too short for the codec, which needs {codec.min_frames} frames of "
            f"{codec.samples_per_frame / codec.sampling_rate:g} s",
        )
        for number in np.flatnonzero(self._num_frames < codec.min_frames).tolist():
            yield number, short
        for number, member in enumerate(self._members):
            if not can_resample(member.sampling_rate, codec.sampling_rate):
                yield (
                    number,
                    RecordRejected(
                        RejectReason.UNREADABLE_AUDIO,
                        f"its sampling rate of {member.sampling_rate} Hz has no small ratio to the codec's "
                        f"{codec.sampling_rate} Hz: make the Shar set again with --target-sample-rate",
                    ),
                )

    def _plan_batches(self) -> "Iterator[tuple[Ints, BatchShape]]":
        """Yield the numbers of the segments, and the shape, of each batch.

        The segments of a batch have one sampling rate. They also have one number of frames, unless the codec can encode
        rows of different lengths together.
        """
        codec = self._codec
        peak = self._settings.peak or 0.0
        rates = np.array([member.sampling_rate for member in self._members], np.int64)
        is_usable = np.array([self._is_encoded_here(member) for member in self._members], bool)
        is_usable[list(self._unusable)] = False
        for rate in np.unique(rates).tolist():
            own = np.flatnonzero((rates == rate) & is_usable)
            frames = self._num_frames[own]
            if self._mixes_lengths:
                batches = full_batches(frames, self._max_frames)
            else:
                equal = equal_length_batches(frames, self._max_frames)
                batches = [(batch, len(batch), int(frames[batch[0]])) for batch in equal]
            decoded_rate = rate if self._on_gpu else codec.sampling_rate
            for batch, num_rows, num_frames in batches:
                shape = BatchShape(decoded_rate, num_frames, num_rows, len(batch), self._mixes_lengths, peak)
                yield own[batch], shape

    def _is_encoded_here(self, member: UsedSegment) -> bool:
        """Whether this unit encodes the segment; in a subclass, another unit may."""
        return True

    def batches(self) -> Iterator[Batch[Any]]:
        """The batches to decode."""
        for batch, shape in self._batches:
            members = tuple(self._members[number] for number in batch.tolist())
            if shape.sampling_rate != self._codec.sampling_rate:
                yield Batch(members, max(member.num_samples for member in members))
            else:
                yield Batch(members, int(self._num_frames[batch].max()) * self._codec.samples_per_frame)

    def begin(self, device: str, advance: Advance) -> None:
        """Advance the progress by the records whose audio is not decoded, because it is unusable."""
        advance(self.lost_records, self.lost_seconds)
        for number in self._unusable:
            advance(self._records[number], self._seconds[number])

    def start(self, number: int, decoded: Decoded, runner: ModelRunner, advance: Advance) -> Take:
        """Start the codec on a batch and, with a faster precision, on a few rows of it in full float32."""
        begun = time.monotonic()
        batch, shape = self._batches[number]
        tensors, precision = self._tensors(batch, decoded), self._settings.precision
        codes = self._run(runner, precision, shape, decoded.keys, tensors)
        exact = None
        if precision != "fp32" and number % COMPARE_EVERY == 0:
            count = min(len(batch), ROWS_COMPARED)
            some = replace(shape, num_rows=count, num_given=count)
            exact = self._run(runner, "fp32", some, decoded.keys[:count], [tensor[:count] for tensor in tensors])
        self.extra[IN_CODEC] += time.monotonic() - begun

        def take() -> None:
            begun = time.monotonic()
            self._take(batch, decoded.rejects, codes, exact, runner.device)
            self.extra[IN_CODEC] += time.monotonic() - begun
            numbers = batch.tolist()
            advance(sum(self._records[n] for n in numbers), sum(self._seconds[n] for n in numbers))

        return take

    def _run(
        self,
        runner: ModelRunner,
        precision: Precision,
        shape: BatchShape,
        keys: Sequence[str],
        rows: "Sequence[Tensor]",
    ) -> Running:
        move = partial(move_rows, self._codec, shape, runner.device)
        encode = partial(
            encode_rows, self._codec, precision, max(1, self._max_frames) if self._in_windows else sys.maxsize
        )
        return runner.run(encode, *rows, keys=keys, prepare=move)

    def finish(self, advance: Advance) -> list[Codes | RecordRejected]:
        """Return the codes of each segment, or the reason why it has none."""
        return self._found

    def _tensors(self, batch: "Ints", decoded: Decoded) -> "tuple[Tensor, Tensor, Tensor]":
        """The decoded rows (B, T), with the number of samples (B,) and of frames (B,) of each row."""
        import torch

        rows = decoded.audio if decoded.audio.size else np.zeros((len(batch), 1), np.float32)  # all rows were rejected
        frames = torch.from_numpy(self._num_frames[batch])
        return torch.from_numpy(rows), torch.from_numpy(decoded.lengths), frames

    def _take(
        self,
        batch: "Ints",
        rejects: Mapping[int, RecordRejected],
        encoded: Running,
        exact: Running | None,
        device: str,
    ) -> None:
        """Wait until the codec has encoded a batch, and keep the codes or the reason of each row.

        No other function waits for the GPU. `batch` has the numbers of the segments, `rejects` the reasons of rows that
        could not be decoded. `exact` encodes some rows in full float32, for comparison; None: nothing is compared.
        """
        result, outcomes = encoded.result(), self._found
        compared = exact.result() if exact is not None else None
        if compared is not None and not result.too_large and not compared.too_large:
            self._compare(result, compared)
        numbers = batch.tolist()
        for row in result.too_large:
            outcomes[numbers[row]] = rejects.get(row) or self._too_large(numbers[row], device)
        if result.tensors:
            codes, frames = result.tensors
            rows = codes.numpy().astype(codes_type(self._codec.codebook_size))
            for at, (row, count) in enumerate(zip(result.fitting(len(batch)), frames.tolist(), strict=True)):
                outcomes[numbers[row]] = rejects.get(row) or rows[at, :, :count]
        self.extra[BATCHES] += 1
        self.extra[ENCODED] += sum(self._members[n].num_samples / self._members[n].sampling_rate for n in numbers)

    def _compare(self, result: Result, exact: Result) -> None:
        """Count the codes of the rows that were also encoded in full float32, and how many of these codes differ."""
        import torch

        (codes, _), (exact_codes, frames) = result.tensors, exact.tensors
        within = torch.arange(codes.shape[2]) < frames[:, None]
        self.extra[COMPARED] += int(within.sum()) * codes.shape[1]
        self.extra[DIFFERENT] += int(((codes[: len(frames)] != exact_codes) & within[:, None]).sum())

    def _too_large(self, number: int, device: str) -> RecordRejected:
        segment = self._members[number].segment
        return RecordRejected(
            RejectReason.OUT_OF_MEMORY,
            f"the codec has not enough memory on {device} for the {segment.duration:g} s from second "
            f"{segment.offset:g} of {segment.name} on, even alone (no --batch-duration helps); take a device with more "
            "memory, and --retry-rejects",
        )

    def write(self, computed: "list[Codes | RecordRejected]", writer: UnitWriter) -> None:
        """Write the tars of all shards; a cut without codes gets placeholders in all fields, and is a reject."""
        states: States = {}
        for shard, index in zip(self.shards, self.indices, strict=True):
            self._write_shard(shard, index, computed, writer)
            states |= {relative(tar, self._folder): index.states[name] for name, tar in shard.tars.items()}
        writer.extra.update(self.extra)
        record_audio(writer, states)

    def _write_shard(
        self, shard: InputShard, index: ShardIndex, computed: "list[Codes | RecordRejected]", writer: UnitWriter
    ) -> None:
        # Readers list the shards by the targets, so the targets are renamed last.
        fields = sorted(index.fields, key=lambda name: name == TARGET)
        number, frame_shift = shard_text(shard.number), self._codec.samples_per_frame / self._codec.sampling_rate
        names = [CODES_NAME.format(self._settings.codec_name, CODES_OF[name], number) for name in fields]
        tars = [CodesWriter(writer.open(name), frame_shift) for name in names]
        lines: list[bytes] = []

        def write(position: int) -> float:
            codes = [self._codes_of(computed, index.fields[name][position], name) for name in fields]
            rejected = next((result for result in reversed(codes) if isinstance(result, RecordRejected)), None)
            for tar, result in zip(tars, codes, strict=True):
                if rejected is not None or result is None or isinstance(result, RecordRejected):
                    tar.add_placeholder(index.ids[position])
                else:
                    tar.add_codes(index.ids[position], result)
            if rejected is not None:
                raise rejected
            return index.seconds[position]

        def original(position: int) -> tuple[bytes, Origin]:
            lines[:] = lines or cut_lines(shard.cuts.read_bytes(), str(shard.cuts))
            return lines[position], Origin(str(shard.cuts), position + 1)

        writer.write_each(range(len(index.ids)), write, original)
        for tar, name in zip(tars, names, strict=True):
            tar.close()
            place = index_name(self._folder, shard.cuts, writer.workspace.out, name)
            if place is not None:
                writer.add_after(place, tar.index)

    def _codes_of(
        self, computed: "list[Codes | RecordRejected]", segment: Found, field: str
    ) -> Codes | RecordRejected | None:
        if isinstance(segment, UsedSegment):
            codes = computed[self._number[segment.digest, segment.num_samples]]
        elif segment is None and field == TARGET:
            codes = RecordRejected(RejectReason.MISSING_AUDIO, "the tar holds a placeholder in its place")
        else:
            return segment
        return RecordRejected(codes.reason, f"{field}: {codes.detail}") if isinstance(codes, RecordRejected) else codes
