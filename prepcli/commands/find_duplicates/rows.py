"""The rows of keys that units have written: one of each record, or one of each turn of a conversation with audio."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.fingerprint import Words
from prepcli.commands.find_duplicates.near import Fingerprints
from prepcli.commands.find_duplicates.prints import Keys, Prints
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.jobs.record_job import RecordContents
from prepcli.planning.split import Indices

AUDIO, NEAR_AUDIO = "audio", "near-audio"
"""The kinds of keys that are computed from the audio."""
KEYS_NAME, ROWS_NAME = "parts/{}.keys", "parts/{}.rows"
"""Parts of a unit: keys of shape (rows, kinds, 2), and record and turn of each row (`<i8`)."""
WORDS_NAME, COUNTS_NAME, TWINS_NAME = "parts/{}.words", "parts/{}.counts", "parts/{}.twins"
"""Parts of a unit: fingerprint words, how many each row has, and the row of the unit whose words it shares (`<i8`)."""


class Rows:
    """All rows, in the order of the records and turns; a rejected record has a row of zeros.

    Attributes:
        record: the number of the record of each row.
        turn: the number of the turn of each row, from 1; 0 of a record, and of a conversation without audio.
        keys: the keys of each kind; those of `near-audio` are zero, and only the first row of a conversation has those
            of `text` and `speaker`.
    """

    def __init__(
        self, contents: RecordContents, kinds: Sequence[str], markers: Sequence[Marker], writer: UnitWriter
    ) -> None:
        """`kinds`: the kinds of the keys that the units have written."""
        self._markers, self._writer = markers, writer
        written = self._joined(ROWS_NAME, "<i8").reshape(-1, 2)
        rejected = np.flatnonzero(np.bincount(written[:, 0], minlength=len(contents.records)) == 0)
        self._num_rejected = len(rejected)
        record = np.concatenate([written[:, 0], rejected])
        self._place: Indices = np.argsort(record, kind="stable")
        self.record: Indices = record[self._place]
        self.turn: Indices = self._in_order(written[:, 1])
        keys = self._in_order(self._joined(KEYS_NAME, "<u8").reshape(-1, len(kinds), 2))
        self.keys: Mapping[str, Keys] = {kind: keys[:, column] for column, kind in enumerate(kinds)}

    def near_audio(self, against: Sequence[Prints]) -> tuple[Keys, int]:
        """Compute the `near-audio` keys of all rows; first come those of prints.

        Rows with nearly the same audio have equal keys. The key of a row with too little sound is zero.

        Returns:
            The keys, and how many records of the inputs have a row with too little sound; rejected ones do not count.
        """
        fingerprints = Fingerprints(self._writer.folder)
        ahead = 0
        for prints in against:
            for words, counts in prints.words():
                fingerprints.add(words, counts)
                ahead += len(counts)
        for marker in self._markers:
            fingerprints.add(self._part(marker, WORDS_NAME, "<u4"), self._part(marker, COUNTS_NAME, "<i8"))
        labels, is_compared = fingerprints.labels()
        known = np.where(is_compared, labels + 1, 0)
        keys = np.zeros((ahead + len(self.record), 2), np.uint64)
        keys[:ahead, 0] = known[:ahead]
        keys[ahead:, 0] = self._in_order(known[ahead:][self._twins()])
        short = np.unique(self.record[keys[ahead:, 0] == 0])
        return keys, len(short) - self._num_rejected

    def words(self) -> "RowWords":
        """The fingerprint words of each row; they stay in the files of the units."""
        counts = [self._part(marker, COUNTS_NAME, "<i8") for marker in self._markers]
        none = [np.empty(0, np.int64)]
        twins = self._twins()
        of_rows = [
            np.concatenate([*none, *counts]),
            np.concatenate([*none, *(np.cumsum(some) - some for some in counts)]),
            np.repeat(np.arange(len(counts)), [len(some) for some in counts]),
        ]
        paths = [self._writer.part(WORDS_NAME.format(marker.unit)) for marker in self._markers]
        parts = [np.memmap(path, "<u4", "r") if path.stat().st_size else None for path in paths]
        return RowWords(parts, *(self._in_order(values[twins]) for values in of_rows))

    def _twins(self) -> Indices:
        """For each row that units have written, one after another, the row whose words it has."""
        twins, done = [np.empty(0, np.int64)], 0
        for marker in self._markers:
            of_unit = self._part(marker, TWINS_NAME, "<i8")
            twins.append(of_unit + done)
            done += len(of_unit)
        return np.concatenate(twins)

    def _in_order(self, written: NDArray[Any]) -> NDArray[Any]:
        """Values of the rows that units have written, in the order of the records; zero of rejected ones."""
        none = np.zeros((self._num_rejected, *written.shape[1:]), written.dtype)
        return np.concatenate([written, none])[self._place]

    def _joined(self, name: str, kind: str) -> NDArray[Any]:
        return np.concatenate([np.empty(0, kind), *(self._part(marker, name, kind) for marker in self._markers)])

    def _part(self, marker: Marker, name: str, kind: str) -> NDArray[Any]:
        return np.fromfile(self._writer.part(name.format(marker.unit)), kind)


class RowWords:
    """The fingerprint words of all rows; a row whose file has the bytes of another one's has its words.

    Attributes:
        counts: the number of words of each row.
    """

    def __init__(
        self, parts: Sequence[NDArray[np.uint32] | None], counts: Indices, starts: Indices, units: Indices
    ) -> None:
        """`parts`: the words of each unit; `starts` and `units`: where those of a row begin, and in which part."""
        self._parts, self.counts, self._starts, self._units = parts, counts, starts, units

    def __iter__(self) -> Iterator[Words]:
        """Yield the words of each row."""
        for unit, start, count in zip(self._units.tolist(), self._starts.tolist(), self.counts.tolist(), strict=True):
            part = self._parts[unit] if count else None
            yield np.empty(0, np.uint32) if part is None else part[start : start + count]
