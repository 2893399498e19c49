"""Sums over words by table: what a plain sum over `str.split(" ")` gives, whatever the texts hold."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prepcli.tokenizers import counting
from prepcli.tokenizers.counting import WordSums
from tests.fuzz.examples import examples


def weight(word: str) -> int:
    """A number that tells nearly all words from each other."""
    return sum(place * (ord(char) + 1) for place, char in enumerate(word, start=1))


def weights(some: list[str]) -> list[int]:
    return [weight(word) for word in some]


def plain(texts: list[str]) -> list[int]:
    return [sum(map(weight, text.split(" "))) for text in texts]


alphabet = st.sampled_from([*"abcdefghijklmnop", *"    ", "ä", "ж", "語", "🙂"])
odd = st.sampled_from(
    ["", " ", "  ", "a\nb", "\n", "a\0", "a", "\0", "x" * 16, "x" * 17, "abcdefgh", "abcdefghi", "é" * 8]
)
some_texts = st.lists(st.text(alphabet, max_size=40) | odd, max_size=60)


@pytest.mark.slow
@examples(100, slow=False)
@given(blocks=st.lists(some_texts, max_size=4), bits=st.sampled_from([1, 4, 18]), most=st.sampled_from([3, 1_000_000]))
def test_as_a_plain_sum(blocks: list[list[str]], bits: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_SLOT_BITS", bits)  # with few slots nearly every word finds its own taken
        patch.setattr(counting, "_MAX_WORDS", most)
        sums = WordSums(weights)
        for texts in blocks:
            assert sums(texts) == plain(texts)


@pytest.mark.parametrize("alike", ["abcdefgh", "abcdefghabcdefgh", "語語語語語"])
def test_words_that_differ_by_a_letter(alike: str) -> None:
    data = alike.encode()
    variants = {data[:at] + bytes([byte]) + data[at + 1 :] for at in range(len(data)) for byte in range(97, 123)}
    texts = [one.decode("utf-8", "ignore") for one in sorted(variants)]
    texts += [f"{text}{more}" for text in texts for more in ("a", "aa")]  # longer than what a table holds
    texts += [text[:length] for text in texts for length in range(len(text))]
    sums = WordSums(weights)
    for _ in range(2):  # learning, then knowing
        assert sums(texts) == plain(texts)


def test_words_that_differ_by_a_zero_byte() -> None:
    texts = ["a", "a\0", "\0", ""] * 10
    sums = WordSums(weights)
    for _ in range(2):
        assert sums(texts) == plain(texts)


def test_each_word_is_asked_for_once() -> None:
    asked: Counter[str] = Counter()

    def count(some: list[str]) -> list[int]:
        asked.update(some)
        return weights(some)

    sums = WordSums(count)
    texts = [f"word{number % 7} {'long' * 5}{number % 5} ж{number % 3}" for number in range(100)]
    for block in (texts, texts[:3], texts[50:]):
        assert sums(block) == plain(block)
    assert set(asked.values()) == {1}
    assert len(asked) == 15


def test_half_a_character() -> None:
    for texts in (["a \ud800"], ["a"] * 30 + ["\ud800 b"]):
        with pytest.raises(UnicodeEncodeError):
            WordSums(weights)(texts)
