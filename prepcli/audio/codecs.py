"""The codec of audio in a WAV, Ogg or CAF file: what the file is comes from its stream, not from its container."""

from prepcli.audio import riff
from prepcli.audio.source import Source

_WAV_TAGS = {
    0x0002: "MS ADPCM",
    0x0011: "IMA ADPCM",
    0x0014: "G.723 ADPCM",
    0x0020: "Yamaha ADPCM",
    0x0022: "TrueSpeech",
    0x0031: "GSM",
    0x0040: "G.721 ADPCM",
    0x0042: "G.723.1",
    0x0045: "G.726",
    0x0050: "MP2",
    0x0055: "MP3",
    0x0064: "G.726",
    0x0065: "G.722",
    0x0083: "G.729",
    0x00FF: "AAC",
    0x0160: "WMA 1",
    0x0161: "WMA 2",
    0x0270: "ATRAC3",
    0x1600: "AAC",
    0x1610: "AAC",
    0x2000: "AC-3",
    0x2001: "DTS",
    0x566F: "Vorbis",
    0x674F: "Vorbis",
    0x6750: "Vorbis",
    0x6751: "Vorbis",
    0x676F: "Vorbis",
    0x6770: "Vorbis",
    0x6771: "Vorbis",
    0x704F: "Opus",
    0xA106: "AAC",
    0xA109: "Speex",
    0xF1AC: "FLAC",
}
"""Names of the format tags of WAV files (Microsoft's mmreg.h)."""
MPEG_TAGS = (0x0050, 0x0055)
_PCM_TAGS = (1, 3, 6, 7)
_OGG_SIGNS = {
    b"\x01vorbis": "Vorbis",
    b"OpusHead": "Opus",
    b"Speex   ": "Speex",
    b"\x7fFLAC": "FLAC",
    b"\x80theora": "Theora",
    b"fishead\0": "a skeleton",
    b"CELT    ": "CELT",
    b"PCM     ": "PCM",
    b"\x01video": "video",
    b"OVP80": "VP8",
    b"BBCD\0": "Dirac",
}
"""The first bytes of the first packet of an Ogg stream, each with the name of the codec."""
_LIBSNDFILES_CAF = (b"lpcm", b"ulaw", b"alaw")


def codec_of(head: bytes, source: Source) -> tuple[str, str] | None:
    """Return container and codec of a WAV, Ogg or CAF file that libsndfile cannot read, but ffmpeg may; else None."""
    if head[:4] in riff.MAGICS:
        tag = riff.format_tag(source)
        if tag is None or tag in _PCM_TAGS:
            return None
        return "WAV", _WAV_TAGS.get(tag, f"a codec with the format tag 0x{tag:04X}")
    if head[:4] == b"OggS":
        packet = head[27 + head[26] :] if len(head) > 27 else b""
        return "Ogg", next((name for sign, name in _OGG_SIGNS.items() if packet.startswith(sign)), "an unknown codec")
    if head[:4] == b"caff" and head[8:12] == b"desc" and head[28:32] not in _LIBSNDFILES_CAF:
        return "CAF", head[28:32].decode("latin-1").strip() or "an unknown codec"
    return None
