"""The options that exports share."""

from dataclasses import dataclass
from typing import Annotated

from prepcli.audio.limits import check_target_rate
from prepcli.interface.options import Option
from prepcli.interface.shared_options import AudioBaseDir


@dataclass(frozen=True)
class ExportOptions:
    """What tells where the audio of an export lies."""

    audio_base_dir: AudioBaseDir = None


@dataclass(frozen=True)
class ShardOptions(ExportOptions):
    """What shapes shards with audio; `target_sample_rate` in Hz."""

    shard_size: Annotated[int, Option("Maximum number of records per shard.", minimum=1, order=-1)] = 1000
    shuffle: Annotated[bool, Option("Shuffle records over all shards.", names=("--shuffle/--no-shuffle",))] = False
    shuffle_seed: Annotated[int, Option("Seed of --shuffle.", needs="shuffle")] = 0
    target_sample_rate: Annotated[int | None, Option("Resample to this rate (Hz).", shown_default="unchanged")] = None
    check_audio: Annotated[
        bool,
        Option("Decode copied files as well, to find damage.", names=("--check-audio/--no-check-audio",)),
    ] = False

    def check(self) -> None:
        """Check that the options agree.

        Raises:
            UsageError: the message names the options of the command line and says what to do.
        """
        check_target_rate(self.target_sample_rate)
