"""SentencePiece models: the number of pieces of a text, counted word by word if the result is the same."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.errors import UsageError
from prepcli.planning.hashing import GOLDEN, mix64
from prepcli.tokenizers.counter import WordsDiffer, refuse_surrogates

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

_MAX_WORDS = 1_000_000
_MIN_TEXTS = 16
"""For fewer texts, summing one by one is faster."""
_SLOT_BITS = 18
_BLANK, _LINE_END = b" \n"
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
        ends = np.append(np.flatnonzero((chars == _BLANK) | (chars == _LINE_END)), len(data))
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


_SPACE = "\u2581"  # how SentencePiece writes a space
_UNKNOWN = "\ue000"  # a character for private use: most models do not know it, and no normaliser changes it
_CHECK_EVERY = 64


class SentencePieceCounter:
    """Counts pieces as `SentencePieceProcessor.encode` gives them.

    With `by_word`, and where the model allows it (`splits_at_spaces`), each word is encoded once and its count
    kept. Whether that is the same for the user's texts is checked for one text in 64, those at fixed places of a block.
    """

    def __init__(self, path: str, by_word: bool = True) -> None:
        """Load the model; raises `UsageError` if the file is not a model."""
        import sentencepiece

        self._model = sentencepiece.SentencePieceProcessor()
        try:
            self._model.Load(path)
        except (OSError, RuntimeError):
            raise UsageError(
                f"{path} is not a SentencePiece model; give a .model file that SentencePiece has trained"
            ) from None
        self.by_word = by_word and splits_at_spaces(self._model)
        self._sums = WordSums(self._whole)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The number of pieces of each text.

        Raises `WordsDiffer` when a text that was checked has another number as a whole, and `RecordRejected` for a
        single text with a lone surrogate, which UTF-8 cannot encode.
        """
        try:
            return self._by_word(texts) if self.by_word else self._whole(texts)
        except (UnicodeEncodeError, RuntimeError, TypeError):  # it depends on the version
            refuse_surrogates(texts)
            raise

    def _by_word(self, texts: Sequence[str]) -> list[int]:
        # A literal U+2581 is a space for the model, but words are not split at it here.
        odd = [place for place, text in enumerate(texts) if _SPACE in text] if _SPACE in "".join(texts) else []
        counts = self._sums(texts)
        for place in odd:
            counts[place] = self._whole([texts[place]])[0]
        if counts[::_CHECK_EVERY] != self._whole(texts[::_CHECK_EVERY]):
            raise WordsDiffer
        return counts

    def _whole(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self._model.encode(list(texts), num_threads=1)]


def splits_at_spaces(model: Any) -> bool:
    """Whether, by the properties of the model, a text has as many pieces as its space-separated words together.

    So it is when no piece goes across the beginning of a word, a space alone is a piece (or runs of unknown
    characters would become one across words), every word begins alike wherever it stands, and further spaces
    change nothing. Models of whole words, those without a dummy prefix, with spaces as suffixes, or that keep all
    spaces, are not of this kind.
    """
    pieces = model.id_to_piece(list(range(model.get_piece_size())))
    if any(_SPACE in piece[1:] or " " in piece for piece in pieces):
        return False
    space = model.piece_to_id(_SPACE)
    if space == model.unk_id() or model.is_unused(space):
        return False

    def size(text: str) -> int:
        return len(model.encode(text))

    words = ("x", "Xylophone", _UNKNOWN, _UNKNOWN * 2, "1")
    return all(
        size(f"{one} {other}") == size(f" {one}  {other} ") == size(one) + size(other)
        for one in words
        for other in words
    )
