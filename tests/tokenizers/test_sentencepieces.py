"""Counting by words must be counting whole texts, and where it would not be, it must not be done."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from prepcli.errors import RecordRejected, UsageError
from prepcli.tokenizers.counting import SentencePieceCounter, WordsDiffer
from tests.support.tokenizer_models import awkward_texts, corpus_texts, train_sentencepiece

TEXTS = [*awkward_texts(2000), *corpus_texts(), ""]


def whole(path: Path, texts: list[str]) -> list[int]:
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [len(model.encode(text)) for text in texts]


@pytest.mark.parametrize(
    "settings",
    [
        {"model_type": "bpe"},
        {"model_type": "unigram"},
        {"model_type": "char"},
        {"model_type": "bpe", "byte_fallback": True, "vocab_size": 500},
        {"model_type": "unigram", "normalization_rule_name": "identity"},
        {"model_type": "unigram", "normalization_rule_name": "nfkc_cf"},
        {"model_type": "bpe", "user_defined_symbols": ["<|en|>"]},
    ],
)
def test_words_one_by_one_are_the_whole_text(tmp_path: Path, settings: dict[str, Any]) -> None:
    path = train_sentencepiece(tmp_path / "m.model", **settings)
    counter = SentencePieceCounter(str(path))
    assert counter.by_word
    assert counter.counts(TEXTS) == whole(path, TEXTS)
    assert counter.counts(TEXTS) == whole(path, TEXTS)  # from the cache
    assert SentencePieceCounter(str(path), by_word=False).counts(TEXTS) == whole(path, TEXTS)


@pytest.mark.parametrize(
    "settings",
    [
        {"model_type": "bpe", "split_by_whitespace": False},  # pieces across words
        {"model_type": "unigram", "split_by_whitespace": False},
        {"model_type": "bpe", "add_dummy_prefix": False},  # the first word begins unlike the others
        {"model_type": "bpe", "remove_extra_whitespaces": False},
        {"model_type": "bpe", "treat_whitespace_as_suffix": True},
        {"model_type": "bpe", "user_defined_symbols": ["new york"]},
        {"model_type": "word"},  # unknown words in a row are one piece
    ],
)
def test_where_words_would_differ_texts_are_counted_whole(tmp_path: Path, settings: dict[str, Any]) -> None:
    path = train_sentencepiece(tmp_path / "m.model", **settings)
    counter = SentencePieceCounter(str(path))
    assert not counter.by_word
    assert counter.counts(TEXTS) == whole(path, TEXTS)


def test_texts_are_looked_at_as_a_whole_too(tmp_path: Path) -> None:
    """A model that joins words, taken for one that does not, is found out by the texts themselves."""
    path = train_sentencepiece(tmp_path / "m.model", split_by_whitespace=False)
    counter = SentencePieceCounter(str(path))
    counter.by_word = True
    texts = [" ".join(pair) for pair in itertools.permutations(corpus_texts()[:20], 2)]
    with pytest.raises(WordsDiffer):
        counter.counts(texts)


def test_an_empty_text_has_no_tokens(tmp_path: Path) -> None:
    counter = SentencePieceCounter(str(train_sentencepiece(tmp_path / "m.model")))
    assert counter.counts(["", "   ", "\u3000"]) == [0, 0, 0]
    assert counter.counts([]) == []


def test_a_lone_surrogate_is_rejected(tmp_path: Path) -> None:
    counter = SentencePieceCounter(str(train_sentencepiece(tmp_path / "m.model")))
    with pytest.raises(RecordRejected, match="lone surrogate"):
        counter.counts(["\ud800"])


@pytest.mark.parametrize("content", [b"", b"no model at all", bytes(range(256)) * 10])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("sentencepiece")
    path = tmp_path / "m.model"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a SentencePiece model"):
        SentencePieceCounter(str(path))
