"""extend-codec-codes: the audio of Lhotse Shar shards becomes codec codes, in fields beside it."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from prepcli.codes.content import check_audio, check_complete, record_audio
from prepcli.codes.encoding import BATCHES, COMPARED, DIFFERENT, ENCODED, IN_CODEC, USED, WAITED, WALL, Pool
from prepcli.codes.options import CodesOptions
from prepcli.codes.plan import InputShard, audio_bytes, find_input, measure, pools
from prepcli.codes.shard_index import Member, MemberDecoder, ShardIndex, index_shard
from prepcli.engine.job import Execution, Job
from prepcli.engine.plan import InputFile, Plan, Unit
from prepcli.engine.publish import Marker, UnitWriter
from prepcli.engine.workspace import Workspace
from prepcli.formats.codes import CODES_FOLDER, CODES_NAME, CODES_OF
from prepcli.formats.names import brace_text, check_loadable
from prepcli.formats.shar import shard_text
from prepcli.models.codecs import check_codec_model, codec_name, identity, load_codec
from prepcli.models.devices import use_same_algorithms
from prepcli.models.prefetch import DecodingPool
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


class CodesJob(Job):
    """Extends the Shar set in `folder` by codes below `out`. A unit is a few neighbouring shards.

    The codec is in the main process of a rank, on `device`; worker processes read and decode ahead of it, and a thread
    writes what it has made.
    """

    command: ClassVar[str] = "extend-codec-codes"
    reads_audio_files = False  # but tars

    def __init__(
        self,
        folder: Path,
        out: Path,
        options: CodesOptions,
        *,
        partial: bool = False,
        device: str = "cpu",
        num_workers: int = 1,
    ) -> None:
        """`partial`: take what is there of a Shar set that is not complete yet."""
        options.check()
        check_codec_model(options.codec_model)
        options = replace(options, codec_name=codec_name(options.codec_model, options.codec_name))
        name = CODES_FOLDER.format(options.codec_name)
        check_loadable(out / name)
        self.output_patterns = (f"{name}/*_codes/codes.*.tar",)
        self.folder = folder
        self.out = out
        self.options = options
        self.device = device
        self._partial = partial
        self._part: str | None = None
        self._num_workers = num_workers
        self._plan: Plan | None = None
        self._codec: Codec | None = None
        self.shards: list[InputShard]
        self._members: dict[str, list[InputShard]] = {}

    def settings(self) -> dict[str, Any]:
        """The options, which model it is, and how much audio there is."""
        settings = settings_of(self.options) | {
            "--codec-model": identity(self.options.codec_model),
            "bytes of audio": audio_bytes(self.shards),
        }
        # What is there of a set that is complete is all of it, with the option or without.
        return settings | ({"--partial": self._part} if self._part else {})

    def plan(self) -> Plan:
        """Read the cuts and pool neighbouring shards; a second call returns the same plan."""
        if self._plan is None:
            self.shards = find_input(self.folder)
            self._part = check_complete(self.folder, self._partial)
            sizes = measure(self.shards, self._num_workers)
            units = []
            for unit, positions in pools(self.shards, sizes, self.options.pool_duration):
                self._members[unit.id] = [self.shards[at] for at in positions]
                units.append(unit)
            self._plan = Plan(
                units=units,
                records_in=sum(size.num_cuts for size in sizes),
                inputs=[
                    InputFile(str(shard.cuts), size.sha256, shard.state)
                    for shard, size in zip(self.shards, sizes, strict=True)
                ],
                notes=[f"{len(self.shards):,} shards, {len(self.shards[0].tars)} audio fields", *self._notes()],
            )
        return self._plan

    def input_files(self) -> list[str | Path]:
        """The cuts, their audio, and the codec where it is a file."""
        shards = [path for shard in self.shards for path in (shard.cuts, *shard.tars.values())]
        return [self.options.codec_model, *shards]

    def _notes(self) -> Iterator[str]:
        if self._part:
            yield (
                f"--partial: {self._part}; when the rest is there, --overwrite encodes all of it again, another "
                "--codec-name encodes all of it beside this"
            )

    def check_done(self, markers: Sequence[Marker], workspace: Workspace) -> None:
        """Refuse to go on where audio was replaced by other audio under the same cuts."""
        done = {marker.unit: self._members[marker.unit] for marker in markers}
        check_audio(workspace, done, self.folder, self._num_workers)

    def prepare(self) -> None:
        """Load the codec."""
        if self._codec is None:
            self._codec = load_codec(self.options.codec_model)

    def execute(self, units: Sequence[Unit], execution: Execution) -> Iterator[Marker]:
        """Read and decode in worker processes, encode here, write in a thread: at the same time, across units."""
        codec = self._codec
        assert codec is not None
        on_gpu = self.device.startswith("cuda")
        decoder = MemberDecoder(None if on_gpu else codec.sampling_rate)
        max_samples = int(self.options.batch_duration * max(codec.sampling_rate, HIGHEST_RATE if on_gpu else 0))

        with (
            ThreadPoolExecutor(1) as writing,
            DecodingPool[Member](
                decoder, max_samples, execution.num_workers, execution.context, execution.workspace
            ) as workers,
        ):
            make = partial(Pool, codec=codec, options=self.options, resamples=on_gpu)
            made = _Pools([self._members[unit.id] for unit in units], workers, execution.tick, make)
            batches = (batch for turn in range(len(units)) for batch in made[turn].batches())
            feed = workers.decoded(batches, execution.tick)
            # The workers start with the first task, and must do so before CUDA does.
            feed = chain([first] if (first := next(feed, None)) is not None else [], feed)
            use_same_algorithms()
            codec.to(self.device)
            written: deque[Future[Marker]] = deque()
            started = time.monotonic()
            for turn, unit in enumerate(units):
                pool = made.take(turn)
                pool.encode(feed, self.device, execution.advance)
                pool.extra[WALL] = time.monotonic() - started
                started = time.monotonic()
                while written and (len(written) > 1 or written[0].done()):
                    yield wait_for(written.popleft(), execution.tick)
                with no_interruption():
                    written.append(writing.submit(self._publish, pool, unit, execution))
            while written:
                yield wait_for(written.popleft(), execution.tick)

    def _publish(self, pool: Pool, unit: Unit, execution: Execution) -> Marker:
        with UnitWriter(execution.workspace, execution.digest, unit) as writer:
            pool.write(writer)
            record_audio(execution.workspace, unit.id, pool.shards, pool.indices, self.folder)
            return writer.publish()

    def finish(self, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Nothing to merge; returns what to paste into a training config, and what the run tells of itself."""
        counts: Counter[str] = Counter()
        for marker in markers:
            counts.update(marker.extra)
        name = self.options.codec_name
        numbers = [shard.number for shard in self.shards]
        details: dict[str, Any] = {
            CODES_OF[field]: self.out / CODES_NAME.format(name, CODES_OF[field], _shard_range(numbers))
            for field in self.shards[0].tars
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


class _Pools:
    """The units' pools, made when they are first asked for; workers look through the shards of later ones meanwhile."""

    def __init__(
        self,
        units: Sequence[Sequence[InputShard]],
        workers: DecodingPool[Member],
        tick: Callable[[], None],
        make: Callable[[Sequence[InputShard], Sequence[ShardIndex]], Pool],
    ) -> None:
        self._units = units
        self._workers = workers
        self._tick = tick
        self._make = make
        self._indices: deque[list[Future[ShardIndex]]] = deque()
        self._submitted = 0
        self._made: dict[int, Pool] = {}
        self._next = 0

    def __getitem__(self, turn: int) -> Pool:
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

    def take(self, turn: int) -> Pool:
        """The pool, which is not asked for again."""
        pool = self[turn]
        del self._made[turn]
        return pool


def _shard_range(numbers: Sequence[int]) -> str:
    """What names all shards at once in a training config; `*` where their numbers have gaps."""
    first, last = numbers[0], numbers[-1]
    return brace_text(shard_text(first), shard_text(last)) if last - first + 1 == len(numbers) else "*"
