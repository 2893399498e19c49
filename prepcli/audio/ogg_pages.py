"""The pages of an Ogg file (RFC 3533, RFC 7845): whether one is missing, and how many streams there are.

libsndfile takes the length from the last page. It states too much if a page is missing, and it reads only the first of
several streams that follow one another.
"""

import struct
from typing import NamedTuple
from zlib import adler32

from prepcli.audio import ogg
from prepcli.audio.info import AudioInfo
from prepcli.audio.source import ByteSource, Source

_FIRST, _LAST = 2, 4
# Capture pattern, flags, granule position, page number, number of segments.
_PAGE = struct.Struct("<4sxBq4xI4xB")
_MAX_HEADER = _PAGE.size + 255
_BLOCK = 1 << 16  # a whole short file, or many pages of a long one
_OPUS_RATES = (8000, 12000, 16000, 24000)


class Pages(NamedTuple):
    """The contents of the headers of all pages.

    Attributes:
        streams: the bytes at which streams begin that follow the end of others; the first is 0.
        is_plain: whether the file is one stream, its pages are numbered without gaps, and their granule positions fit
            the number of packets.
        has_gap: whether the numbers of the pages have a gap, or repeat.
        last: the byte at which the last page begins.
        granule: the granule position of the last page.
        packet: samples that each packet of Opus has, or the maximum that a packet of Vorbis adds.
        audio: the byte at which the first page with audio begins.
        after: the byte at which the page after that begins.
    """

    streams: list[int]
    is_plain: bool
    has_gap: bool
    last: int
    granule: int
    packet: float
    audio: int
    after: int


def scan(source: Source) -> Pages | None:
    """Read the headers of all pages, in 1.5 us each; None if the file does not consist of whole pages."""
    size, unpack = source.size, _PAGE.unpack_from
    block = source.data if isinstance(source, ByteSource) else source.read(0, _BLOCK)
    streams: list[int] = []
    has_gap, fits = False, True
    at = start = begin = expected = packets = longest = before = audio = after = 0
    granule, usual = -1, 0.0
    while at < size:
        if at - begin + _MAX_HEADER > len(block):
            begin, block = at, source.read(at, _BLOCK)
            if len(block) < _PAGE.size:
                return None
        sign, flags, position, number, segments = unpack(block, at - begin)
        if sign != b"OggS":
            return None
        lacing = block[at - begin + 27 : at - begin + 27 + segments]
        start, at = at, at + 26 + segments + (adler32(lacing) & 0xFFFF)  # 1 and the sum of up to 255 bytes
        if flags & _FIRST:
            if before & _FIRST:
                fits = False  # several streams side by side
            else:
                streams.append(start)
                expected, granule, packets, usual = number, -1, 0, 0.0
                longest = _longest_packet(block[start - begin + 28 : start - begin + 58])
        if number != expected:
            has_gap = True
        expected, before = number + 1, flags
        packets += segments - lacing.count(255)
        if position >= 0:  # else no packet ends on the page
            if position and granule >= 0 and packets:
                # All packets of Opus are of the same length, except that the end of the last may be dropped. Those of
                # Vorbis have a longest length.
                if not audio:
                    audio, after = start, at
                length = (position - granule) / packets
                usual = longest or usual or length
                fits = fits and (length == usual or (length < usual and (longest > 0 or flags & _LAST > 0)))
            granule, packets = position, 0
        elif position < -1:
            fits = False
    if at != size or not streams:
        return None
    is_plain = fits and not has_gap and len(streams) == 1
    return Pages(streams, is_plain, has_gap, start, granule, usual, audio, after)


def _longest_packet(packet: bytes) -> int:
    """Return the most samples that a packet of Vorbis adds, from the first packet; 0 for other codecs.

    Two blocks overlap by half. The exponent of the longer block size is in the upper half of byte 28.
    """
    return 1 << (packet[28] >> 4) - 1 if packet[:7] == b"\x01vorbis" and len(packet) > 28 and packet[28] >> 4 else 0


def stated_opus(source: Source, pages: Pages) -> AudioInfo | None:
    """Return the properties of a plain file of Opus, as libsndfile states them; None if it must open the file itself.

    That takes an eighth of the time of opening the file.
    """
    data = source.read(0, pages.after)  # with the first page of audio: libsndfile skips it if it is damaged
    packet = data[28:47]
    if packet[:9] != b"OpusHead\1" or packet[18:] != b"\0" or not ogg.pages_fit(data):
        return None
    channels, skipped = packet[9], int.from_bytes(packet[10:12], "little")
    encoded_rate = int.from_bytes(packet[12:16], "little")
    rate = next((rate for rate in _OPUS_RATES if encoded_rate <= rate), 48000)
    samples = (pages.granule - skipped) // (48000 // rate)
    # The first packet shows whether the audio begins with its first sample.
    page = data[pages.audio :]
    is_whole = pages.packet == _opus_samples(page[27 + page[26] :][:2])
    if not is_whole or not encoded_rate or samples <= 0 or channels not in (1, 2):
        return None
    return AudioInfo("opus", "OPUS", rate, samples, channels, None)


def _opus_samples(packet: bytes) -> int:
    """Return the samples in a packet of Opus at 48 kHz, from its first two bytes (RFC 6716, 3.1)."""
    if len(packet) < 2:
        return 0
    config, code = packet[0] >> 3, packet[0] & 3
    if config < 12:
        samples = (480, 960, 1920, 2880)[config & 3]
    else:
        samples = 480 << (config & 1) if config < 16 else 120 << (config & 3)
    return samples * (1, 2, 2, packet[1] & 63)[code]
