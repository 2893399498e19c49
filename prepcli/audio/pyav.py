"""Audio in the formats of `audio.ffmpeg`, decoded within this process by PyAV, if it is installed (`prepcli[av]`).

PyAV carries FFmpeg's libraries, so no process is started for each file. It may only accept a file: all that is unusual
(an error, damage, properties that change within the stream, a codec that is not in `CODECS`) is left to ffmpeg's
process, so that it alone decides what is damaged, and has the words for it.
"""

from contextlib import closing
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, NamedTuple

from prepcli.audio.source import Source

if TYPE_CHECKING:
    from av.container import InputContainer

CODECS = frozenset(("aac", "alac", "mp3", "mp3float", "wmav1", "wmav2", "vorbis", "gsm", "speex", "amrnb", "amrwb"))
"""FFmpeg's names of the decoders whose samples tests compare with those of ffmpeg's process.

Not `opus`: FFmpeg 8 and FFmpeg 5 remove different numbers of samples at the start of WebM. Not `adpcm_*`: the samples
differ by more than rounding.
"""


_TOO_NEW = 19


class AudioShape(NamedTuple):
    """The properties of decoded audio: `num_samples` is per channel."""

    sampling_rate: int
    num_samples: int
    num_channels: int


@cache
def is_installed() -> bool:
    """Return whether PyAV is installed in a version that decodes as ffmpeg 5.1 does.

    PyAV 19 leaves out the padding at the end of M4A, so that durations would differ.
    """
    return find_spec("av") is not None and int(version("av").partition(".")[0]) < _TOO_NEW


def decode(source: Source, demuxer: str, output: IO[bytes]) -> AudioShape | str:
    """Write all samples of the first audio stream to `output`: float32, the channels interleaved.

    Returns:
        The properties of the audio. Or, in a few words, why the file is left to ffmpeg; then `output` is empty.

    Raises:
        OSError: if the source cannot be read, or `output` cannot be written.
    """
    import av

    file = source.for_process()
    with open(file, "rb", closefd=False) if isinstance(file, int) else closing(file) as audio:
        try:
            # The bytes come from `audio`; the protocol `pipe` lets FFmpeg open nothing by a name.
            with av.open(audio, format=demuxer, container_options={"protocol_whitelist": "pipe"}) as container:
                found = _write_samples(container, output)
        except (av.FFmpegError, ValueError) as error:  # ValueError: the resampler got frames of two kinds
            found = str(error)
    if isinstance(found, str):
        output.truncate(output.seek(0))
    return found


def _write_samples(container: "InputContainer", output: IO[bytes]) -> AudioShape | str:
    """Write all samples of the first audio stream, as `decode` does; an error of PyAV is raised."""
    from av.audio.resampler import AudioResampler

    if not container.streams.audio:
        return "it has no audio"
    stream = container.streams.audio[0]
    if stream.codec_context.name not in CODECS:
        return f"its codec is {stream.codec_context.name}"
    resampler = AudioResampler(format="flt")  # only the format is converted
    properties: set[tuple[int, int]] = set()
    num_samples = 0
    for packet in container.demux(stream):
        if packet.is_corrupt:
            return "a packet is damaged"
        for frame in packet.decode():
            if frame.is_corrupt:
                return "a frame is damaged"
            properties.add((frame.sample_rate, frame.layout.nb_channels))
            for same in resampler.resample(frame):
                output.write(memoryview(same.planes[0])[: same.samples * same.layout.nb_channels * 4])
                num_samples += same.samples
    if len(properties) != 1:
        return "its properties change" if properties else "it has no audio"
    sampling_rate, num_channels = properties.pop()
    return AudioShape(sampling_rate, num_samples, num_channels)
