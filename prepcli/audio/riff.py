"""WAV headers, parsed in 2 us; opening the file with libsndfile takes 40 us."""

import struct
from functools import lru_cache

from prepcli.audio.info import NOT_PASSABLE, AudioInfo, unreadable
from prepcli.audio.limits import MAX_CHANNELS, MAX_SAMPLING_RATE, MIN_SAMPLING_RATE
from prepcli.audio.source import Source

# RIFF, size, "WAVEfmt ", size of fmt, then WAVEFORMAT: tag, channels, rate, bytes/s, block align, bits; then data.
_CANONICAL = struct.Struct("<4sI8sIHHIIHH4sI")
_CHUNK = struct.Struct("<4sI")
_FMT = struct.Struct("<HHIIHH")

# Format tag and bits per sample -> libsndfile's subtype (tags from Microsoft's mmreg.h).
_SUBTYPES = {
    (1, 8): "PCM_U8",
    (1, 16): "PCM_16",
    (1, 24): "PCM_24",
    (1, 32): "PCM_32",
    (3, 32): "FLOAT",
    (3, 64): "DOUBLE",
    (6, 8): "ALAW",
    (7, 8): "ULAW",
}
_EXTENSIBLE = 0xFFFE
# The last 14 bytes of every KSDATAFORMAT_SUBTYPE_* GUID; its first two are the format tag.
_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")

# Data sizes that programs write to a pipe: 0, "unknown", and sox's 2 GiB less a page (the same values as in Kaldi's
# feat/wave-reader.cc).
_STREAMED = frozenset({0, 0x7FFFF000, 0x7FFFFFFF, 0xFFFFFFFF})
_MAX_CHUNKS = 1000

PLAIN_BYTES = _CANONICAL.size
"""Bytes of the header that most WAV files have: RIFF, `fmt ` of 16 bytes, `data`."""


def plain_seconds(head: bytes, size: int) -> float | None:
    """Return the duration of a WAV file with a plain header, from its first bytes.

    Args:
        head: the first `PLAIN_BYTES` bytes of the file.
        size: size of the file in bytes.

    Returns:
        Seconds; None for all other files, and for those that must be rejected: `parse` handles them.
    """
    found = _plain_format(head[8:40]) if head[:4] == b"RIFF" and len(head) == PLAIN_BYTES else None
    if found is None:
        return None
    rate, align = found
    num_bytes = int.from_bytes(head[40:], "little")
    if not align <= num_bytes <= size - PLAIN_BYTES or num_bytes in _STREAMED:
        return None
    return num_bytes // align / rate


@lru_cache(maxsize=256)
def _plain_format(fields: bytes) -> tuple[int, int] | None:
    """Return sampling rate (Hz) and block align (bytes) from bytes 8 to 40 of a header; None if a field is unusual."""
    _, _, wave, fmt_size, tag, channels, rate, _, align, bits, data, _ = _CANONICAL.unpack(bytes(8) + fields + bytes(4))
    is_plain = (wave, fmt_size, data) == (b"WAVEfmt ", 16, b"data") and (tag, bits) in _SUBTYPES
    is_sound = align * 8 == channels * bits and 1 <= channels <= MAX_CHANNELS
    return (rate, align) if is_plain and is_sound and MIN_SAMPLING_RATE <= rate <= MAX_SAMPLING_RATE else None


def parse(head: bytes, source: Source, name: str) -> AudioInfo | None:
    """Return the properties of a RIFF or RF64 file; `head` has at least its first 44 bytes, or the whole file.

    Returns:
        None for a layout or an encoding that only libsndfile can read.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if the file is shorter than its header says, or holds no samples.
    """
    if len(head) >= 44:
        riff, _, wave, fmt_size, tag, channels, rate, _, align, bits, data_id, data_size = _CANONICAL.unpack_from(head)
        if data_id == b"data" and wave == b"WAVEfmt " and fmt_size == 16 and riff == b"RIFF":
            return _finish("wav", (tag, channels, rate, align, bits), 44, data_size, source, name)
    return _walk(head, source, name)


