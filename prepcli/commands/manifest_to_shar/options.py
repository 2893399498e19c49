"""The options of `manifest-to-shar`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from prepcli.commands.exports.options import ShardOptions, ShardSize
from prepcli.engine.run.options import JobOptions
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import Manifest, WorkDir
from prepcli.storage.paths import AnyPath

OPUS_RATE = 48_000
"""Sampling rate of Opus in Hz. Decoders treat other rates differently, so lhotse stores all Opus at this rate."""


@dataclass(frozen=True)
class SharOptions(ShardOptions):
    """The options that shape a Shar data set; `target_sample_rate` in Hz."""

    shard_size: ShardSize = 4096
    audio_format: Annotated[
        Literal["flac", "wav", "opus", "original"],
        Option("Encode audio to this format; original: keep the format of each file."),
    ] = "flac"
    target_sample_rate: Annotated[
        int | None, Option("Resample to this rate (Hz).", shown_default="unchanged; opus: 48000")
    ] = None
    indexed: Annotated[
        bool,
        Option(
            "Write the cuts uncompressed, and indexes into OUT/index, with which lhotse 2 and NeMo after 3.0 resume in "
            "the middle of an epoch."
        ),
    ] = False

    def check(self) -> None:
        """Check that the options agree.

        Raises:
            UsageError: for Opus, another rate than 48 kHz is given, or other options do not go together.
        """
        super().check()
        rate = self.target_sample_rate
        if self.audio_format == "opus" and rate not in (None, OPUS_RATE):
            raise UsageError(f"lhotse stores Opus at {OPUS_RATE} Hz: leave {option('--target-sample-rate', rate)} out")

    @property
    def sampling_rate(self) -> int | None:
        """The rate of all stored audio in Hz; None: every file keeps its rate."""
        return OPUS_RATE if self.audio_format == "opus" else self.target_sample_rate


@dataclass(frozen=True, kw_only=True)
class ManifestToShar(SharOptions, JobOptions):
    """Turn NeMo manifests, with or without context audio, into Lhotse Shar shards for Magpie-TTS.

    Writes OUT/cuts/cuts.{000000}.jsonl.gz, OUT/target_audio/recording.{000000}.tar and, if the records name a
    context, OUT/context_audio/recording.{000000}.tar, as CutSet.from_shar(fields=...) and NeMo's
    MagpieTTSLhotseDataset read them. Within a shard a segment is decoded and encoded once, however many records
    use it; a whole mono file that already has the right format and rate is copied byte for byte.

    Memory per worker: up to 256 MB of encoded audio that the shard uses again (the rest goes to a file next to OUT),
    the longest decoded segment, and about 10 MB per 4096 records of --shard-size. Memory shared by all workers: 60
    bytes per record of the manifests.

    Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-shar train_withContextAudio.json shar/ --audio-base-dir audio/ --shard-size 4096
    """

    manifest: Manifest
    out: Annotated[
        AnyPath,
        Option("Directory for the Shar data set.", metavar="OUT", is_argument=True, shapes_output=False),
    ]
    work_dir: WorkDir = None
