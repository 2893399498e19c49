"""The options of `manifest-to-mels`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from prepcli.audio.channels import chosen_channel
from prepcli.audio.limits import check_target_rate
from prepcli.commands.exports.options import ExportOptions
from prepcli.engine.run.options import Devices, JobOptions
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import Channel, Manifest


@dataclass(frozen=True)
class MelsOptions(ExportOptions):
    """The options that shape mel-spectrograms; names and defaults are those of Tacotron 2's script."""

    lists_only: Annotated[
        bool,
        Option(
            "Write only the file lists, without the mels.",
            disables=("channel", "hop_length", "win_length", "mel_fmin", "mel_fmax", "n_mel_channels"),
        ),
    ] = False
    text_field: Annotated[
        str | None,
        Option(
            "Field with the text of the lists.", shown_default="normalized_text of records that have it, otherwise text"
        ),
    ] = None
    channel: Channel = None
    sampling_rate: Annotated[int, Option("Sampling rate of the mels (Hz); other audio is resampled.")] = 22050
    filter_length: Annotated[int, Option("Length of the Fourier transform in samples.", minimum=2)] = 1024
    hop_length: Annotated[int, Option("Samples from one frame to the next.", minimum=1)] = 256
    win_length: Annotated[int, Option("Length of the window in samples.", minimum=1)] = 1024
    mel_fmin: Annotated[float, Option("Lowest frequency (Hz).", minimum=0)] = 0.0
    mel_fmax: Annotated[float, Option("Highest frequency (Hz).", minimum=0)] = 8000.0
    n_mel_channels: Annotated[int, Option("Number of mel bands.", minimum=1)] = 80

    @property
    def min_samples(self) -> int:
        """The minimum number of samples of a clip.

        Each end of a clip is extended by `filter_length // 2` mirrored samples. This needs a clip of at least one
        sample more, because the samples at the ends are not mirrored.
        """
        return self.filter_length // 2 + 1

    def check(self) -> None:
        """Check that the options agree.

        Raises:
            UsageError: options do not agree; the message names them and says what to do.
        """
        check_target_rate(self.sampling_rate, "--sampling-rate")
        chosen_channel(self.channel)
        if self.win_length > self.filter_length:
            raise UsageError(
                f"{option('--win-length', self.win_length)} must not exceed {option('--filter-length')} "
                f"{self.filter_length}"
            )
        if not self.mel_fmin < self.mel_fmax <= self.sampling_rate / 2:
            raise UsageError(
                f"{option('--mel-fmin', f'{self.mel_fmin:g}')} must be below "
                f"{option('--mel-fmax', f'{self.mel_fmax:g}')}, which must not exceed half of "
                f"{option('--sampling-rate', self.sampling_rate)}"
            )


@dataclass(frozen=True, kw_only=True)
class ManifestToMels(MelsOptions, JobOptions):
    """Turn NeMo manifests into mel-spectrograms and file lists for Tacotron 2 and WaveGlow.

    Writes OUT/mels/ID.pt, a float32 tensor (bands, frames) each, and for each manifest
    OUT/filelists/STEM_mel_text_filelist.txt and OUT/filelists/STEM_audio_text_filelist.txt. OUT is the dataset path for
    training; paths of audio are absolute. The text is normalized_text, or text if a record does not have it. A text
    with a vertical bar or a line break is a reject, and so is a clip that is shorter than half of --filter-length.
    Needs PyTorch (the extra models), except for --lists-only.

    Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-mels train.json,val.json,test.json mels/
    """

    manifest: Manifest
    out: Annotated[
        Path, Option("Directory for mels and file lists.", metavar="OUT", is_argument=True, shapes_output=False)
    ]
    devices: Devices = "auto"
