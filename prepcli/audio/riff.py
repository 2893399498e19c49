"""WAV headers, parsed in 2 us; opening the file with libsndfile takes 40 us.

A plain file has one `fmt ` and one `data` chunk. All others are found here and read in pieces: files that a server has
written one after the other, several `data` chunks, and headers without a size. libsndfile would read the first piece,
or none.
"""

import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from shlex import quote
from typing import NamedTuple

from prepcli.audio.containers import SMALL_REST, has_rest, is_unknown
from prepcli.audio.info import NOT_PASSABLE, AudioInfo, unreadable
from prepcli.audio.limits import MAX_CHANNELS, MAX_SAMPLING_RATE, MIN_SAMPLING_RATE, SAME_SECONDS
from prepcli.audio.source import Source

# RIFF, size, "WAVEfmt ", size of fmt, then WAVEFORMAT: tag, channels, rate, bytes/s, block align, bits; then data.
_CANONICAL = struct.Struct("<4sI8sIHHIIHH4sI")
_CHUNK = struct.Struct("<4sI")
_FMT = struct.Struct("<HHIIHH")
MAGICS = (b"RIFF", b"RF64", b"BW64")
"""The first bytes of WAV files; the last two have sizes of 64 bits (EBU Tech 3306, ITU-R BS.2088)."""

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

_OTHER_CHUNKS = (b"LIST", b"id3 ", b"ID3 ", b"bext", b"cue ", b"fact", b"smpl", b"JUNK", b"PAD ", b"FLLR", b"PEAK")
_UNKNOWN_SIZE = 0xFFFFFFFF
_MAX_CHUNKS = 1000
_MAX_FMT = 64
_SEARCH_BYTES = 1 << 20

PLAIN_BYTES = _CANONICAL.size
"""Bytes of the header that most WAV files have: RIFF, `fmt ` of 16 bytes, `data`."""

DIFFERENT_PARTS = "holds parts of different formats, and libsndfile reads one at most; make a file of each part"

_Format = tuple[int, int, int, int, int]
"""Format tag, channels, sampling rate, block align, bits."""


class Piece(NamedTuple):
    """A `data` chunk: the `fmt ` chunk that describes it, and where its samples are, in bytes."""

    fmt: bytes
    offset: int
    size: int


def plain_seconds(head: bytes, size: int, file: int) -> float | None:
    """Return the duration of a WAV file with a plain header, from its first bytes.

    Args:
        head: the first `PLAIN_BYTES` bytes of the file.
        size: size of the file in bytes.
        file: the descriptor of the file, from which the header of a chunk after the samples is read.

    Returns:
        Seconds; None for all other files, and for those that must be rejected: `parse` handles them.
    """
    rate_and_align = _plain_format(head[8:40]) if head[:4] == b"RIFF" and len(head) == PLAIN_BYTES else None
    if rate_and_align is None:
        return None
    rate, align = rate_and_align
    num_bytes = int.from_bytes(head[40:], "little")
    end = PLAIN_BYTES + num_bytes + (num_bytes & 1)
    # If other data follow, or the size is unknown, `parse` looks at it.
    if num_bytes < align or (end != size and not (end < size and is_last_chunk(os.pread(file, 8, end), size - end))):
        return None
    return num_bytes // align / rate


def is_last_chunk(header: bytes, left: int) -> bool:
    """Return whether the `left` last bytes of a file, which begin with `header`, are one chunk without audio."""
    size = int.from_bytes(header[4:], "little") + 8
    return header[:4] in _OTHER_CHUNKS and size <= left <= size + 1


@lru_cache(maxsize=256)
def _plain_format(fields: bytes) -> tuple[int, int] | None:
    """Return sampling rate (Hz) and block align (bytes) from bytes 8 to 40 of a header; None if a field is unusual."""
    _, _, wave, fmt_size, tag, channels, rate, _, align, bits, data, _ = _CANONICAL.unpack(bytes(8) + fields + bytes(4))
    is_plain = (wave, fmt_size, data) == (b"WAVEfmt ", 16, b"data") and (tag, bits) in _SUBTYPES
    is_sound = align * 8 == channels * bits and 1 <= channels <= MAX_CHANNELS
    return (rate, align) if is_plain and is_sound and MIN_SAMPLING_RATE <= rate <= MAX_SAMPLING_RATE else None


