"""Finds records whose files have the same bytes, so that their audio is decoded once."""

import contextlib
import os
from typing import NamedTuple

import numpy as np

from prepcli.audio.opening import open_source, read_whole
from prepcli.audio.segments import Segment
from prepcli.audio.source import refuse
from prepcli.errors import RecordRejected
from prepcli.jobs.records import Records
from prepcli.planning.arrays import Scratch
from prepcli.planning.hashing import mix64
from prepcli.planning.split import Indices, order_by_group
from prepcli.storage.addresses import is_address
from prepcli.storage.containers import SEPARATOR

_MIDDLE_BYTES = 4096


def by_duration(records: Records, scratch: Scratch) -> Indices:
    """The numbers of all records, those of equal duration one after another, so that copies get into the same unit.

    If the input has segments, or records in containers, its order is kept, because neighbours are read together.
    """
    is_cut = bool(records.index.offset.any())
    if is_cut or any(SEPARATOR in record.audio_filepath for _, record in records.sample()):
        return np.arange(len(records))
    return order_by_group(mix64(records.index.duration.view(np.uint64)), scratch)


class _Seen(NamedTuple):
    number: int
    path: str


class Twins:
    """Finds records of a unit whose local files have the same bytes.

    Only files of the same size are compared: first a few bytes from their middle, then all bytes.
    """

    def __init__(self) -> None:
        self._alone: dict[tuple[object, ...], _Seen | None] = {}
        self._by_middle: dict[tuple[object, ...], _Seen] = {}

    def earlier(self, number: int, path: str, segment: Segment) -> int | None:
        """The number of an earlier record with the same segment in a file with the same bytes; None if there is none.

        The record is remembered for the next calls.
        """
        if is_address(path) or SEPARATOR in path:
            return None
        with contextlib.suppress(RecordRejected):  # one of two files cannot be read: decoding it names the file
            try:
                return self._earlier(_Seen(number, path), segment)
            except OSError as error:
                refuse(error, path)
        return None

    def _earlier(self, mine: _Seen, segment: Segment) -> int | None:
        size = os.stat(mine.path).st_size
        place = (size, segment.start, segment.num_samples, segment.channel)
        if place not in self._alone:
            self._alone[place] = mine
            return None
        if (first := self._alone[place]) is not None:
            self._alone[place] = None
            self._by_middle[place, _middle(first.path, size)] = first
        seen = self._by_middle.setdefault((place, _middle(mine.path, size)), mine)
        return seen.number if seen is not mine and _are_equal(seen.path, mine.path) else None


def _middle(path: str, size: int) -> bytes:
    with open_source(path, path) as opened:
        return opened.read(size // 2, _MIDDLE_BYTES)


def _are_equal(path: str, other: str) -> bool:
    return path == other or read_whole(path, path) == read_whole(other, other)
