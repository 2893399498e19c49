"""Count tokens with any tokenizer: SentencePiece or Hugging Face, one for all texts or one per language."""

import os
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.interface.calls import set_environ_default
from prepcli.manifest.parts import Ints
from prepcli.manifest.sources import check_file
from prepcli.planning.hashing import GOLDEN, Hashes, mix64
from prepcli.tokenizers.hub import is_hub_name


class WordsDiffer(Exception):  # noqa: N818 - it is a result: the job then counts whole texts
    """The token counts of the words of a text do not add up to the count of the whole text; see `by_word_or_whole`."""


def refuse_surrogates(texts: Sequence[str]) -> None:
    """Raise `RecordRejected` if a text holds a lone surrogate, which JSON can express and UTF-8 cannot."""
    if any("\ud800" <= char <= "\udfff" for text in texts for char in text):
        raise RecordRejected(RejectReason.BAD_FIELD, "the text has a lone surrogate, which UTF-8 cannot encode")


Found = TypeVar("Found")

WORDS_DIFFER = "words counted one by one gave other numbers than whole texts; so every text was counted as a whole"


@dataclass(frozen=True)
class TokenizerSpec:
    """The tokenizers to use: enough to load them in a worker process.

    `langs` names the language of each tokenizer if there are several. `by_word`: words may be counted one by one if the
    model allows it. `prompt_format` names the prompt of NeMo into which each text is put. `prompt` has defaults for the
    slots of its turns: a list in Python's or JSON's notation.
    """

    tokenizers: tuple[str, ...]
    langs: tuple[str, ...] = ()
    by_word: bool = True
    prompt_format: str | None = None
    prompt: str | None = None

    def __post_init__(self) -> None:
        if not self.tokenizers:
            raise UsageError("no tokenizer is named")
        if len(self.tokenizers) > 1 and len(self.langs) != len(self.tokenizers):
            raise UsageError(
                f"{len(self.tokenizers)} tokenizers need as many languages ({option('--langs')}); there are "
                f"{len(self.langs)}"
            )
        if len(self.tokenizers) == 1 and len(self.langs) > 1:
            raise UsageError(f"{len(self.langs)} languages ({option('--langs')}) need as many tokenizers; there is 1")
        if len(set(self.langs)) < len(self.langs):
            raise UsageError(f"{option('--langs')} names a language twice: {', '.join(self.langs)}")
        if self.prompt is not None and self.prompt_format is None:
            raise UsageError(f"{option('--prompt')} goes with a {option('--prompt-format')}")


def by_word_or_whole(spec: TokenizerSpec, count: Callable[[TokenizerSpec], Found]) -> tuple[Found, list[str]]:
    """Return `count(spec)` and an empty list.

    If `count` raises `WordsDiffer`, it is called again to count whole texts. The list then has a note on this.
    """
    try:
        return count(spec), []
    except WordsDiffer:
        return count(replace(spec, by_word=False)), [WORDS_DIFFER]


class Tokenizers:
    """All tokenizers of a `TokenizerSpec`; each text goes to the tokenizer of its language."""

    def __init__(self, spec: TokenizerSpec) -> None:
        """Load the tokenizers; raises `UsageError` if a name is not a tokenizer, or a package is missing."""
        kinds = map(kind_of_tokenizer, spec.tokenizers)
        counters: list[HfCounter | SentencePieceCounter] = [
            HfCounter(path) if kind == "hf" else SentencePieceCounter(path, spec.by_word) for kind, path in kinds
        ]
        self._only = counters[0] if len(counters) == 1 else None
        self._of_lang = dict(zip(spec.langs, counters, strict=False))

    def counts(self, texts: Sequence[str], langs: Sequence[str | None]) -> list[int]:
        """Return the number of tokens of each text; `langs` is ignored if there is only one tokenizer.

        Raises `RecordRejected` with MISSING_FIELD or BAD_FIELD for a language without a tokenizer.
        """
        if self._only is not None:
            return self._only.counts(texts)
        counts = [0] * len(texts)
        places: dict[str | None, list[int]] = {}
        for place, lang in enumerate(langs):
            places.setdefault(lang, []).append(place)
        for lang, of_lang in places.items():
            counter = self._of_lang.get(lang) if lang is not None else None
            if counter is None:
                raise self._unknown(lang)
            for place, count in zip(of_lang, counter.counts([texts[place] for place in of_lang]), strict=True):
                counts[place] = count
        return counts

    def _unknown(self, lang: str | None) -> RecordRejected:
        known = ", ".join(self._of_lang)
        if lang is None:
            return RecordRejected(RejectReason.MISSING_FIELD, f"there is no language; there are tokenizers for {known}")
        return RecordRejected(
            RejectReason.BAD_FIELD, f"there is no tokenizer for the language {lang!r}, only for {known}"
        )


