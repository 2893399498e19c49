"""The shards of the input, and groups of consecutive shards as units of work."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prepcli.engine.state.plan import Unit
from prepcli.engine.state.store_output import OutputFiles
from prepcli.errors import UsageError
from prepcli.formats.shar import AUDIO_NAME, CONTEXT, RECORDING, TARGET, shard_text
from prepcli.formats.shar_set import SharSet
from prepcli.manifest.shar_cuts import CutsFile, ShardSize
from prepcli.storage.input_files import FileState, state_of
from prepcli.storage.paths import AnyPath, relative

MAX_SHARDS = 64
"""Maximum number of shards per unit: the files of all of them are open at once."""


@dataclass(frozen=True, slots=True)
class InputShard:
    """A shard of the input Shar set.

    Attributes:
        number: the number of the shard.
        cuts: the path of its cuts.
        tars: the path of the tar of each audio field; `TARGET` stands also for `RECORDING`.
        state: the state of the cuts before they were read.
    """

    number: int
    cuts: AnyPath
    tars: dict[str, AnyPath]
    state: FileState

    @property
    def cuts_file(self) -> CutsFile:
        """The file with the cuts of the shard."""
        return CutsFile(self.cuts, self.state)


@dataclass(frozen=True, slots=True)
class ShardGroup(Unit):
    """A unit of work: consecutive shards, whose segments are batched and published together."""

    shards: Sequence[InputShard]


def find_input(folder: AnyPath) -> list[InputShard]:
    """The shards of a Shar set, sorted by number; numbers may have gaps.

    Raises:
        UsageError: there is no shard, or a shard has no audio.
    """
    shar = SharSet(folder)
    cuts = shar.cuts()
    main = RECORDING if RECORDING in shar.audio and TARGET not in shar.audio else TARGET
    fields = {name: shar.audio.get(name, {}) for name in (main, CONTEXT) if name in (main, *shar.audio)}
    for name, tars in fields.items():
        for number in sorted(set(cuts) - set(tars)):
            missing = AUDIO_NAME.format(name, shard_text(number))
            raise UsageError(f"{folder}/{missing} is missing, but {cuts[number].name} is; repair the set first")
    return [
        InputShard(number, path, {_codes_of(name): tars[number] for name, tars in fields.items()}, state_of(path))
        for number, path in cuts.items()
    ]


def _codes_of(field: str) -> str:
    """The field by which codes of audio are named: `TARGET` for the audio of the cuts."""
    return TARGET if field == RECORDING else field


def audio_bytes(folder: AnyPath, shards: Sequence[InputShard]) -> int:
    """Total bytes of the tars of `shards` in the Shar set `folder`.

    A changed total shows that audio has changed. Module `content` detects changes of audio that keep the total.
    """
    files = OutputFiles(folder)
    return sum(files.size_of(relative(path, folder)) for shard in shards for path in shard.tars.values())


def group_shards(shards: Sequence[InputShard], sizes: Sequence[ShardSize], seconds: float) -> Iterator[ShardGroup]:
    """Yield groups of consecutive shards with at least `seconds` of cuts, or with `MAX_SHARDS` shards.

    The last group may be smaller. The groups, and so the batches, depend only on the input and the settings.
    """
    start = 0
    total = 0.0
    for position, size in enumerate(sizes):
        total += size.seconds
        full = total >= seconds or position + 1 - start >= MAX_SHARDS
        if full or position + 1 == len(sizes):
            here = slice(start, position + 1)
            first, last = (shard_text(shards[at].number) for at in (start, position))
            unit_id = f"shards_{first}" if first == last else f"shards_{first}-{last}"
            yield ShardGroup(unit_id, total, sum(size.num_cuts for size in sizes[here]), shards[here])
            start, total = position + 1, 0.0
