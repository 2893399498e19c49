"""Reads the output of `find-duplicates`, and finds the records that it lists in manifests."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.errors import UsageError, option
from prepcli.formats.names import normal_path
from prepcli.jobs.records import hash_segments
from prepcli.manifest.columns import key_bytes
from prepcli.planning.hashing import Hashes

Segment = tuple[str, float, float]
"""A segment: absolute path, and offset and duration in seconds."""


class DuplicateLine(msgspec.Struct):
    """A line of the output of `find-duplicates`."""

    audio_filepath: str
    duration: float
    duplicate_place: int
    duplicate_group: int = 0
    duplicate_by: str = ""
    offset: float | None = None

    @property
    def segment(self) -> Segment:
        """The segment that the line names."""
        return self.audio_filepath, self.offset or 0.0, self.duration


def read_duplicate_lines(name: str, path: Path) -> list[DuplicateLine]:
    """Read a file that `find-duplicates` has written.

    Args:
        name: the option that names the file, for messages.
        path: the file.

    Raises:
        UsageError: the file is not the output of `find-duplicates`.
    """
    decoder = msgspec.json.Decoder(DuplicateLine)
    try:
        return [decoder.decode(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{option(name, path)}: that is not the output of find-duplicates: {error}") from None


def segment_forms(segments: Sequence[Segment], base_dir: str) -> Hashes:
    """The sorted hashes by which segments are found in a manifest whose relative paths start from `base_dir`.

    Each segment has two hashes: one of its absolute path, and one of its path from `base_dir`, an absolute folder.
    """
    return np.sort(_forms(segments, base_dir))


def _forms(segments: Sequence[Segment], base_dir: str) -> Hashes:
    """The hashes of segments by their absolute paths, then those by their paths from `base_dir`."""
    paths = [normal_path(path) for path, _, _ in segments]
    prefix = f"{base_dir.removesuffix('/')}/"
    offsets, durations = (np.array([one[column] for one in segments], np.float64) for column in (1, 2))
    both = [
        hash_segments(np.frombuffer(b"".join(map(key_bytes, names)), "<u8"), offsets, durations)
        for names in (paths, [path.removeprefix(prefix) for path in paths])
    ]
    return np.concatenate(both)


class KeyPairs(NamedTuple):
    """Pairs of a record's number and a key, as two arrays of equal length; a record may be in several pairs."""

    records: NDArray[np.int64]
    keys: Hashes


def pairs_of(
    listed: Sequence[DuplicateLine], base_dirs: Sequence[str], segments: Hashes, first: Sequence[int]
) -> KeyPairs:
    """Find the listed records in manifests, and pair each with a hash of its group of duplicates.

    Args:
        listed: the lines of `find-duplicates`.
        base_dirs: for each manifest, the absolute folder of its relative paths.
        segments: the hash of each record's segment, as `hash_segments` returns it.
        first: the number of the first record of each manifest.
    """
    groups = np.frombuffer(b"".join(key_bytes(f"{one.duplicate_by} {one.duplicate_group}") for one in listed), "<u8")
    records, keys = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for source, base_dir in enumerate(base_dirs):
        forms = _forms([one.segment for one in listed], base_dir)
        order = np.argsort(forms, kind="stable")
        here = segments[first[source] : first[source + 1]]
        begin, end = (np.searchsorted(forms[order], here, side) for side in ("left", "right"))
        counts = end - begin
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        records.append(np.repeat(np.arange(len(here)) + first[source], counts))
        keys.append(np.tile(groups, 2)[order][np.repeat(begin, counts) + within])
    return KeyPairs(np.concatenate(records), np.concatenate(keys))
