"""extend-codec-codes: the audio of Lhotse Shar shards becomes codec codes, in fields beside it."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from prepcli.codes.content import check_audio, check_complete, record_audio
from prepcli.codes.encoding import BATCHES, COMPARED, DIFFERENT, ENCODED, IN_CODEC, USED, WAITED, WALL, UnitEncoder
from prepcli.codes.options import CodesOptions
from prepcli.codes.plan import InputShard, ShardGroup, audio_bytes, find_input, group_shards, measure
from prepcli.codes.shard_index import Member, MemberDecoder, ShardIndex, index_shard
from prepcli.engine.job import Execution, Job
from prepcli.engine.plan import InputFile, Plan
from prepcli.engine.publish import Marker, UnitWriter
from prepcli.engine.workspace import Workspace
from prepcli.formats.codes import CODES_FOLDER, CODES_NAME, CODES_OF
from prepcli.formats.shar import brace_text
from prepcli.models.codecs import check_codec_model, codec_name, identity, load_codec
from prepcli.models.devices import use_same_algorithms
from prepcli.models.feed import DecodingPool
from prepcli.models.protocols import Codec
from prepcli.options import settings_of
from prepcli.processes import no_interruption, wait_for

UNITS_AHEAD = 2
"""Units whose tars are looked through while an earlier one is in the codec."""
HIGHEST_RATE = 48000
"""Batches of audio up to this rate (Hz) go to a GPU through shared memory."""


def codes_workspace(out: Path, codec_name: str) -> Workspace:
    """The workspace of one codec's codes in `out`: `OUT.prepcli/codes_<name>`.

    It is inside what stands beside OUT for the run that made OUT itself, which it leaves alone; so are those of other
    codecs. `prepcli.engine.status.workspaces_of` finds all of them.
    """
    return Workspace(out, Workspace(out).root / CODES_FOLDER.format(codec_name))


@dataclass(frozen=True, slots=True)
class CodesContents:
    """The shards, and how much of an incomplete Shar set they are (None: they are all of it)."""

    shards: Sequence[InputShard]
    part: str | None


CodesPlan = Plan[ShardGroup, CodesContents]


class CodesJob(Job[ShardGroup, CodesContents]):
    """Extends the Shar set in `folder` by codes. A unit is a few neighbouring shards.

    The codec is in the main process of a rank, on `device`; worker processes read and decode ahead of it, and a thread
    writes what it has made.
    """

    command: ClassVar[str] = "extend-codec-codes"
    reads_audio_files = False  # but tars

    def __init__(
        self,
        folder: Path,
        options: CodesOptions,
        *,
        partial: bool = False,
        device: str = "cpu",
        num_workers: int = 1,
    ) -> None:
        """`partial`: take what is there of a Shar set that is not complete yet."""
        options.check()
        check_codec_model(options.codec_model)
        self.folder = folder
        self.options = replace(options, codec_name=codec_name(options.codec_model, options.codec_name))
        self.device = device
        self._partial = partial
        self._num_workers = num_workers

    def output_patterns(self, plan: CodesPlan) -> Sequence[str]:
        """The tars of this codec."""
        return (f"{CODES_FOLDER.format(self.options.codec_name)}/*_codes/codes.*.tar",)

    def settings(self, plan: CodesPlan) -> dict[str, Any]:
        """The options, which model it is, and how much audio there is."""
        settings = settings_of(self.options) | {
            "--codec-model": identity(self.options.codec_model),
            "bytes of audio": audio_bytes(plan.contents.shards),
        }
        # What is there of a set that is complete is all of it, with the option or without.
        return settings | ({"--partial": plan.contents.part} if plan.contents.part else {})

    def plan(self, workspace: Workspace) -> CodesPlan:
        """Read the cuts and group neighbouring shards."""
        shards = find_input(self.folder)
        part = check_complete(self.folder, self._partial)
        sizes = measure(shards, self._num_workers)
        notes = [f"{len(shards):,} shards, {len(shards[0].tars)} audio fields"]
        if part:
            notes.append(
                f"--partial: {part}; when the rest is there, --overwrite encodes all of it again, another "
                "--codec-name encodes all of it beside this"
            )
        return Plan(
            units=list(group_shards(shards, sizes, self.options.pool_duration)),
            records_in=sum(size.num_cuts for size in sizes),
            contents=CodesContents(shards, part),
            inputs=[
                InputFile(str(shard.cuts), size.sha256, shard.state) for shard, size in zip(shards, sizes, strict=True)
            ],
            notes=notes,
        )

    def input_files(self, plan: CodesPlan) -> list[str | Path]:
        """The cuts, their audio, and the codec where it is a file."""
        shards = [path for shard in plan.contents.shards for path in (shard.cuts, *shard.tars.values())]
        return [self.options.codec_model, *shards]

    def check_done(self, done: Sequence[ShardGroup], workspace: Workspace) -> None:
        """Refuse to go on where audio was replaced by other audio under the same cuts."""
        check_audio(workspace, {unit.id: unit.shards for unit in done}, self.folder, self._num_workers)

    @cached_property
    def _codec(self) -> Codec:
        return load_codec(self.options.codec_model)

    def prepare(self) -> None:
        """Load the codec."""
        _ = self._codec

    def execute(self, plan: CodesPlan, units: Sequence[ShardGroup], execution: Execution) -> Iterator[Marker]:
        """Read and decode in worker processes, encode here, write in a thread: at the same time, across units."""
        codec = self._codec
        on_gpu = self.device.startswith("cuda")
        decoder = MemberDecoder(None if on_gpu else codec.sampling_rate)
        most_samples = int(self.options.batch_duration * max(codec.sampling_rate, HIGHEST_RATE if on_gpu else 0))

        with (
            ThreadPoolExecutor(1) as writing,
            DecodingPool[Member](
                decoder, most_samples, execution.num_workers, execution.context, execution.workspace
            ) as workers,
        ):
            make = partial(UnitEncoder, codec=codec, options=self.options, resamples=on_gpu)
            made = _Encoders([unit.shards for unit in units], workers, execution.tick, make)
            batches = (batch for turn in range(len(units)) for batch in made[turn].batches())
            feed = workers.decoded(batches, execution.tick)
            # The workers start with the first task, and must do so before CUDA does.
            feed = chain([first] if (first := next(feed, None)) is not None else [], feed)
            use_same_algorithms()
            codec.to(self.device)
            written: deque[Future[Marker]] = deque()
            started = time.monotonic()
            for turn, unit in enumerate(units):
                encoder = made.take(turn)
                encoder.encode(feed, self.device, execution.advance)
                encoder.extra[WALL] = time.monotonic() - started
                started = time.monotonic()
                while written and (len(written) > 1 or written[0].done()):
                    yield wait_for(written.popleft(), execution.tick)
                with no_interruption():
                    written.append(writing.submit(self._publish, encoder, unit, execution))
            while written:
                yield wait_for(written.popleft(), execution.tick)

    def _publish(self, encoder: UnitEncoder, unit: ShardGroup, execution: Execution) -> Marker:
        with UnitWriter(execution.workspace, execution.digest, unit) as writer:
            encoder.write(writer)
            record_audio(execution.workspace, unit.id, encoder.shards, encoder.indices, self.folder)
            return writer.publish()

    def finish(self, plan: CodesPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Nothing to merge; returns what to paste into a training config, and what the run tells of itself."""
        counts: Counter[str] = Counter()
        for marker in markers:
            counts.update(marker.extra)
        name = self.options.codec_name
        numbers = [shard.number for shard in plan.contents.shards]
        details: dict[str, Any] = {
            CODES_OF[field]: writer.workspace.out / CODES_NAME.format(name, CODES_OF[field], _shard_range(numbers))
            for field in plan.contents.shards[0].tars
        }
        wall = max(counts[WALL], 1e-9)
        details |= {
            "hours_encoded": round(counts[ENCODED] / 3600, 4),
            "real_time_factor": round(counts[ENCODED] / wall, 1),
            "mean_batch_seconds": round(counts[ENCODED] / max(counts[BATCHES], 1), 1),
            "saved_by_encoding_once": round(1 - counts[ENCODED] / max(counts[USED], 1e-9), 4),
            "time_in_codec": round(counts[IN_CODEC] / wall, 3),
            "waited_for_audio": round(counts[WAITED] / wall, 3),
        }
        if counts[COMPARED]:
            details["codes_unlike_fp32"] = round(counts[DIFFERENT] / counts[COMPARED], 6)
            details["codes_compared"] = int(counts[COMPARED])
        return details


