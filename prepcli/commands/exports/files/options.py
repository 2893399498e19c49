"""The options of `convert-audio`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from prepcli.audio.channels import chosen_channel
from prepcli.audio.limits import check_target_rate
from prepcli.commands.exports.options import ExportOptions
from prepcli.engine.run.options import JobOptions
from prepcli.interface.options import Option
from prepcli.interface.shared_options import Channel, Manifest


@dataclass(frozen=True)
class ConvertOptions(ExportOptions):
    """The options that shape plain audio files; `target_sample_rate` in Hz."""

    force_codec: Annotated[
        Literal["flac", "wav", "opus", "mp3"] | None,
        Option("Encode audio to this format.", shown_default="unchanged"),
    ] = None
    target_sample_rate: Annotated[int | None, Option("Resample to this rate (Hz).", shown_default="unchanged")] = None
    channel: Channel = None
    check_audio: Annotated[
        bool,
        Option("Decode copied files as well, to find damage.", names=("--check-audio/--no-check-audio",)),
    ] = False

    @property
    def unit_size(self) -> int:
        """Maximum number of records per unit: few, because a record may be a long file."""
        return 64

    def check(self) -> None:
        """Check the rate and the channel."""
        check_target_rate(self.target_sample_rate)
        chosen_channel(self.channel)


@dataclass(frozen=True, kw_only=True)
class ConvertAudio(ConvertOptions, JobOptions):
    """Cut, resample, downmix or unpack the audio of NeMo manifests into plain files, with a manifest of them.

    Writes a file OUT/PATH.flac (or .wav, ...) for each record, where PATH is that of the record's audio, and
    OUT/manifest.json: the records in their order with all of their fields, and paths relative to OUT. Without options
    files are copied byte for byte, and segments are cut exactly. Records of the same segment share a file; different
    segments of a file get names with offset and duration, such as talk@1_5_2_0.flac.

    Run the same command again to continue after an interruption.

    Example: prepcli convert-audio train.json converted/ --target-sample-rate 16000 --force-codec flac
    """

    manifest: Manifest
    out: Annotated[
        Path, Option("Directory for the files and the manifest.", metavar="OUT", is_argument=True, shapes_output=False)
    ]