def _walk(head: bytes, source: Source, name: str) -> AudioInfo | None:
    """Return the same as `parse`, for a file that may have other chunks before the chunk with the samples.

    Every chunk starts at an even offset.
    """
    is_rf64 = head[:4] == b"RF64"
    fmt: tuple[int, int, int, int, int] | None = None
    long_size: int | None = None
    position = 12
    for _ in range(_MAX_CHUNKS):
        header = source.read(position, 8)
        if len(header) < 8:
            return None
        chunk, size = _CHUNK.unpack(header)
        position += 8
        if chunk == b"fmt ":
            fmt = _format_chunk(source.read(position, min(size, 40)))
        elif chunk == b"ds64":
            # RIFF size, data size, sample count: 64 bits each (EBU Tech 3306).
            ds64 = source.read(position, 24)
            long_size = int.from_bytes(ds64[8:16], "little") if len(ds64) == 24 else None
        elif chunk == b"data":
            if fmt is None:
                return None
            if is_rf64:
                if size == 0xFFFFFFFF:
                    if not long_size:
                        return None
                    size = long_size
                return _finish("rf64", fmt, position, size, source, name)
            return _finish("wav", fmt, position, size, source, name)
        position += size + (size & 1)
    return None


def _format_chunk(chunk: bytes) -> tuple[int, int, int, int, int] | None:
    """Return tag, channels, rate, block align and bits of a `fmt ` chunk; None for a layout that is not known.

    WAVE_FORMAT_EXTENSIBLE has its tag in a GUID.
    """
    if len(chunk) < 16:
        return None
    tag, channels, rate, _, align, bits = _FMT.unpack_from(chunk)
    if tag == _EXTENSIBLE:
        if len(chunk) < 40 or chunk[26:40] != _GUID_TAIL:
            return None
        valid_bits = int.from_bytes(chunk[18:20], "little")
        if valid_bits not in (0, bits):
            return None
        tag = int.from_bytes(chunk[24:26], "little")
    return tag, channels, rate, align, bits


def _finish(
    container: str, fmt: tuple[int, int, int, int, int], offset: int, size: int, source: Source, name: str
) -> AudioInfo | None:
    tag, channels, rate, align, bits = fmt
    if not align or not rate:
        return None
    available = source.size - offset
    if size in _STREAMED and container == "wav":
        if not size and _only_chunks_follow(offset, source):
            available = 0
        elif not size and available:
            # libsndfile reads no samples if the size is 0, and reads to the end for the other values.
            container = NOT_PASSABLE
        size = available
    elif size > available:
        unreadable(
            name,
            f"ends early: the header promises {size // align} samples, the file holds {max(available, 0) // align}",
        )
    if size < align:
        unreadable(name, "holds no samples")
    subtype = _SUBTYPES.get((tag, bits))
    if subtype is None or align * 8 != channels * bits:
        return None
    return AudioInfo(container, subtype, rate, size // align, channels, offset if subtype == "PCM_16" else None)


def _only_chunks_follow(offset: int, source: Source) -> bool:
    """Return whether all bytes from `offset` on are whole chunks.

    `offset` is the end of a data chunk whose header has the size 0. If whole chunks follow, the data chunk is really
    empty. Otherwise its size is unknown.
    """
    for _ in range(_MAX_CHUNKS):
        left = source.size - offset
        if left <= 0:
            return True
        header = source.read(offset, 8)
        if len(header) < 8 or not header[:4].isalnum():
            return False
        size = int.from_bytes(header[4:], "little")
        if size + 8 > left:
            return False
        offset += 8 + size + (size & 1)
    return False


def with_open_end(data: bytes) -> bytes:
    """Return a WAV file whose data size of 0 is replaced by "to the end of the file"; other sizes stay."""
    start = data_start(data)
    if any(data[start - 4 : start]):
        return data
    return data[: start - 4] + b"\xff\xff\xff\xff" + data[start:]


def data_start(data: bytes) -> int:
    """Return the byte offset of the samples of a WAV file in which `parse` has found the data chunk."""
    position = 12
    while data[position : position + 4] != b"data" and position < len(data):
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        position += 8 + size + (size & 1)
    return position + 8
