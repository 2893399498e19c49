"""The length of Vorbis in Ogg from its headers, as libsndfile states it, in a tenth of the time of opening the file.

libsndfile states the granule position of the last page, less that at which the audio starts. The start is the position
of the first page of audio, less the samples of its packets, whose block sizes follow from their first bytes and from
the modes at the end of the setup header (Vorbis I specification, 4.2 and 4.3).
"""

from prepcli.audio import ogg, ogg_pages
from prepcli.audio.info import AudioInfo
from prepcli.audio.source import Source

_CONTINUED, _LAST = 1, 4
# The last bits of the setup header as libvorbis writes it: two modes, the first of short blocks with mapping 0, the
# second of long blocks with mapping 1. Each has a flag for long blocks, 32 bits of 0, and 8 bits for the mapping.
_MODES = 1 | 1 << 6 + 41 | 1 << 6 + 41 + 33 | 1 << 6 + 41 + 41
_MODES_BYTES = 12


def stated(source: Source, pages: ogg_pages.Pages) -> AudioInfo | None:
    """Return the properties of a plain file of Vorbis, as libsndfile states them; None if it must open the file itself.

    Args:
        source: the file.
        pages: the contents of its page headers, which are plain.
    """
    data = source.read(0, pages.after)  # with the first page of audio
    packets = _header_packets(data[: pages.audio])
    if len(packets) != 3 or not ogg.pages_fit(data):
        return None
    first, comments, setup = packets
    short, long = 1 << (first[28] & 15), 1 << (first[28] >> 4)
    if not (
        first[:11] == b"\x01vorbis\0\0\0\0"
        and first[29] & 1
        and 64 <= short <= long <= 8192
        and comments[:7] == b"\x03vorbis"
        and _is_whole(comments)
        and setup[:7] == b"\x05vorbis"
        and (short == long or _has_usual_modes(setup))
    ):
        return None
    page = data[pages.audio :]
    samples = _samples(page, short, long)
    start = int.from_bytes(page[6:14], "little") - samples
    if start < 0 and page[5] & _LAST:  # samples at the end are dropped
        start = 0
    if not samples or start < 0 or pages.granule <= start:
        return None
    return AudioInfo("ogg", "VORBIS", int.from_bytes(first[12:16], "little"), pages.granule - start, first[11], None)


def _header_packets(data: bytes) -> list[bytes]:
    """Return the packets of whole pages; none if the last packet is not whole, or the first is not of 30 bytes."""
    packets = [b""]
    at = 0
    while at < len(data):
        lacing = data[at + 27 : at + 27 + data[at + 26]]
        at += 27 + len(lacing)
        for length in lacing:
            packets[-1] += data[at : at + length]
            at += length
            if length < 255:
                packets.append(b"")
    return packets[:-1] if not packets[-1] and len(packets[0]) == 30 else []


def _is_whole(comments: bytes) -> bool:
    """Return whether all comments are within their packet; libvorbis does not read the setup header otherwise."""
    at = 7
    at += 4 + int.from_bytes(comments[at : at + 4], "little")
    count = int.from_bytes(comments[at : at + 4], "little")
    at += 4
    for _ in range(min(count, len(comments))):
        at += 4 + int.from_bytes(comments[at : at + 4], "little")
    return at < len(comments) and comments[at] & 1 == 1


def _has_usual_modes(setup: bytes) -> bool:
    """Return whether the setup header ends with the two modes of libvorbis, and at most 7 bits after them."""
    end = int.from_bytes(setup[-_MODES_BYTES:], "little")
    return end >> max(end.bit_length() - _MODES.bit_length(), 0) == _MODES


def _samples(page: bytes, short: int, long: int) -> int:
    """Return the samples that the packets on a page add, without those before; 0 if there are none, or it is unknown.

    A packet begins with a bit of 0 and the number of its mode. Two blocks overlap by half.
    """
    if page[5] & _CONTINUED:
        return 0
    at = 27 + page[26]
    sizes = []
    is_start = True
    for length in page[27:at]:
        if is_start:
            if not length or page[at] & 1:
                return 0
            size = long if page[at] & 2 else short
        at += length
        is_start = length < 255
        if is_start:
            sizes.append(size)
    return (2 * sum(sizes) - sizes[0] - sizes[-1]) // 4 if sizes else 0