def parse(head: bytes, source: Source, name: str) -> AudioInfo | None:
    """Return the properties of a RIFF, RF64 or BW64 file; `head` has its first 44 bytes, or the whole file.

    Returns:
        None for a layout or an encoding that only libsndfile or ffmpeg can read.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if the file is shorter or longer than its header says, has parts of different
            formats, or holds no samples.
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
    fmt: _Format | None = None
    long_size: int | None = None
    position = 12
    for _ in range(_MAX_CHUNKS):
        header = source.read(position, 8)
        if len(header) < 8:
            return None
        chunk, size = _CHUNK.unpack(header)
        position += 8
        if chunk == b"fmt ":
            if fmt is not None:
                return _joined(source, name)
            fmt = _format_chunk(source.read(position, min(size, 40)))
        elif chunk == b"ds64":
            long_size = _long_size(source, position)
        elif chunk == b"data":
            if fmt is None:
                return None
            if head[:4] == b"RIFF":
                return _finish("wav", fmt, position, size, source, name)
            container = "rf64" if head[:4] == b"RF64" and long_size is not None else NOT_PASSABLE
            size = long_size or 0 if size == _UNKNOWN_SIZE else size
            return _finish(container, fmt, position, size, source, name)
        position += size + (size & 1)
    return None


def _long_size(source: Source, position: int) -> int | None:
    """Return the size of the samples in a `ds64` chunk: RIFF size, data size, sample count, 64 bits each."""
    ds64 = source.read(position, 24)
    return int.from_bytes(ds64[8:16], "little") if len(ds64) == 24 else None


def _format_chunk(chunk: bytes) -> _Format | None:
    """Return the fields of a `fmt ` chunk; None for a layout that is not known.

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


