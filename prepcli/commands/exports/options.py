"""The options that exports share."""

from typing import Annotated, TypedDict

from prepcli.engine.run.options import JobArguments, RecordArguments
from prepcli.interface.options import Option
from prepcli.interface.shared_options import Channel, CheckAudio

ShardSize = Annotated[int, Option("Maximum number of records per shard.", minimum=1, order=-1)]


class _Audio(TypedDict, total=False):
    channel: Channel
    check_audio: CheckAudio


class _Shuffling(TypedDict, total=False):
    shuffle: Annotated[
        bool, Option("Shuffle records over all shards.", names=("--shuffle/--no-shuffle",), default=False)
    ]
    shuffle_seed: Annotated[int, Option("Seed of --shuffle.", needs="shuffle", default=0)]


class AudioArguments(_Audio, RecordArguments, total=False):
    """The options of exports that store audio."""


class ShuffledJobArguments(_Shuffling, JobArguments, total=False):
    """The options of shards without audio."""


class ShardArguments(_Shuffling, AudioArguments, total=False):
    """The options of shards with audio."""
