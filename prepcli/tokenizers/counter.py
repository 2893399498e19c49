"""The interface of tokenizers: the number of tokens of each text."""

from collections.abc import Sequence
from typing import Protocol

from prepcli.errors import RecordRejected, RejectReason


class TokenCounter(Protocol):
    """Counts the tokens of texts; nothing is added to them (no BOS, no EOS)."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text; an empty text has none."""
        ...


class WordsDiffer(Exception):  # noqa: N818 - it is a result: the job then counts whole texts
    """The token counts of the words of a text do not add up to that of the whole text; see `by_word_or_whole`."""


def refuse_surrogates(texts: Sequence[str]) -> None:
    """Raise `RecordRejected` if a text holds a lone surrogate, which JSON can express and UTF-8 cannot."""
    if any("\ud800" <= char <= "\udfff" for text in texts for char in text):
        raise RecordRejected(RejectReason.BAD_FIELD, "the text has a lone surrogate, which UTF-8 cannot encode")