@lru_cache
def load_tokenizers(spec: TokenizerSpec) -> Tokenizers:
    """Return the tokenizers, which are loaded once per process; a forked worker shares the tokenizers of its parent."""
    return Tokenizers(spec)


def kind_of_tokenizer(name: str) -> tuple[str, str]:
    """Return `hf` or `sentencepiece`, and what to load: a file, or the name of a tokenizer on Hugging Face's hub.

    A folder is searched for `tokenizer.json` (Hugging Face) and `tokenizer.model` (SentencePiece; NeMo's folders).
    Raises `UsageError` if there is neither.
    """
    path = Path(name)
    if os.path.isdir(name):
        for kind, file in (("hf", "tokenizer.json"), ("sentencepiece", "tokenizer.model")):
            if (path / file).is_file():
                return kind, str(path / file)
        raise UsageError(f"the folder {name} holds no tokenizer: neither tokenizer.json nor tokenizer.model")
    if os.path.exists(name):
        check_file(name, "tokenizer")
        return ("hf" if path.suffix == ".json" else "sentencepiece"), name
    if path.suffix in (".model", ".json", ".spm") or not is_hub_name(name):
        raise UsageError(f"tokenizer not found: {name}; give a .model or tokenizer.json file, or the folder of one")
    return "hf", name


class HfCounter:
    """Counts tokens as `Tokenizer.encode(text, add_special_tokens=False)` gives them, without truncation or padding.

    As for SentencePiece, no BOS and no EOS are added, so an empty text has no tokens.
    """

    def __init__(self, name: str) -> None:
        """Load a tokenizer from a file, or by its name from the hub; raises `UsageError` if that fails."""
        # Workers are forked, one per core: more threads would only make them slower.
        set_environ_default("TOKENIZERS_PARALLELISM", "false")
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise UsageError("Hugging Face tokenizers need a package: pip install 'prepcli[hf]'") from None
        from prepcli.tokenizers.hub import tokenizer_file

        path = name if os.path.isfile(name) else tokenizer_file(name)
        try:
            self._model = Tokenizer.from_file(path)
        except Exception as error:  # the package raises plain `Exception`
            why = textwrap.shorten(str(error), 300, placeholder=" …")
            raise UsageError(f"{path} is not a Hugging Face tokenizer: {why}") from None
        self._model.no_truncation()
        self._model.no_padding()

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text; raises `RecordRejected` for a text with a lone surrogate."""
        try:
            return [len(encoding.ids) for encoding in self._model.encode_batch(list(texts), add_special_tokens=False)]
        except (UnicodeEncodeError, TypeError):
            refuse_surrogates(texts)
            raise


_MAX_WORDS = 1_000_000
_MIN_TEXTS = 16
"""If there are fewer texts, looking up each word in the dictionary is faster than the table with NumPy."""
_SLOT_BITS = 18
_BLANK, _LINE_END = b" \n"
_MAX_WORD_BYTES = 16
"""Maximum bytes of a word in the table of `WordSums`. Longer words are only in the dictionary of `WordSums`. So are
words that find their slot of the table taken."""
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(8)] + [(1 << 64) - 1], np.uint64)


class WordSums:
    """Adds up a number for each word of a text, such as the word's token count. `text.split(" ")` gives the words.

    `numbers` takes a list of words and returns their numbers, which are kept. The empty word has the number 0.

    The numbers are in a dictionary, and those of short words also in a table with at most one word per slot. NumPy
    looks up all words of a block of texts in the table with a few calls, in a third of the time of the dictionary. Two
    words of up to 8 bytes never have the same key in the table; the key of a longer word is a hash of 64 bits.
    """

    def __init__(self, numbers: Callable[[list[str]], list[int]]) -> None:
        self._numbers_of = numbers
        self._known: dict[str, int] = {"": 0}
        self._keys = np.zeros(1 << _SLOT_BITS, np.uint64)  # 0: free, and the empty word
        self._numbers = np.zeros(1 << _SLOT_BITS, np.int64)

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return the sum of the words' numbers for each text; raises `UnicodeEncodeError` for a lone surrogate."""
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
            # If two words have the same slot, NumPy keeps the later one, both in the keys and in the numbers.
            self._keys[slots[free]], self._numbers[slots[free]] = keys[free], numbers[free]
        return numbers

    def _learn(self, words: Sequence[str]) -> None:
        if len(self._known) >= _MAX_WORDS:
            self._known = {"": 0}
        new = list(dict.fromkeys(word for word in words if word not in self._known))
        if new:
            self._known.update(zip(new, self._numbers_of(new), strict=True))


