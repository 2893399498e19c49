"""extend-codec-codes: encode the audio of Lhotse Shar shards to codec codes, in additional fields."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from prepcli.codes.content import check_audio, check_complete
from prepcli.codes.encoding import BATCHES, COMPARED, DIFFERENT, ENCODED, IN_CODEC, USED, WAITED, UnitEncoder
from prepcli.codes.indexes import index_name, indexes_of_set
from prepcli.codes.options import CodesOptions
from prepcli.codes.plan import InputShard, ShardGroup, audio_bytes, cuts_digest, find_input, group_shards, measure
from prepcli.codes.shard_index import Member, MemberDecoder, ShardIndex, index_shard
from prepcli.engine.plan import InputFile, Plan
from prepcli.engine.publish import Marker, UnitWriter
from prepcli.engine.workspace import Workspace
from prepcli.formats.codes import CODES_FOLDER, CODES_NAME, CODES_OF
from prepcli.formats.indexes import INDEX_SUFFIX, MIRROR, mirrored
from prepcli.formats.names import absolute_folder, brace_text
from prepcli.formats.shar import AUDIO_NAME, PLAIN_CUTS_NAME, shard_text
from prepcli.formats.training_config import INDEXED_CONFIG, indexed_shar_config
from prepcli.models.codecs import (
    check_codec_model,
    codec_name,
    identity,
    load_codec,
    mixes_lengths,
    notes_on_codec_model,
)
from prepcli.models.devices import use_same_algorithms
from prepcli.models.model_job import WALL, ModelJob
from prepcli.models.prefetch import DecodingPool
from prepcli.models.protocols import Codec
from prepcli.options import settings_of
from prepcli.processes import wait_for

UNITS_AHEAD = 2
"""Number of units whose tars are indexed while an earlier unit is being encoded."""
MAX_RATE = 48000
"""Batches of audio up to this rate (Hz) go to a GPU through shared memory."""


def codes_workspace(out: Path, codec_name: str) -> Workspace:
    """The workspace of one codec's codes in `out`: `OUT.prepcli/codes_<name>`.

    It is inside what stands beside OUT for the run that made OUT itself, which it leaves alone; so are those of other
    codecs. `prepcli.engine.status.workspaces_of` finds all of them.
    """
    return Workspace(out, Workspace(out).root / CODES_FOLDER.format(codec_name))


@dataclass(frozen=True, slots=True)
class CodesContents:
    """The shards, and which part of an incomplete Shar set they are (None: the set is complete)."""

    shards: Sequence[InputShard]
    part: str | None


CodesPlan = Plan[ShardGroup, CodesContents]


class CodesJob(ModelJob[ShardGroup, CodesContents, Codec]):
    """Adds codes to the Shar set in `folder`. A unit is a few consecutive shards."""

    command: ClassVar[str] = "extend-codec-codes"
    telemetry = (
        "hours_encoded",
        "real_time_factor",
        "mean_batch_seconds",
        "saved_by_encoding_once",
        "time_in_codec",
        "waited_for_audio",
    )
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
        """`partial`: accept a Shar set that is not complete yet."""
        super().__init__(device, num_workers)
        options.check()
        check_codec_model(options.codec_model, options.num_codebooks)
        self.folder = folder
        self.options = replace(options, codec_name=codec_name(options.codec_model, options.codec_name))
        self._partial = partial

    def output_patterns(self, plan: CodesPlan) -> Sequence[str]:
        """The tars of this codec, and their indexes."""
        tars = f"{CODES_FOLDER.format(self.options.codec_name)}/*_codes/codes.*.tar"
        return (tars, tars + INDEX_SUFFIX, f"{MIRROR}/**/{tars}{INDEX_SUFFIX}")

    def settings(self, plan: CodesPlan) -> dict[str, Any]:
        """The options, the model, and the amount of audio."""
        settings = settings_of(self.options) | {
            "--codec-model": identity(self.options.codec_model),
            "bytes of audio": audio_bytes(plan.contents.shards),
        }
        if self.options.num_codebooks is None:  # a run of a version without this option can be continued
            del settings["--num-codebooks"]
        # The setting is the same for a complete set with and without the option.
        return settings | ({"--partial": plan.contents.part} if plan.contents.part else {})

    def plan(self, workspace: Workspace) -> CodesPlan:
        """Read the cuts and group consecutive shards."""
        shards = find_input(self.folder)
        part = check_complete(self.folder, self._partial)
        sizes = measure(shards, self.num_workers)
        notes = [f"{len(shards):,} shards, {len(shards[0].tars)} audio fields"]
        notes += notes_on_codec_model(self.options.codec_model)
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
                InputFile(str(shard.cuts), size.sha256, shard.state, cuts_digest)
                for shard, size in zip(shards, sizes, strict=True)
            ],
            notes=notes,
        )

    def input_files(self, plan: CodesPlan) -> list[str | Path]:
        """The cuts, their audio, and the codec where it is a file."""
        shards = [path for shard in plan.contents.shards for path in (shard.cuts, *shard.tars.values())]
        return [self.options.codec_model, *shards]

    def check_done(self, done: Sequence[ShardGroup], workspace: Workspace) -> None:
        """Refuse to continue if audio was replaced under the same cuts."""
        check_audio(workspace, {unit.id: unit.shards for unit in done}, self.folder, self.num_workers)

    def load_model(self) -> Codec:
        """Load the codec."""
        return load_codec(self.options.codec_model, self.options.num_codebooks)

    def set_up_device(self) -> None:
        """Make PyTorch use the same algorithms in every run."""
        use_same_algorithms()

    @property
    def _is_on_gpu(self) -> bool:
        """Then the GPU resamples as well."""
        return self.device.startswith("cuda")

    @property
    def max_batch_samples(self) -> int:
        """Those of `--batch-duration`, at the highest rate that is decoded."""
        rate = self.model.sampling_rate
        return int(self.options.batch_duration * (max(rate, MAX_RATE) if self._is_on_gpu else rate))

    def decoder(self, contents: CodesContents) -> MemberDecoder:
        """Reads segments from the tars."""
        return MemberDecoder(None if self._is_on_gpu else self.model.sampling_rate)

    def begin_units(
        self,
        contents: CodesContents,
        units: Sequence[ShardGroup],
        workers: DecodingPool[Member],
        tick: Callable[[], None],
    ) -> Iterator[UnitEncoder]:
        """The units' encoders; workers read the shards of the next units meanwhile."""
        waiting = iter(units)
        indices: deque[list[Future[ShardIndex]]] = deque()
        for unit in units:
            for ahead in islice(waiting, UNITS_AHEAD + 1 - len(indices)):
                indices.append([workers.submit(index_shard, shard) for shard in ahead.shards])
            found = [wait_for(future, tick) for future in indices.popleft()]
            yield UnitEncoder(
                unit.shards,
                found,
                self.model,
                self.options,
                self.folder,
                resamples=self._is_on_gpu,
                mixes_lengths=self._is_on_gpu and mixes_lengths(self.model),
            )

    def finish(self, plan: CodesPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Return the lines to paste into a training config, and statistics; there is nothing to merge."""
        counts: Counter[str] = Counter()
        for marker in markers:
            counts.update(marker.extra)
        name = self.options.codec_name
        numbers = [shard.number for shard in plan.contents.shards]
        details: dict[str, Any] = {
            CODES_OF[field]: writer.workspace.out / CODES_NAME.format(name, CODES_OF[field], _shard_range(numbers))
            for field in plan.contents.shards[0].tars
        }
        details |= self._indexed(plan, dict(details), writer)
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

    def _indexed(self, plan: CodesPlan, codes: dict[str, Any], writer: UnitWriter) -> dict[str, Any]:
        """What to paste for a set with indexes in a mirror; completes the mirror where the codes lie elsewhere."""
        first, out = plan.contents.shards[0], writer.workspace.out
        name = index_name(self.folder, first.cuts, out, "")
        shards = _shard_range([shard.number for shard in plan.contents.shards])
        if name is None or not name.startswith(MIRROR) or shards == "*":
            return {}
        if absolute_folder(str(out)) != absolute_folder(str(self.folder)):
            for index, data in indexes_of_set(self.folder, plan.contents.shards):
                writer.add(index, data)
        elif not (out / MIRROR / mirrored(first.cuts)).exists():  # of another program: `prepcli index` completes it
            return {}
        root = Path(absolute_folder(str(self.folder)))
        fields = {"cuts": root / PLAIN_CUTS_NAME.format(shards)}
        fields |= {field: root / AUDIO_NAME.format(field, shards) for field in first.tars}
        fields |= {field: Path(absolute_folder(str(path.parent)), path.name) for field, path in codes.items()}
        return {INDEXED_CONFIG: indexed_shar_config(fields, out)}


def _shard_range(numbers: Sequence[int]) -> str:
    """The pattern for all shards in a training config; `*` if their numbers have gaps."""
    first, last = numbers[0], numbers[-1]
    return brace_text(shard_text(first), shard_text(last)) if last - first + 1 == len(numbers) else "*"
