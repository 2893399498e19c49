"""FLAC, MP3 and Opus as others write them: libsndfile, which comes with us, and programs that may be missing."""

from pathlib import Path
from typing import Any

import soundfile

from prepcli.audio import mpeg
from tests.audio.conftest import Samples
from tests.support.tools import tool

ENCODERS = ("libsndfile", "ffmpeg")

_MP3: dict[str, tuple[list[str], dict[str, Any]]] = {
    "constant": (["-b:a", "80k"], {"bitrate_mode": "CONSTANT", "compression_level": 0.5}),
    "variable": (["-q:a", "5"], {"bitrate_mode": "VARIABLE"}),
    "fine": (["-q:a", "2"], {"bitrate_mode": "VARIABLE", "compression_level": 0.2}),
}
"""Options of ffmpeg and of libsndfile. "constant" is 80 kbit/s: 360 bytes a frame where the rate is 16 kHz."""


def write_mp3(path: Path, samples: Samples, rate: int, kind: str, *, xing: bool, encoder: str) -> None:
    """Write an MP3 file; without `xing`, no header tells how long it is."""
    options, settings = _MP3[kind]
    if encoder == "ffmpeg":
        _ffmpeg(path, samples, rate, *options, "-write_xing", str(int(xing)))
        return
    soundfile.write(path, samples, rate, format="MP3", **settings)
    data = path.read_bytes()
    header = data[: mpeg._frame_length(int.from_bytes(data[:3], "big"))]  # a whole frame, without audio
    assert b"Xing" in header or b"Info" in header
    if not xing:
        path.write_bytes(data[len(header) :])


def write_opus(path: Path, samples: Samples, rate: int, kilobits: int, encoder: str) -> None:
    """Write Opus with so many kbit/s."""
    if encoder == "ffmpeg":
        _ffmpeg(path, samples, rate, "-c:a", "libopus", "-b:a", f"{kilobits}k")
    else:
        level = 1 - (kilobits - 6) / 250  # libsndfile's scale ends at 6 kbit/s
        soundfile.write(path, samples, rate, format="OGG", subtype="OPUS", compression_level=level)


def write_flac(path: Path, samples: Samples, rate: int, encoder: str) -> None:
    """Write FLAC; `encoder` is its name and, except for ffmpeg, the level or another option."""
    name, _, option = encoder.partition(" ")
    if name == "libsndfile":
        soundfile.write(path, samples, rate, format="FLAC", compression_level=float(option))
    elif name == "ffmpeg":
        _ffmpeg(path, samples, rate)
    else:
        wav = path.with_suffix(".wav")
        soundfile.write(wav, samples, rate)
        tool("flac", "--silent", "--force", "--lax", "--channel-map=none", option, "-o", path, wav)


def flac_of_unknown_length(data: bytes) -> bytes:
    """A mono FLAC file as an encoder leaves it that cannot go back to its start: nothing about size, no checksum."""
    return data[:12] + bytes(6) + data[18:21] + bytes([data[21] & 0xF0]) + bytes(4 + 16) + data[42:]


def _ffmpeg(path: Path, samples: Samples, rate: int, *options: str) -> None:
    wav = path.with_suffix(".wav")
    soundfile.write(wav, samples, rate)
    tool("ffmpeg", "-v", "error", "-y", "-i", wav, *options, path)
