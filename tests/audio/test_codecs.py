"""Audio with a codec that libsndfile lacks: ffmpeg reads it, or a sentence has its name and what to do."""

import struct

import pytest

from prepcli.audio.codecs import codec_of
from prepcli.audio.probe import probe_bytes
from prepcli.audio.source import ByteSource
from prepcli.errors import RecordRejected
from tests.audio.bench import chunk, riff


def coded(tag: int, rate: int = 4000) -> bytes:
    """A WAV file with a format tag, and bytes that no codec has made."""
    return riff(chunk(b"fmt ", struct.pack("<HHIIHHH", tag, 1, 8000, rate, 1, 4, 0)), chunk(b"data", bytes(2000)))


@pytest.mark.parametrize(
    ("tag", "codec"), [(0x45, "G.726"), (0x83, "G.729"), (0xFF, "AAC"), (0x4242, "a codec with the format tag 0x4242")]
)
def test_a_codec_without_ffmpeg(tag: int, codec: str, no_tools: None) -> None:
    with pytest.raises(RecordRejected) as caught:
        probe_bytes(coded(tag), "a b.wav")
    assert caught.value.detail == (
        f"a b.wav holds {codec} in WAV, which libsndfile cannot read; ffmpeg reads it: install the Debian package "
        "ffmpeg, or convert it: ffmpeg -i 'a b.wav' OUT.flac"
    )


def test_names() -> None:
    ogg = b"OggS" + bytes(22) + b"\1\x1e"
    for packet, name in ((b"\x80theora", "Theora"), (b"\x7fFLAC", "FLAC"), (b"????????", "an unknown codec")):
        data = ogg + packet + bytes(40)
        assert codec_of(data, ByteSource(data)) == ("Ogg", name)
    caf = b"caff\0\1\0\0desc" + struct.pack(">Qd4s", 32, 16000, b"alac") + bytes(40)
    assert codec_of(caf, ByteSource(caf)) == ("CAF", "alac")
    for data in (coded(1), b"RIFF", b"fLaC", caf.replace(b"alac", b"lpcm")):
        assert codec_of(data, ByteSource(data)) is None
