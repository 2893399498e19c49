"""Speech-like recordings, and the programs that encode, join and cut them, for odd files (`oddities`)."""

import itertools
import struct
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.ogg import page_crc
from tests.audio.signals import RATE, written
from tests.support.tools import tool

FIRST, SECOND = 2.0, 3.15
"""Seconds of the two recordings of which most files are made."""


def speech_like(seconds: float, rate: int = RATE, seed: int = 0) -> NDArray[np.int16]:
    """Int16 samples (n,): a few harmonics that swell three times per second, and noise."""
    generator = np.random.default_rng(seed)
    time = np.arange(round(seconds * rate)) / rate
    tones = (140, 280, 560, 900, 1700)
    wave = sum(np.sin(2 * np.pi * tone * time + generator.uniform(0, 6)) / k for k, tone in enumerate(tones, 1))
    wave = 0.2 * wave * (0.6 + 0.4 * np.sin(6 * np.pi * time)) + 0.005 * generator.standard_normal(len(time))
    return (np.clip(wave, -0.99, 0.99) * 32767).astype(np.int16)


def chunk(kind: bytes, body: bytes, size: int | None = None) -> bytes:
    """A chunk of RIFF with padding; `size` is what it claims."""
    return kind + struct.pack("<I", len(body) if size is None else size) + body + b"\0" * (len(body) & 1)


def riff(*chunks: bytes, size: int | None = None, magic: bytes = b"RIFF") -> bytes:
    """A WAV file of these chunks."""
    body = b"WAVE" + b"".join(chunks)
    return magic + struct.pack("<I", len(body) if size is None else size) + body


def fmt(rate: int = RATE, bits: int = 16) -> bytes:
    """A `fmt ` chunk of mono PCM."""
    return chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, rate, rate * bits // 8, bits // 8, bits))


def rf64(data_size: int, *chunks: bytes, magic: bytes = b"RF64") -> bytes:
    """A file with 64-bit sizes, whose `ds64` claims so many bytes of samples."""
    sizes = chunk(b"ds64", struct.pack("<QQQI", 0, data_size, 0, 0))
    return riff(sizes, *chunks, size=0xFFFFFFFF, magic=magic)


def ogg_pages(data: bytes) -> list[bytes]:
    """The pages of an Ogg file."""
    starts = [*(at for at in range(len(data)) if data[at : at + 4] == b"OggS"), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(starts)]


def renumbered(pages: list[bytes]) -> bytes:
    """The pages with consecutive numbers and checksums that fit."""
    bare = [page[:18] + struct.pack("<I", at) + bytes(4) + page[26:] for at, page in enumerate(pages)]
    return b"".join(page[:22] + page_crc(page).to_bytes(4, "little") + page[26:] for page in bare)


def with_length(data: bytes, samples: int) -> bytes:
    """A FLAC file that claims so many samples."""
    packed = int.from_bytes(data[18:26], "big") & ~0xFFFFFFFFF | samples
    return data[:18] + packed.to_bytes(8, "big") + data[26:]


def stated(data: bytes, count: int | None) -> bytes:
    """An MP3 file whose Xing or Info header states so many frames, or no number."""
    at = max(data.find(b"Info"), data.find(b"Xing"))
    if count is None:
        return data[: at + 7] + bytes((data[at + 7] & ~1,)) + data[at + 8 :]
    return data[: at + 8] + struct.pack(">I", count) + data[at + 12 :]


class Bench:
    """The recordings, and the programs that encode, join and cut them in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._encoded: dict[object, bytes] = {}
        self.a, self.b = speech_like(FIRST), speech_like(SECOND, seed=1)
        self.data, self.more = chunk(b"data", self.a.tobytes()), chunk(b"data", self.b.tobytes())

    @cached_property
    def long(self) -> NDArray[np.int16]:
        """Both recordings, twice, with a pause."""
        return np.concatenate([self.a, self.b, np.zeros(RATE, np.int16), self.a, self.b])

    def wav(self, which: str) -> Path:
        """A WAV file of `a`, `b`, `other` (as long as `a`), `long`, `b22` (22 kHz), `a8` (8 kHz), or `stereo`."""
        path = self.folder / f"{which}.wav"
        if not path.exists():
            rate = {"b22": 22050, "a8": 8000}.get(which, RATE)
            samples = {
                "a": lambda: self.a,
                "b": lambda: self.b,
                "other": lambda: speech_like(FIRST, seed=2),
                "long": lambda: self.long,
                "b22": lambda: speech_like(SECOND, 22050, seed=1),
                "a8": lambda: speech_like(FIRST, 8000),
                "stereo": lambda: np.stack([self.b, self.b], axis=1),
            }[which]()
            path.write_bytes(written(samples, "WAV", "PCM_16", rate))
        return path

    def ffmpeg(self, which: str, suffix: str, *options: object) -> bytes:
        """A file of a recording, encoded by ffmpeg; the suffix chooses the container."""
        path, key = self.folder / f"out{suffix}", (which, suffix, *options)
        if key not in self._encoded:
            tool("ffmpeg", "-v", "error", "-y", "-i", self.wav(which), *map(str, options), path)
            self._encoded[key] = path.read_bytes()
        return self._encoded[key]

    def mp3(self, which: str, *options: object) -> bytes:
        """An MP3 file without tags, at 48 kbit/s if no options are given."""
        return self.ffmpeg(which, ".mp3", "-id3v2_version", 0, *(options or ("-b:a", "48k")))

    def copied(self, suffix: str, data: list[bytes], *options: object) -> bytes:
        """Files of this suffix, joined by ffmpeg without decoding; `options` come first, such as a start."""
        names = []
        for number, content in enumerate(data):
            names.append(self.folder / f"part{number}{suffix}")
            names[-1].write_bytes(content)
        listing = self.folder / "parts.txt"
        listing.write_text("".join(f"file '{name}'\n" for name in names))
        source: list[str | Path] = (
            ["-i", names[0]] if len(names) == 1 else ["-f", "concat", "-safe", "0", "-i", listing]
        )
        path = self.folder / f"out{suffix}"
        tool("ffmpeg", "-v", "error", "-y", *map(str, options), *source, "-c", "copy", path)
        return path.read_bytes()

    def flac(self, which: str) -> bytes:
        """A file by the reference encoder."""
        if which not in self._encoded:
            tool("flac", "--silent", "--force", "-o", self.folder / "out.flac", self.wav(which))
            self._encoded[which] = (self.folder / "out.flac").read_bytes()
        return self._encoded[which]
