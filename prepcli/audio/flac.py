"""FLAC without a decoder: reads STREAMINFO, and checks the last frame and all checksums.

Layout, codes and both checksums follow RFC 9639. To check the last frame takes about 15 us. libsndfile takes 100 us to
read the last sample, and 300 us to decode three seconds of audio.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from prepcli.audio import mpeg
from prepcli.audio.source import Source, is_near

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Usual encoders do not write longer frames. If STREAMINFO has no maximum, this many bytes at the end are searched.
_TAIL_BYTES = 1 << 17
_STREAMINFO_END = 42
_SYNC_CODES = (b"\xff\xf8", b"\xff\xf9")
_MAX_HEADER_BYTES = 64
_MAX_BLOCKS = 1000
_TAG_BYTES = 128  # an ID3v1 tag at the end
# In typical audio, one byte in 32,768 looks like the start of a frame, and hardly any passes the CRC-8 of the header.
_MAX_SYNC_CODES, _MAX_HEADERS = 4096, 4
_SUBTYPES = {8: "PCM_S8", 16: "PCM_16", 24: "PCM_24"}


class StreamInfo(NamedTuple):
    """STREAMINFO, the first metadata block; a value that the encoder did not know is 0.

    Attributes:
        block_size: samples per frame, in streams of fixed block size.
        max_frame_bytes: size of the largest frame.
        sampling_rate: in Hz.
        num_channels: number of channels.
        bits: bits per sample.
        num_samples: per channel.
        md5: the MD5 of the samples, little-endian and interleaved.
    """

    block_size: int
    max_frame_bytes: int
    sampling_rate: int
    num_channels: int
    bits: int
    num_samples: int
    md5: bytes = bytes(16)

    @property
    def subtype(self) -> str | None:
        """The name of the sample encoding in libsndfile; None for unusual widths, for which libsndfile decides."""
        return _SUBTYPES.get(self.bits)

    @property
    def tail_bytes(self) -> int:
        """Number of bytes to read at the end of the file: enough for the whole last frame and an ID3v1 tag after it."""
        return (self.max_frame_bytes or _TAIL_BYTES) + _TAG_BYTES


class FrameHeader(NamedTuple):
    """A frame header: the number of its first sample, its samples per channel, and its own length in bytes."""

    number: int
    samples: int
    num_bytes: int


def stream_info(head: bytes) -> StreamInfo | None:
    """Return STREAMINFO from the first 42 bytes of a file; None if the file does not start with it."""
    if len(head) < _STREAMINFO_END or head[:4] != b"fLaC" or head[4] & 0x7F or head[5:8] != b"\x00\x00\x22":
        return None
    packed = int.from_bytes(head[18:26], "big")  # rate in 20 bits, channels - 1 in 3, bits - 1 in 5, samples in 36
    return StreamInfo(
        int.from_bytes(head[10:12], "big"),
        int.from_bytes(head[15:18], "big"),
        packed >> 44,
        (packed >> 41 & 7) + 1,
        (packed >> 36 & 31) + 1,
        packed & 0xFFFFFFFFF,
        head[26:_STREAMINFO_END],
    )


def with_length(data: bytes, num_samples: int) -> bytes:
    """Return a copy of a FLAC file with `num_samples` in STREAMINFO; libsndfile cannot read a file with 0 there."""
    packed = int.from_bytes(data[18:26], "big") & ~0xFFFFFFFFF | num_samples
    return data[:18] + packed.to_bytes(8, "big") + data[26:]


def end_of_last_frame(tail: bytes, info: StreamInfo) -> int | None:
    """Return the number of samples per channel up to the end of the last frame in `tail`, the end of a file.

    Both checksums of the frame are verified, which also finds a truncated frame, except in two cases: the checksum fits
    the truncated frame by chance (1 in 65,000), or only one byte is missing and it is 0.

    Returns:
        None if no whole frame ends at the end of `tail`: the file is truncated, other data follow the audio, or the
        tail has thousands of false frame headers.
    """
    end = audio_end(tail)
    for sync in _SYNC_CODES:
        at, num_headers = end, 0
        for _ in range(_MAX_SYNC_CODES):
            at = tail.rfind(sync, 0, at)
            if at < 0 or num_headers == _MAX_HEADERS:
                break
            header = frame_header(tail[at : at + 16], info)
            if header is None:
                continue
            last = header.number + header.samples
            if last == (info.num_samples or last):
                num_headers += 1
                if crc16_fits(tail[at:end]):
                    return last
    return None


def is_one_stream(source: Source, head: bytes, info: StreamInfo, num_samples: int) -> bool:
    """Return whether a file begins with its frame 0 and, in its middle, has the frame that belongs there.

    A file whose last frame ends at the right sample may still consist of several parts of the same length, or be the
    end of a longer file. In both, frame numbers do not fit the place of the frames, because no frame is longer than
    the largest one.

    Args:
        source: the file.
        head: its first bytes.
        info: its STREAMINFO.
        num_samples: the number of the sample after its last frame.
    """
    start, known = 4, len(head) - 4
    for _ in range(_MAX_BLOCKS):
        block = head[start : start + 4] if start <= known else source.read(start, 4)
        start += 4 + int.from_bytes(block[1:], "big")
        if len(block) < 4 or block[0] & 0x80:
            break
    first = head[start : start + 5] if start < known else source.read(start, 5)
    if first[:2] not in _SYNC_CODES or first[4:] != b"\0":
        return False
    if first[1] & 1:  # a stream of variable block size has no number of frames
        return True
    size = info.block_size
    largest = info.max_frame_bytes or size * info.num_channels * info.bits // 8 + _MAX_HEADER_BYTES
    audio, num_frames = source.size - start, -(-num_samples // size) if size else 0
    if audio > largest * (num_frames or 1) + _TAG_BYTES:
        return False
    if audio <= 2 * largest or not is_near(source):
        return True
    middle = start + audio // 2
    part = source.read(middle, largest + _MAX_HEADER_BYTES)
    at = part.find(first[:3])  # the same codes of block size and rate
    if at < 0:
        return False
    frame, _ = _coded_number(part[at + 4 : at + 11])
    before = middle + at - start
    return frame * largest >= before and (num_frames - frame) * largest >= audio - before - _TAG_BYTES


def _coded_number(data: bytes) -> tuple[int, int]:
    """Return a number of up to 36 bits that is coded like UTF-8 (-1: it is not), and its bytes after the first."""
    first = data[0] if data else 0xFF
    if first < 0x80:
        return first, 0
    extra = 0
    while first & (0x40 >> extra):
        extra += 1
    if not 1 <= extra <= 6:
        return -1, 0
    number = first & 0x3F >> extra
    for byte in data[1 : 1 + extra]:
        number = number << 6 | byte & 0x3F
    return number, extra


def frames_fit(data: bytes) -> bool:
    """Return whether the checksums of all frames of a file are right; False also if other data follow the audio.

    Damage to up to 16 consecutive bits is always found. Each frame, with its CRC-16 at the end, is a multiple of the
    polynomial (see `crc16_fits`), and so are all frames one after the other: their boundaries do not matter.
    """
    start, end = first_frame(data), audio_end(data)
    return 0 < start < end and crc16_fits(memoryview(data)[start:end])


def first_frame(data: bytes) -> int:
    """Return the byte at which the audio starts, after tags and metadata blocks.

    Returns:
        -1 if the file is not FLAC, or no metadata block is marked as the last.
    """
    at = mpeg.skip_id3v2(data)
    if data[at : at + 4] != b"fLaC":
        return -1
    at += 4
    while at + 4 <= len(data):
        is_last = data[at] & 0x80
        at += 4 + int.from_bytes(data[at + 1 : at + 4], "big")
        if is_last:
            return at
    return -1


def audio_end(data: bytes) -> int:
    """Return the byte at which the audio ends: the start of an ID3v1 tag, or the end of the file."""
    return len(data) - 128 if data[-128:-125] == b"TAG" else len(data)


def is_other_audio(data: bytes, samples: "NDArray[Any]") -> bool:
    """Return whether the MD5 of `samples` differs from the MD5 in STREAMINFO; False if they cannot be compared.

    `samples` are all samples of the file, as `read_segment` returns them.
    """
    import hashlib

    import numpy as np

    start = mpeg.skip_id3v2(data)
    info = stream_info(data[start : start + _STREAMINFO_END])
    if info is None or not any(info.md5):
        return False
    if info.bits == 16 and samples.dtype == np.int16:
        encoded = np.ascontiguousarray(samples, "<i2")
    elif info.bits == 24 and samples.dtype == np.int32:
        # The upper three bytes of each int32.
        encoded = np.ascontiguousarray(np.ascontiguousarray(samples, "<i4").view(np.uint8).reshape(-1, 4)[:, 1:])
    elif info.bits == 8 and samples.dtype == np.int16:
        encoded = (samples >> 8).astype(np.int8)
    else:
        return False
    return hashlib.md5(encoded.data, usedforsecurity=False).digest() != info.md5


def frame_header(header: bytes, info: StreamInfo) -> FrameHeader | None:
    """Return what a frame header says; None if `header`, the first 16 bytes of a frame, is not a frame header."""
    if len(header) < 6 or header[3] & 1 or header[3] >> 4 > 10:
        return None
    first, extra = _coded_number(header[4:11])
    if first < 0:
        return None
    position = 5 + extra
    block_code, rate_code = header[2] >> 4, header[2] & 15
    if block_code in (6, 7):
        width = block_code - 5
        block = int.from_bytes(header[position : position + width], "big") + 1
        position += width
    elif block_code == 0:
        return None
    else:
        block = 192 if block_code == 1 else 576 << block_code - 2 if block_code < 6 else 256 << block_code - 8
    position += {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if rate_code == 15 or len(header) <= position or crc8(header[:position]) != header[position]:
        return None
    # A stream of fixed block size counts frames, one of variable block size counts samples.
    return FrameHeader(first if header[1] & 1 else first * info.block_size, block, position + 1)


def crc8(data: bytes) -> int:
    """Return the CRC-8 of `data` with the polynomial x^8 + x^2 + x + 1 and the initial value 0."""
    from fastcrc import crc8

    return crc8.smbus(data)


def crc16(data: bytes | memoryview) -> int:
    """Return the CRC-16 of `data`: the remainder of x^16 `data` modulo x^16 + x^15 + x^2 + 1 over GF(2)."""
    from fastcrc import crc16  # here, as above: the import takes 3 ms

    return crc16.umts(data)


def crc16_fits(frame: bytes | memoryview) -> bool:
    """Return whether a frame with its CRC-16 at the end is a multiple of the polynomial, as it is if it is whole."""
    return not crc16(frame)
