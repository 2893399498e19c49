"""Ogg pages (RFC 3533): checks whether a stream is complete, and sets its serial number."""

from collections.abc import Iterator

_MAX_PAGE = 27 + 255 + 255 * 255
TAIL_BYTES = _MAX_PAGE
"""Number of bytes to read at the end of a file to have its last whole page: the maximum size of a page."""
_END_OF_STREAM = 4


def page_crc(page: bytes) -> int:
    """Return the checksum of a page whose checksum field is zero.

    It is the complement of the checksum of the program `cksum`, without the length at the end.
    """
    from fastcrc import crc32  # here, because the import takes 3 ms

    return crc32.cksum(page) ^ 0xFFFFFFFF


def fault_at_end(tail: bytes) -> str | None:
    """Return the fault in the last `TAIL_BYTES` of a stream, for a message; None if the stream is complete."""
    at = tail.rfind(b"OggS")
    if at < 0:
        return "it does not end with an Ogg page"
    length = _page_length(tail, at)
    if length is None or at + length > len(tail):
        return "its last page is cut"
    page = tail[at : at + length]
    if not _fits(page):
        return "its last page is damaged"
    return None if page[5] & _END_OF_STREAM else "its last page is not marked as the end of the stream"


def pages_fit(data: bytes) -> bool:
    """Return whether a file consists of whole pages with the right checksums, whose numbers have no gaps."""
    try:
        pages = list(_pages(data))
        numbers = [int.from_bytes(page[18:22], "little") for page in pages]
        return all(map(_fits, pages)) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    except ValueError:
        return False


def _fits(page: bytes) -> bool:
    return page_crc(page[:22] + b"\0\0\0\0" + page[26:]) == int.from_bytes(page[22:26], "little")


def last_page_start(tail: bytes) -> int:
    """Return the granule position (in Vorbis: the sample number) at which the last page starts; 0 if unknown.

    `tail` has the last `2 * TAIL_BYTES` bytes of the file.
    """
    before = tail.rfind(b"OggS", 0, max(tail.rfind(b"OggS"), 0))
    granule = int.from_bytes(tail[before + 6 : before + 14], "little", signed=True) if before >= 0 else 0
    return max(granule, 0)  # -1 on a page on which no packet ends


def with_serial(data: bytes, serial: int) -> bytes:
    """Return a copy of a stream with another serial number; libsndfile writes a random one.

    Raises:
        ValueError: `data` does not consist of whole pages.
    """
    number = serial.to_bytes(4, "little")
    out = bytearray()
    for page in _pages(data):
        bare = page[:14] + number + page[18:22] + b"\0\0\0\0" + page[26:]
        out += bare[:22] + page_crc(bare).to_bytes(4, "little") + bare[26:]
    return bytes(out)


def _pages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length = _page_length(data, at)
        if data[at : at + 4] != b"OggS" or length is None or at + length > len(data):
            raise ValueError(f"no whole Ogg page at byte {at}")
        yield data[at : at + length]
        at += length


def _page_length(data: bytes, at: int) -> int | None:
    """Return the length of a page in bytes; None if its header is truncated."""
    if at + 27 > len(data):
        return None
    segments = data[at + 26]
    if at + 27 + segments > len(data):
        return None
    return 27 + segments + sum(data[at + 27 : at + 27 + segments])
