"""The options of `convert-audio`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from prepcli.commands.exports.options import AudioOptions
from prepcli.engine.run.options import JobOptions
from prepcli.interface.options import Option
from prepcli.interface.shared_options import ForceCodec, Manifest


@dataclass(frozen=True)
class ConvertOptions(AudioOptions):
    """The options that shape plain audio files."""

    force_codec: ForceCodec = None


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
