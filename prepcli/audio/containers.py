"""Reads from headers the size of AIFF, AU, CAF, SPHERE, W64, MP4, WMA and WebM files, to find truncated ones."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from prepcli.audio.source import Source

# Sizes that programs write to a pipe, because they cannot go back to correct the header: the largest number of 31, 32,
# 63 or 64 bits, or a little less, for the header or for whole samples. libsndfile's log (`extra_info`) cannot replace
# these checks: it reports truncated AIFF, AU and W64, but neither CAF files that lack a few bytes nor SPHERE, and it
# reports complete AIFF files that were written to a pipe.
_PLACEHOLDERS = (range(0x7FFFE000, 0x80001000), range(0xFFFFE000, 1 << 32))
_MIN_UNKNOWN, _MANY_TIMES = 1_000_000_000, 16
# To a pipe, sox writes an AIFF header with a size of 0x7F000000 bytes of audio, rounded down to whole samples, plus the
# header.
_SOX_AIFF = range(0x7F000000 - 4096, 0x7F000000 + (1 << 16))
SMALL_REST = 512
"""Bytes after the audio that are ignored, whatever they are: the tags and the padding of many programs are shorter."""
_REST_BYTES = 1 << 20
_W64_RIFF = bytes.fromhex("726966662e91cf11a5d628db04c10000")
_SPHERE_FIELD = re.compile(rb"^(\w+) -(?:i|s\d+) (\S+)", re.MULTILINE)
MP4_BOXES = (b"ftyp", b"moov", b"wide")
"""The types of the first box of an MP4 or QuickTime file."""
_ASF_HEADER = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_ASF_FILE = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_MATROSKA, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_MAX_CHUNKS = 1000
_MAX_BOXES = 100_000
"""Maximum number of boxes that are read: a fragmented MP4 file has about two per second."""


def promised_bytes(head: bytes, source: Source) -> int | None:
    """Return the minimum size of a file in bytes according to its header; `head` has its first 9 KiB.

    Returns:
        None if the header does not have a size, and for formats other than NIST SPHERE, AIFF, AU, Wave64, CAF, MP4, WMA
        and WebM.
    """
    if head[:4] in (b"FORM", b"RIFX"):
        size = int.from_bytes(head[4:8], "big")
        return None if size in _SOX_AIFF else _known(size, 8, source)
    if head[:4] == b".snd":
        return _known(int.from_bytes(head[8:12], "big"), int.from_bytes(head[4:8], "big"), source)
    if head[:16] == _W64_RIFF:
        return _known(int.from_bytes(head[16:24], "little"), 0, source)
    if head[:4] == b"caff":
        return _caf(source)
    if head[4:8] in MP4_BOXES:
        return max((box.end for box in boxes(source)), default=None)
    if head[:16] == _ASF_HEADER:
        return _asf(head, source)
    if head[:4] == _MATROSKA:
        return _matroska(head)
    if head[:7] == b"NIST_1A":
        sphere = sphere_header(head)
        if sphere is not None and sphere.coding in ("pcm", "ulaw", "mu-law", "alaw"):
            return sphere.size + sphere.num_samples * sphere.num_channels * sphere.sample_bytes
    return None


def _known(size: int, base: int, source: Source) -> int | None:
    return None if is_unknown(size, source.size) else size + base


def is_unknown(size: int, there: int) -> bool:
    """Return whether the size in a header stands for "unknown", in a file that has `there` bytes of audio.

    Besides the usual numbers that is each size of 1 GB and more that is many times the file: downloads are rarely cut
    so short, but programs write round numbers to a pipe.
    """
    if size < _MIN_UNKNOWN:
        return not size
    return size > _MANY_TIMES * there or size >> 62 > 0 or any(size in sizes for sizes in _PLACEHOLDERS)


def has_rest(source: Source, end: int) -> bool:
    """Return whether data follow the audio, which ends at byte `end`, that are more than a tag or padding."""
    if source.size - end <= SMALL_REST:
        return False
    return any(source.read(end, _REST_BYTES))


def counts_all(head: bytes) -> bool:
    """Return whether `promised_bytes` is the size of the whole file. A CAF or SPHERE file may have more after it."""
    return head[:4] != b"caff" and head[:7] != b"NIST_1A"


def has_no_size(head: bytes, source: Source) -> bool:
    """Return whether an AU file has a size that libsndfile does not take for unknown, although it is."""
    size = int.from_bytes(head[8:12], "big")
    return size != 0xFFFFFFFF and is_unknown(size, source.size)


def with_open_end(data: bytes) -> bytes:
    """Return an AU file whose size is "to the end of the file", as libsndfile understands it."""
    return data[:8] + b"\xff\xff\xff\xff" + data[12:]


def _caf(source: Source) -> int | None:
    """Return the minimum size of a CAF file in bytes; None if its header does not have a size.

    A CAF file begins with 8 bytes, followed by chunks. A chunk has a 4-byte type, a 64-bit size and its data.
    """
    at = 8
    for _ in range(_MAX_CHUNKS):
        header = source.read(at, 12)
        if len(header) < 12:
            return None
        size = int.from_bytes(header[4:], "big")
        at += 12
        if header[:4] == b"data":
            return _known(size, at, source)
        at += size
    return None


class Box(NamedTuple):
    """A box of an MP4 file: its type, and the offsets of the box, of its content and of the next box."""

    kind: bytes
    start: int
    body: int
    end: int


def boxes(source: Source, at: int = 0, stop: int | None = None) -> Iterator[Box]:
    """Yield the boxes of an MP4 file (ISO 14496-12) from byte `at` to `stop`; the last may end beyond the file."""
    stop = source.size if stop is None else stop
    for _ in range(_MAX_BOXES):
        header = source.read(at, 16)
        size, kind, body = int.from_bytes(header[:4], "big"), header[4:8], at + 8
        if size == 1:
            size, body = int.from_bytes(header[8:16], "big"), at + 16
        elif size == 0:
            size = stop - at
        if at + 8 > stop or not kind.isalnum() or size < body - at:
            return
        yield Box(kind, at, body, at + size)
        at += size


def is_several_mp4(source: Source) -> bool:
    """Return whether a file is several MP4 files one after the other, of which ffmpeg reads the first."""
    kinds = [box.kind for box in boxes(source)]
    return kinds.count(b"moov") > 1 or kinds.count(b"ftyp") > 1


def _asf(head: bytes, source: Source) -> int | None:
    """Return the size of a WMA file in bytes; None for a recording of a live stream, or if the size is not in `head`.

    The size is in the object "file properties", which encoders write among the first objects of the header.
    """
    at = head.find(_ASF_FILE)
    is_live = at < 0 or len(head) < at + 104 or head[at + 88] & 1
    return None if is_live else _known(int.from_bytes(head[at + 40 : at + 48], "little"), 0, source)


def _matroska(head: bytes) -> int | None:
    """Return the size of a WebM file in bytes: the end of the segment, which follows the header; None if unknown."""
    length, at = _element_size(head, 4)
    start = at + length
    if head[start : start + 4] != _SEGMENT:
        return None
    size, at = _element_size(head, start + 4)
    is_unknown = size == (1 << 7 * (at - start - 4)) - 1
    return None if is_unknown else at + size


def _element_size(head: bytes, at: int) -> tuple[int, int]:
    """Return the size of a Matroska element in bytes, from the size field at byte `at`, and the byte after this field.

    The leading zero bits of the field give its own number of bytes.
    """
    width = 9 - head[at].bit_length() if head[at : at + 1] else 1
    return int.from_bytes(head[at : at + width], "big") & (1 << 7 * width) - 1, at + width


class Sphere(NamedTuple):
    """A NIST SPHERE header: its size in bytes, and the layout of the samples (`num_samples` per channel)."""

    size: int
    coding: str
    sampling_rate: int
    num_samples: int
    num_channels: int
    sample_bytes: int


def sphere_header(head: bytes) -> Sphere | None:
    """Return the fields of a NIST SPHERE header; None if a number is missing or wrong. The default coding is pcm."""
    fields = dict(_SPHERE_FIELD.findall(head.partition(b"end_head")[0]))
    try:
        return Sphere(
            int(head[8:16]),
            fields.get(b"sample_coding", b"pcm").decode("ascii"),
            int(fields[b"sample_rate"]),
            int(fields[b"sample_count"]),
            int(fields[b"channel_count"]),
            int(fields[b"sample_n_bytes"]),
        )
    except (KeyError, ValueError):
        return None
