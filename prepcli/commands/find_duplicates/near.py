"""Finds records with nearly the same audio by their fingerprints (`prepcli.audio.fingerprint`).

A fingerprint is a sequence of 32-bit integers, called words. Every second bit of two words at a fixed distance is a
key. A copy has many keys of the original, other audio few. Equal keys are found by sorting the hashes of all keys in
files. Each pair of equal keys gives an alignment of two records. The words of the aligned records are compared: in a
copy, nearly all bits are equal, in other audio about half of the bits.

A quarter of the keys, chosen by their hashes, is enough (short records need all), and a key is compared with only a few
equal keys. So time and memory grow linearly with the hours of audio, however common a key is.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.fingerprint import Words
from prepcli.commands.find_duplicates.groups import Sets
from prepcli.planning.arrays import Growing
from prepcli.planning.hashing import chunks, groups_of, mix64
from prepcli.planning.split import Indices

MIN_WORDS = 16
"""Minimum number of fingerprint words at which both aligned records must have sound: the words of 0.6 s of audio."""
SHORT_WORDS = 50
"""The number of fingerprint words in 1 s of audio; all keys of a record with fewer words are used."""
LONG_WORDS = 129
"""The number of fingerprint words in 1.9 s of audio. If this many words are compared, the limit is `MAX_BIT_ERROR`."""
MAX_BIT_ERROR = 0.25
LIMITS = ((LONG_WORDS, MAX_BIT_ERROR), (SHORT_WORDS, 0.15), (MIN_WORDS, 0.08))
"""Limits (N, share) for two aligned records: they are copies if at most `share` of the compared bits differ.

Only the fingerprint words at which both records have sound are compared. The limit is the first one whose N is not
larger than the number of these words. Few words have a stricter limit, because they agree more often by chance.
`benchmarks/README.md` shows how far copies and other audio are from the limits."""
MIN_SHARE = 0.5
"""Minimum overlap of two copies, as a share.

It is the number of fingerprint words at which both aligned records have sound, divided by the number of words with
sound in the record that has fewer of them."""
_DISTANCE = 8
"""The distance between the two fingerprint words of a key, in words."""
_MASKS = (np.uint32(0xAAAAAAAA), np.uint32(0x55555555))
"""The bits of the first and of the second word that make a key.

A codec of a low rate (GSM, Opus at 12 kbit/s) changes 8 to 12 % of all bits. Then 64 bits are hardly ever equal, but 32
bits are often enough."""
_SAMPLED = np.uint64(3)
"""A key is compared only if these bits of its hash are 0, as in a quarter of the keys; short records need all keys."""
_NEIGHBOURS = 4
"""A key is compared with this number of equal keys that follow it in the order of the records."""
_BEFORE, _AFTER = 24, 32
"""Numbers of fingerprint words that are compared around two equal keys: before the first word of a key, and from it on.

