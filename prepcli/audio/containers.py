"""How long other containers say that they are: libsndfile reads a file that was cut short without a word."""

import re
from typing import NamedTuple

from prepcli.audio.source import Source

# libsndfile's own log (`extra_info`) does not replace this: it says "(should be ...)" for AIFF, AU and W64, but nothing
# for CAF files that lack a few bytes and for SPHERE, and it says so for whole AIFF files that came through a pipe.
# Sizes that writers to a pipe leave behind.
_UNKNOWN = frozenset({0, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 64) - 1, (1 << 63) - 1})
# sox says 0x7F000000 bytes of audio in an AIFF on a pipe, rounded down to whole samples, and adds the header's size.
_SOX_AIFF = range(0x7F000000 - 4096, 0x7F000000 + (1 << 16))
_W64_RIFF = bytes.fromhex("726966662e91cf11a5d628db04c10000")
_SPHERE_FIELD = re.compile(rb"^(\w+) -(?:i|s\d+) (\S+)", re.MULTILINE)
_MAX_CHUNKS = 1000


def promised_bytes(head: bytes, source: Source) -> int | None:
    """Return the least size in bytes that the header asks for; None where it does not say, or is not known here.

    Knows NIST SPHERE, AIFF, AU, Wave64 and CAF; `head` is the start of the file (1024 bytes are enough).
    """
    if head[:4] == b"FORM":
        size = int.from_bytes(head[4:8], "big")
        return None if size in _SOX_AIFF else _known(size, 8)
    if head[:4] == b".snd":
        return _known(int.from_bytes(head[8:12], "big"), int.from_bytes(head[4:8], "big"))
    if head[:16] == _W64_RIFF:
        return _known(int.from_bytes(head[16:24], "little"), 0)
    if head[:4] == b"caff":
        return _caf(source)
    if head[:7] == b"NIST_1A":
        sphere = sphere_header(head)
        if sphere is not None and sphere.coding in ("pcm", "ulaw", "mu-law", "alaw"):
            return sphere.size + sphere.num_samples * sphere.num_channels * sphere.sample_bytes
    return None


def _known(size: int, base: int) -> int | None:
    return None if size in _UNKNOWN else size + base


def _caf(source: Source) -> int | None:
    """Chunks of a 4-byte type and a 64-bit size each, after 8 bytes; a size of -1 means up to the end."""
    at = 8
    for _ in range(_MAX_CHUNKS):
        header = source.read(at, 12)
        if len(header) < 12:
            return None
        size = int.from_bytes(header[4:], "big")
        at += 12
        if header[:4] == b"data":
            return _known(size, at)
        at += size
    return None


class Sphere(NamedTuple):
    """A NIST SPHERE header: its own size in bytes, and what it says of the samples (`num_samples` per channel)."""

    size: int
    coding: str
    sampling_rate: int
    num_samples: int
    num_channels: int
    sample_bytes: int


def sphere_header(head: bytes) -> Sphere | None:
    """Return the fields of a NIST SPHERE header, None where they are not all there or make no sense."""
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
