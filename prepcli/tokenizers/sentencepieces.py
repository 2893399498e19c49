"""SentencePiece models: the number of pieces of a text, counted word by word if the result is the same."""

from collections.abc import Sequence
from typing import Any

from prepcli.errors import UsageError
from prepcli.tokenizers.counter import WordsDiffer, refuse_surrogates
from prepcli.tokenizers.words import WordSums

_SPACE = "\u2581"  # how SentencePiece writes a space
_UNKNOWN = "\ue000"  # a character for private use: most models do not know it, and no normaliser changes it
_CHECK_EVERY = 64


class SentencePieceCounter:
    """Counts pieces as `SentencePieceProcessor.encode` gives them.

    With `by_word`, and where the model allows it (`splits_at_spaces`), each word is encoded once and its count
    kept. Whether that is the same for the user's texts is checked for one text in 64, those at fixed places of a block.
    """

    def __init__(self, path: str, by_word: bool = True) -> None:
        """Load the model; raises `UsageError` if the file is not a model, or without the package."""
        try:
            import sentencepiece
        except ImportError:
            raise UsageError("SentencePiece tokenizers need a package: pip install 'prepcli[bins2d]'") from None
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