def _keys(data: bytes, starts: Ints, lengths: Ints) -> Hashes:
    """Return a 64-bit key for each word: a hash of its first 16 bytes.

    `data` has the encoded texts; `starts` and `lengths` have the place of each word in it, in bytes.
    """
    windows: Hashes = np.ndarray(len(data) + 1, "<u8", data + bytes(8), strides=(1,))
    keys: Hashes = windows[starts] & _MASKS[np.minimum(lengths, 8)]
    longer = np.flatnonzero(lengths > 8)
    more = windows[starts[longer] + 8] & _MASKS[np.minimum(lengths[longer] - 8, 8)]
    keys[longer] = mix64(keys[longer]) + more
    keys *= GOLDEN
    return keys


_SPACE = "\u2581"  # how SentencePiece writes a space
_UNKNOWN = "\ue000"  # private use: most models do not know the character, and no normaliser changes it
_CHECK_EVERY = 64


class SentencePieceCounter:
    """Counts pieces as `SentencePieceProcessor.encode` gives them.

    With `by_word`, if the model allows it (`splits_at_spaces`), each word is encoded once and its count is kept. One
    text in 64 is also counted as a whole, to check that the counts agree.
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
        """Return the number of pieces of each text.

        Raises `WordsDiffer` if a check shows that a whole text has another number of pieces than its words, and
        `RecordRejected` for a text with a lone surrogate, which UTF-8 cannot encode.
        """
        try:
            return self._by_word(texts) if self.by_word else self._whole(texts)
        except (UnicodeEncodeError, RuntimeError, TypeError):  # the class depends on the version of the package
            refuse_surrogates(texts)
            raise

    def _by_word(self, texts: Sequence[str]) -> list[int]:
        # A literal U+2581 is a space for the model, but `WordSums` does not split words at it.
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
    """Whether a model can count the pieces of a text word by word: the sum over its words is the count for the text.

    Spaces separate the words. True if the model has all of these properties: No piece crosses the beginning of a word.
    A single space is a piece; otherwise runs of unknown characters would be joined across words. A word has the same
    pieces at every place in the text. Additional spaces change nothing. So the result is False for models whose pieces
    contain several words, models without a dummy prefix, models that put the space at the end of a piece, and models
    that keep all spaces.
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
        size(f"{word} {other}") == size(f" {word}  {other} ") == size(word) + size(other)
        for word in words
        for other in words
    )
