"""Sums over the words of many texts: each word is counted once and looked up with NumPy afterwards."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from prepcli.planning.hashing import GOLDEN, mix64

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

_MAX_WORDS = 1_000_000
_MIN_TEXTS = 16
"""For fewer texts, summing one by one is faster."""
_SLOT_BITS = 18
_SPACE, _LINE_END = b" \n"
_MAX_WORD_BYTES = 16
"""Maximum bytes of a word in the table; longer words, and words whose slot is taken, are in the dictionary only."""
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(8)] + [(1 << 64) - 1], np.uint64)


class WordSums:
    """The sum of a number over the words of each text, split at single spaces (`str.split(" ")`).

    `numbers` gives it for some words; it is asked once for each, and gives 0 for the empty one. A table with a word in
    a slot at most is looked up for all words of a block of texts in a few calls of NumPy: a third of the time of a
    dictionary. Words of up to 8 bytes are their own keys there, of longer ones 64 bits are compared.
    """

    def __init__(self, numbers: Callable[[list[str]], list[int]]) -> None:
        self._numbers_of = numbers
        self._known: dict[str, int] = {"": 0}
        self._keys = np.zeros(1 << _SLOT_BITS, np.uint64)  # 0: free, and the empty word
        self._numbers = np.zeros(1 << _SLOT_BITS, np.int64)

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """One sum per text; raises `UnicodeEncodeError` for a lone surrogate."""
        data = "\n".join(texts).encode()
        # Zero bytes pad short keys, and a line break within a text is not its end.
        if len(texts) < _MIN_TEXTS or b"\0" in data or data.count(b"\n") >= len(texts):
            return self._one_by_one(texts)
        chars = np.frombuffer(data, np.uint8)
        ends = np.append(np.flatnonzero((chars == _SPACE) | (chars == _LINE_END)), len(data))
        starts = np.concatenate([[0], ends[:-1] + 1])
        first = np.concatenate([[0], np.flatnonzero(chars[ends[:-1]] == _LINE_END) + 1])
        sums: list[int] = np.add.reduceat(self._look_up(data, starts, ends), first).tolist()
        return sums

    def _one_by_one(self, texts: Sequence[str]) -> list[int]:
        split = [text.split(" ") for text in texts]
        self._learn([word for words in split for word in words])
        return [sum(map(self._known.__getitem__, words)) for words in split]

    def _look_up(self, data: bytes, starts: Ints, ends: Ints) -> Ints:
        lengths = ends - starts
        keys = _keys(data, starts, lengths)
        slots = (keys >> np.uint64(64 - _SLOT_BITS)).view(np.int64)
        numbers: Ints = self._numbers[slots]
        missed = np.flatnonzero((self._keys[slots] != keys) | (lengths > _MAX_WORD_BYTES))
        if len(missed):
            places = zip(starts[missed].tolist(), ends[missed].tolist(), strict=True)
            words = [data[start:end].decode() for start, end in places]
            self._learn(words)
            numbers[missed] = list(map(self._known.__getitem__, words))
            free = missed[(self._keys[slots[missed]] == 0) & (lengths[missed] <= _MAX_WORD_BYTES)]
            # If two words have the same slot, NumPy keeps the later one, for the key and for the number.
            self._keys[slots[free]], self._numbers[slots[free]] = keys[free], numbers[free]
        return numbers

    def _learn(self, words: Sequence[str]) -> None:
        if len(self._known) >= _MAX_WORDS:
            self._known = {"": 0}
        new = list(dict.fromkeys(word for word in words if word not in self._known))
        if new:
            self._known.update(zip(new, self._numbers_of(new), strict=True))


def _keys(data: bytes, starts: Ints, lengths: Ints) -> Keys:
    """64 bits of each word: its first 8 bytes; for longer words, mixed and added to the next 8."""
    windows: Keys = np.ndarray(len(data) + 1, "<u8", data + bytes(8), strides=(1,))
    keys: Keys = windows[starts] & _MASKS[np.minimum(lengths, 8)]
    longer = np.flatnonzero(lengths > 8)
    more = windows[starts[longer] + 8] & _MASKS[np.minimum(lengths[longer] - 8, 8)]
    keys[longer] = mix64(keys[longer]) + more
    keys *= GOLDEN
    return keys
