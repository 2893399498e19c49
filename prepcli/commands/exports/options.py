"""The options that exports share."""

from dataclasses import dataclass
from typing import Annotated, TypedDict

from prepcli.audio.channels import chosen_channel
from prepcli.audio.limits import check_target_rate
from prepcli.engine.run.options import RecordArguments
from prepcli.interface.options import Option
from prepcli.interface.shared_options import AudioBaseDir, Channel, CheckAudio, SetInput, TargetRate

RECORDS_PER_UNIT = 256
"""Number of records per unit of an export without shards."""


@dataclass(frozen=True)
class ExportOptions(SetInput):
    """The options that all exports share: how the input is read, and the folder of its audio."""

    audio_base_dir: AudioBaseDir = None

    @property
    def unit_size(self) -> int:
        """Maximum number of records per unit."""
        return RECORDS_PER_UNIT

    @property
    def seed(self) -> int | None:
        """The seed for shuffling the records; None if the records keep the order of the manifests."""
        return None

    def check(self) -> None:
        """Check that the options agree.

        Raises:
            UsageError: options do not agree; the message names them and says what to do.
        """


@dataclass(frozen=True)
class AudioOptions(ExportOptions):
    """The options of exports that store audio. `target_sample_rate` is in Hz; None keeps the rate of each file."""

    target_sample_rate: TargetRate = None
    channel: Channel = None
    check_audio: CheckAudio = False

    def check(self) -> None:
        """Check the sampling rate and the channel; raises `UsageError` if one of them is invalid."""
        check_target_rate(self.target_sample_rate)
        chosen_channel(self.channel)


ShardSize = Annotated[int, Option("Maximum number of records per shard.", minimum=1, order=-1)]


@dataclass(frozen=True)
class ShardOptions(AudioOptions):
    """The options that shape shards with audio."""

    shard_size: ShardSize = 1000
    shuffle: Annotated[bool, Option("Shuffle records over all shards.", names=("--shuffle/--no-shuffle",))] = False
    shuffle_seed: Annotated[int, Option("Seed of --shuffle.", needs="shuffle")] = 0

    @property
    def unit_size(self) -> int:
        """The number of records per unit, as given by `--shard-size`: each unit writes a shard."""
        return self.shard_size

    @property
    def seed(self) -> int | None:
        """The value of `--shuffle-seed` with `--shuffle`, else None."""
        return self.shuffle_seed if self.shuffle else None


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


class ShardArguments(_Shuffling, AudioArguments, total=False):
    """The options of shards with audio."""
