"""A telephone recording from which many short pieces are read, sample-exact."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prepcli.audio import shorten
from prepcli.audio.info import NOT_PASSABLE, AudioInfo
from prepcli.audio.limits import check_claims
from prepcli.audio.opening import open_source
from prepcli.audio.probe import probe_file
from prepcli.audio.read import read_segment
from prepcli.processes.in_hand import take_in_hand

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RecordingFile:
    """A file on disk, of which only the requested samples are read.

    Attributes:
        path: path of the file.
        info: its properties.
        decoded: all samples, of shape (num_samples, num_channels), where the file cannot be read in part, such as one
            that is compressed with shorten (19 MB for ten minutes of a telephone call); otherwise None.
    """

    path: str
    info: AudioInfo
    decoded: "NDArray[Any] | None" = None

    def read(self, start: int, num_samples: int, channel: int) -> "NDArray[Any]":
        """Return samples `start` to `start + num_samples` of one channel, of shape (num_samples,).

        Raises:
            RecordRejected: as by `read_segment`.
        """
        take_in_hand(self.path, start, num_samples, channel)
        if self.decoded is not None:
            return self.decoded[start : start + num_samples, channel]
        samples: NDArray[Any] = read_segment(self.path, self.info, start, num_samples)[:, channel]
        return samples


def open_recording(path: str) -> RecordingFile:
    """Open a recording.

    Raises:
        RecordRejected: MISSING_AUDIO where the file does not exist, UNREADABLE_AUDIO where it cannot be read or is
            truncated.
    """
    take_in_hand(path)
    with open_source(path, path) as source:
        sphere = shorten.shortened_sphere(source)
        if sphere is not None:
            import numpy as np

            decoded = np.frombuffer(shorten.decode(source, sphere, path), "<i2").reshape(-1, sphere.num_channels)
            size = len(decoded), sphere.num_channels
            info = AudioInfo(NOT_PASSABLE, "PCM_16", sphere.sampling_rate, *size, data_offset=None)
            return RecordingFile(path, check_claims(info, source.size, path), decoded)
    info = probe_file(path)
    return RecordingFile(path, info, None if info.is_passable else read_segment(path, info))


def undecodable_coding(path: str) -> str | None:
    """Return the `sample_coding` of a file that is compressed with shorten and that this machine cannot decode.

    Returns:
        None for a file that can be decoded.

    Raises:
        RecordRejected: as by `open_source`.
    """
    with open_source(path, path) as source:
        sphere = shorten.shortened_sphere(source)
    return sphere.coding if sphere is not None and shorten.decoder(sphere.coding) is None else None