Whole records are compared only if these words are nearly equal."""
_PAIRS_AT_ONCE = 1 << 14
_BITS = np.array([number.bit_count() for number in range(1 << 16)], np.uint8)


class Fingerprints:
    """Collects the fingerprints of the audio of all records in a temporary file, and finds records with similar ones.

    A fingerprint is a sequence of 32-bit words.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._growing = Growing(folder, np.uint32)
        self._counts: list[Indices] = []
        self._with_sound: list[Indices] = []

    def add(self, words: Words, counts: Indices) -> None:
        """Add the fingerprint words of further records, concatenated; `counts`: the number of words of each record."""
        self._growing.append(words)
        sums = np.concatenate(([0], np.cumsum(words != 0)))
        ends = np.cumsum(counts)
        self._counts.append(counts)
        self._with_sound.append(sums[ends] - sums[ends - counts])

    def labels(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return two arrays of shape (records,): a label, and whether the record was compared.

        Records with nearly the same audio have the same label. A record is not compared if fewer than
        `MIN_WORDS` of its fingerprint words have sound.
        """
        counts = np.concatenate([np.empty(0, np.int64), *self._counts])
        with_sound = np.concatenate([np.empty(0, np.int64), *self._with_sound])
        words, starts = self._growing.array(), np.concatenate(([0], np.cumsum(counts)))
        aligning = _Aligning(words, starts, with_sound)
        sets = Sets(len(counts))
        for pair in _aligned(words, starts, self._folder):
            if not sets.are_one(pair.first, pair.second) and aligning.is_copy(pair):
                sets.join(pair.first, pair.second)
        return sets.labels(), with_sound >= MIN_WORDS


class _Pair(NamedTuple):
    """Two records that may be copies, by their numbers, and their alignment.

    Fingerprint word n + `shift` of record `first` is about equal to fingerprint word n of record `second`.
    """

    first: int
    second: int
    shift: int


def _aligned(words: Words, starts: Indices, folder: Path) -> Iterator[_Pair]:
    """Yield pairs of records that have a sequence of fingerprint words in common, and nearly equal ones around it.

    Such sequences are found by their hashes (`_keys`), which are sorted in files in `folder`. Two records may be
    yielded several times.
    """
    hashes, positions = _keys(words, starts, folder)
    for group in groups_of(hashes):
        by_hash = group[np.argsort(hashes[group], kind="stable")]  # equal hashes in the order of the records
        ordered, at = hashes[by_hash], positions[by_hash]
        records = np.searchsorted(starts, at, side="right") - 1
        pairs = []
        for step in range(1, _NEIGHBOURS + 1):
            same = (ordered[step:] == ordered[:-step]) & (records[step:] != records[:-step])
            first = np.flatnonzero(same)
            for few in range(0, len(first), _PAIRS_AT_ONCE):
                places = first[few : few + _PAIRS_AT_ONCE]
                near = _is_near(
                    words, starts, (records[places], at[places]), (records[places + step], at[places + step])
                )
                places = places[near]
                shift = (at[places] - starts[records[places]]) - (at[places + step] - starts[records[places + step]])
                pairs.append(np.stack([records[places], records[places + step], shift], axis=1))
        if pairs:
            yield from map(_Pair._make, np.unique(np.concatenate(pairs), axis=0).tolist())


def _keys(words: Words, starts: Indices, folder: Path) -> tuple[NDArray[np.uint64], Indices]:
    """The hashes of the keys to compare (see `_SAMPLED`), and the position in `words` of the first word of each key."""
    hashes, positions = Growing(folder, np.uint64), Growing(folder, np.int64)
    is_short = np.diff(starts) < SHORT_WORDS
    for chunk in chunks(max(0, len(words) - _DISTANCE)):
        first, second = words[chunk], words[chunk.start + _DISTANCE : chunk.stop + _DISTANCE]
        keys = (first & _MASKS[0]).astype(np.uint64) << np.uint64(32) | (second & _MASKS[1])
        hashed = mix64(keys)
        new = np.concatenate(([True], keys[1:] != keys[:-1]))  # a steady sound has the same key many times
        record, last = np.searchsorted(starts, (chunk.start, chunk.stop - 1), side="right") - 1
        edges = np.clip(starts[record : last + 2], chunk.start, chunk.stop)
        is_used = (hashed & _SAMPLED == 0) | np.repeat(is_short[record : last + 1], edges[1:] - edges[:-1])
        at = np.flatnonzero(is_used & (first != 0) & (second != 0) & new)
        ends = starts[np.searchsorted(starts, at + chunk.start, side="right")]
        at = at[at + chunk.start + _DISTANCE < ends]
        hashes.append(hashed[at])
        positions.append(at + chunk.start)
    return hashes.array(), positions.array()


def _is_near(
    words: Words, starts: Indices, first: tuple[Indices, Indices], second: tuple[Indices, Indices]
) -> NDArray[np.bool_]:
    """For each pair of positions in `words`, whether the fingerprint words around both positions are nearly equal.

    `first` and `second`: the numbers of the records, and the positions.
    """
    steps = np.arange(-_BEFORE, _AFTER)
    taken = np.ones((len(first[0]), len(steps)), bool)
    both = []
    for record, at in (first, second):
        place = at[:, None] + steps
        taken &= (place >= starts[record][:, None]) & (place < starts[record + 1][:, None])
        both.append(words[np.clip(place, 0, len(words) - 1)])
        taken &= both[-1] != 0
    errors = _bits(both[0] ^ both[1]) * taken
    is_near: NDArray[np.bool_] = errors.sum(axis=1) <= MAX_BIT_ERROR * 32 * taken.sum(axis=1)
    return is_near


def _bits(words: Words) -> NDArray[np.int64]:
    """The number of bits that are 1 in each fingerprint word."""
    bits: NDArray[np.int64] = _BITS[words & 0xFFFF].astype(np.int64) + _BITS[words >> 16]
    return bits


class _Aligning:
    """Compares the fingerprint words of two records that are aligned by a shift (`_Pair`)."""

    def __init__(self, words: Words, starts: Indices, with_sound: Indices) -> None:
        self._words, self._starts, self._with_sound = words, starts, with_sound

    def is_copy(self, pair: _Pair) -> bool:
        """Whether both aligned records have sound at enough fingerprint words, and few bits of these words differ."""
        first, second = self._of(pair.first), self._of(pair.second)
        ahead, behind = max(pair.shift, 0), max(-pair.shift, 0)
        length = min(len(first) - ahead, len(second) - behind)
        former, other = first[ahead : ahead + length], second[behind : behind + length]
        with_sound = (former != 0) & (other != 0)
        common = int(np.count_nonzero(with_sound))
        fewer = min(int(self._with_sound[pair.first]), int(self._with_sound[pair.second]))
        if common < max(MIN_WORDS, MIN_SHARE * fewer):
            return False
        share = int(_bits(former ^ other)[with_sound].sum()) / (32 * common)
        return share <= next(limit for least, limit in LIMITS if common >= least)

    def _of(self, record: int) -> Words:
        return self._words[self._starts[record] : self._starts[record + 1]]
