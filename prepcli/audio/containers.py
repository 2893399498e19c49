"""Sizes in the headers of less common containers: libsndfile reads truncated files without an error."""

import re
from typing import NamedTuple

from prepcli.audio.source import Source

# libsndfile's log (`extra_info`) cannot replace this: it reports truncated AIFF, AU and W64, but neither CAF files that
# lack a few bytes nor SPHERE, and it reports whole AIFF files that were written to a pipe.
# Sizes that programs write to a pipe, where they cannot go back to correct the header.
_UNKNOWN = frozenset({0, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 64) - 1, (1 << 63) - 1})
# In an AIFF file on a pipe sox writes 0x7F000000 bytes of audio, rounded down to whole samples, plus the header.
_SOX_AIFF = range(0x7F000000 - 4096, 0x7F000000 + (1 << 16))
_W64_RIFF = bytes.fromhex("726966662e91cf11a5d628db04c10000")
_SPHERE_FIELD = re.compile(rb"^(\w+) -(?:i|s\d+) (\S+)", re.MULTILINE)
_MAX_CHUNKS = 1000


def promised_bytes(head: bytes, source: Source) -> int | None:
    """Return the minimum size of the file in bytes according to its header.

    Args:
        head: the start of the file; 1024 bytes are enough.
        source: the file.

    Returns:
        None where the header does not have a size, and for formats other than NIST SPHERE, AIFF, AU, Wave64 and CAF.
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
    """Walk over the chunks: after 8 bytes each has a 4-byte type and a 64-bit size; -1 means up to the end."""
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
    """A NIST SPHERE header: its size in bytes, and the layout of the samples (`num_samples` per channel)."""

    size: int
    coding: str
    sampling_rate: int
    num_samples: int
    num_channels: int
    sample_bytes: int


def sphere_header(head: bytes) -> Sphere | None:
    """Return the fields of a NIST SPHERE header, None where one is missing or is not a number."""
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