class _Encoders:
    """The units' encoders, made when they are first asked for; workers read the shards of later ones meanwhile."""

    def __init__(
        self,
        units: Sequence[Sequence[InputShard]],
        workers: DecodingPool[Member],
        tick: Callable[[], None],
        make: Callable[[Sequence[InputShard], Sequence[ShardIndex]], UnitEncoder],
    ) -> None:
        self._units = units
        self._workers = workers
        self._tick = tick
        self._make = make
        self._indices: deque[list[Future[ShardIndex]]] = deque()
        self._submitted = 0
        self._made: dict[int, UnitEncoder] = {}
        self._next = 0

    def __getitem__(self, turn: int) -> UnitEncoder:
        while self._next <= turn:
            ahead = min(self._next + 1 + UNITS_AHEAD, len(self._units))
            while self._submitted < ahead:
                shards = self._units[self._submitted]
                self._indices.append([self._workers.submit(index_shard, shard) for shard in shards])
                self._submitted += 1
            indices = [wait_for(future, self._tick) for future in self._indices.popleft()]
            self._made[self._next] = self._make(self._units[self._next], indices)
            self._next += 1
        return self._made[turn]

    def take(self, turn: int) -> UnitEncoder:
        """The encoder, which is not asked for again."""
        encoder = self[turn]
        del self._made[turn]
        return encoder


def _shard_range(numbers: Sequence[int]) -> str:
    """What names all shards at once in a training config; `*` where their numbers have gaps."""
    first, last = numbers[0], numbers[-1]
    return brace_text(first, last) if last - first + 1 == len(numbers) else "*"