def _finish(container: str, fmt: _Format, offset: int, size: int, source: Source, name: str) -> AudioInfo | None:
    tag, channels, rate, align, bits = fmt
    if not align or not rate:
        return None
    available = source.size - offset
    if size + (size & 1) != available:  # otherwise the file is plain
        if is_unknown(size, available):
            if size or not _is_empty(source, offset):
                if _has_header(source, offset):
                    return _joined(source, name)
                # libsndfile reads no samples if the size is 0 or if RF64 was not finished. It reads to the end of WAV
                # for the other sizes.
                container = container if size and container == "wav" else NOT_PASSABLE
                size = available
        elif size // align > available // align:
            unreadable(
                name,
                f"ends early: the header promises {size // align} samples, the file holds {max(available, 0) // align}",
            )
        elif (
            size < available
            and not is_last_chunk(source.read(end := offset + size + (size & 1), 8), source.size - end)
            and _has_more(source, offset, size, fmt, name)
        ):
            return _joined(source, name)
    if size < align:
        unreadable(name, "holds no samples")
    subtype = _SUBTYPES.get((tag, bits))
    if subtype is None or align * 8 != channels * bits:
        return None
    return AudioInfo(container, subtype, rate, size // align, channels, offset if subtype == "PCM_16" else None)


def _subtype(fmt: _Format) -> str | None:
    tag, channels, _, align, bits = fmt
    return _SUBTYPES.get((tag, bits)) if align * 8 == channels * bits else None


def _chunks(source: Source, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield type, offset and size of the chunks from byte `at` on, and at their end an empty type.

    A file that follows begins with a type of `MAGICS`; its chunks are yielded too. A data chunk without a known size
    ends where the next file begins, or with the source. Other chunks may end beyond the source.
    """
    long_size = 0
    for _ in range(_MAX_CHUNKS):
        header = source.read(at, 12)
        kind, size = header[:4], int.from_bytes(header[4:8], "little")
        if kind in MAGICS and header[8:] == b"WAVE":
            yield kind, at, 4
            at += 12
            continue
        if len(header) < 8 or not kind.strip().isalnum():
            break
        at += 8
        if kind == b"ds64":
            long_size = _long_size(source, at) or 0
        elif kind == b"data":
            size = long_size if size == _UNKNOWN_SIZE and long_size else size
            if is_unknown(size, source.size - at):
                size = _next_file(source, at) - at
        yield kind, at, size
        at += size
        if size & 1 and source.read(at, 1) == b"\0":  # some programs forget the padding
            at += 1
    yield b"", at, 0


def _is_empty(source: Source, at: int) -> bool:
    """Return whether a data chunk with the size 0, which ends at byte `at`, is really empty: only chunks follow."""
    *chunks, (_, end, _) = _chunks(source, at)
    return end == source.size and not any(kind == b"data" or kind in MAGICS for kind, _, _ in chunks)


def _has_more(source: Source, offset: int, num_bytes: int, fmt: _Format, name: str) -> bool:
    """Return whether more audio follows a data chunk: another piece or another format.

    Raises:
        RecordRejected: other data than chunks follow, and they are longer than 20 ms of audio.
    """
    tag, _, rate, align, _ = fmt
    small = max(SMALL_REST, round(SAME_SECONDS * rate) * align) if tag in (1, 3, 6, 7) else SMALL_REST
    end = offset + num_bytes
    padded = end + (num_bytes & 1 and source.read(end, 1) == b"\0")
    for kind, start, size in _chunks(source, padded):
        if kind in MAGICS or kind in (b"fmt ", b"data"):
            return True
        if kind and start + size <= source.size:
            continue
        rest = start - 8 if kind else start  # no chunk, or one that was cut off
        if source.size - rest > small and has_rest(source, rest):
            refuse_rest(source, rest, name, f"; if they are audio: ffmpeg -ignore_length 1 -i {quote(name)} OUT.wav")
        break
    return False


def refuse_rest(source: Source, end: int, name: str, advice: str = "") -> None:
    """Reject a file that is longer than its header says; `end` is the byte at which the audio ends."""
    unreadable(
        name,
        f"is longer than its header says: {source.size - end} bytes follow the audio; "
        f"to drop them: head -c {end} {quote(name)} > OUT{advice}",
    )


def _has_header(source: Source, at: int) -> bool:
    """Return whether another WAV header comes at byte `at` or later, in a file whose header has no size."""
    while len(block := source.read(at, _SEARCH_BYTES)) >= 8:
        if b"WAVEfmt " in block:
            return True
        at += len(block) - 7
    return False


def pieces(source: Source) -> list[Piece]:
    """Return all `data` chunks of a file that consists of one or several WAV files."""
    chunks: list[Piece] = []
    fmt = b""
    for kind, offset, size in _chunks(source, 0):
        if kind == b"fmt ":
            fmt = source.read(offset, min(size, _MAX_FMT))
        elif kind == b"data":
            chunks.append(Piece(fmt, offset, min(size, source.size - offset)))
    return chunks


def _next_file(source: Source, at: int) -> int:
    """Return the byte at which the next WAV file begins, at `at` or later, or the size of this one."""
    while len(block := source.read(at, _SEARCH_BYTES)) >= 16:
        header = block.find(b"WAVEfmt ")
        if header >= 8 and block[header - 8 : header - 4] in MAGICS:
            return at + header - 8
        at += len(block) - 15
    return source.size


def _joined(source: Source, name: str) -> AudioInfo | None:
    """Return the properties of a file with several pieces, which are read one after the other."""
    chunks = pieces(source)
    formats = {_format_chunk(piece.fmt) for piece in chunks}
    formats |= {_format_chunk(source.read(at, size)) for kind, at, size in _chunks(source, 0) if kind == b"fmt "}
    fmt = next(iter(formats), None)
    if len(formats) > 1:
        unreadable(name, DIFFERENT_PARTS)
    subtype = None if fmt is None else _subtype(fmt)
    if fmt is None or subtype is None:
        unreadable(name, "holds several parts with a codec that is not PCM; make a file of each part")
    samples = sum(piece.size // fmt[3] for piece in chunks)
    if not samples:
        unreadable(name, "holds no samples")
    return AudioInfo(NOT_PASSABLE, subtype, fmt[2], samples, fmt[1], None)


def plain_copy(source: Source) -> bytes:
    """Return a plain WAV file with the samples of all pieces of a file that `parse` has accepted."""
    chunks = pieces(source)
    fmt = chunks[0].fmt
    align = int.from_bytes(fmt[12:14], "little")
    body = b"".join(source.read(piece.offset, piece.size // align * align) for piece in chunks)
    size = min(len(body), _UNKNOWN_SIZE)  # libsndfile then reads to the end
    head = b"WAVE" + _CHUNK.pack(b"fmt ", len(fmt)) + fmt + _CHUNK.pack(b"data", size)
    return _CHUNK.pack(b"RIFF", min(len(head) + size, _UNKNOWN_SIZE)) + head + body


def format_tag(source: Source) -> int | None:
    """Return the tag of the codec; None without a `fmt ` and a `data` chunk."""
    chunks = pieces(source)
    if not chunks or len(chunks[0].fmt) < 16:
        return None
    fmt = chunks[0].fmt
    tag = int.from_bytes(fmt[:2], "little")
    return int.from_bytes(fmt[24:26], "little") if tag == _EXTENSIBLE and len(fmt) >= 26 else tag


def least_seconds(source: Source) -> float:
    """Return half of the length of coded audio by the number of samples in its header, else by the bit rate there."""
    fmt, num_bytes, samples = bytes(12), 0, 0
    for kind, at, size in _chunks(source, 0):
        if kind == b"fmt " and size >= len(fmt):
            fmt = source.read(at, len(fmt))
        elif kind == b"fact":
            samples = int.from_bytes(source.read(at, 4), "little")
        elif kind == b"data":
            num_bytes += size
    rate, byte_rate = int.from_bytes(fmt[4:8], "little"), int.from_bytes(fmt[8:], "little")
    if samples and rate and not is_unknown(samples, source.size):
        return samples / rate / 2
    return num_bytes / byte_rate / 2 if byte_rate else 0.0


def coded_stream(source: Source) -> bytes:
    """Return the bytes of audio that is not PCM, from all pieces."""
    return b"".join(source.read(piece.offset, piece.size) for piece in pieces(source))


def data_start(data: bytes) -> int:
    """Return the byte offset of the samples of a WAV file in which `parse` has found the data chunk."""
    position = 12
    while data[position : position + 4] != b"data" and position < len(data):
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        position += 8 + size + (size & 1)
    return position + 8
