"""Words and lines as items: their samples, and the fields of segments that are made of them."""

import json
from math import inf

import msgspec
import pytest

from prepcli.commands.segment.packing import Piece
from prepcli.commands.segment.texts import ByMiddle, Item, Recording, fields_of, items_of, joined, speech_of
from prepcli.errors import RejectReason
from prepcli.formats.times.timed import Timed

RATE = 100
TEN_SECONDS = Recording(10 * RATE, RATE)


def words(*texts: str, speaker: str | None = None) -> list[Item]:
    return [Item(50 * n, 50 * n + 40, text, speaker, True) for n, text in enumerate(texts)]


def test_the_words_of_lines_are_sorted_and_have_the_speaker_of_their_line() -> None:
    lines = [
        Timed(1, 3, "b c", "x", (Timed(1, 2, "b", is_word=True), Timed(2, 3, " c", "y", is_word=True))),
        Timed(0, 1.5, "a", "z"),
    ]
    items = items_of(lines, TEN_SECONDS)
    assert [(item.start, item.end, item.text, item.speaker, item.is_word) for item in items] == [
        (0, 150, "a", "z", False),
        (100, 200, " b", "x", True),  # the word before is of another line
        (200, 300, " c", "y", True),
    ]
    assert [item.text for item in items_of(lines, TEN_SECONDS, by_word=False)] == ["a", "b c"]


def test_times_at_the_bounds_of_a_recording() -> None:
    """Up to 10 ms outside is rounding; more is a reason; a segment of Kaldi may last to the end."""
    lines = [Timed(9.0, 10.01, "a"), Timed(9.0, 10.5, "b"), Timed(11, 12, "c"), Timed(4.0, inf), Timed(-0.01, 1, "d")]
    found = {item.text: item for item in items_of(lines, TEN_SECONDS)}
    assert (found["a"].end, found["a"].reason) == (1000, None)
    for text, place in (("b", (900, 1000)), ("c", (1000, 1000))):
        assert (found[text].start, found[text].end) == place
        reason = found[text].reason
        assert reason is not None
        assert reason.reason is RejectReason.BAD_OFFSET
    assert (found[None].start, found[None].end) == (400, 1000)
    assert (found["d"].start, found["d"].reason) == (0, None)


def test_a_part_of_a_file_has_the_lines_whose_middle_lies_in_it() -> None:
    part = Recording(2 * RATE, RATE, offset=5.0, is_whole=False)
    lines = [Timed(4.0, 5.9, "before"), Timed(4.2, 6.0, "first"), Timed(6.5, 7.4, "last"), Timed(6.6, 7.5, "after")]
    items = items_of(lines, part)
    assert [(item.text, item.start, item.end, item.reason) for item in items] == [
        ("first", 0, 100, None),
        ("last", 150, 200, None),
    ]


def test_a_part_of_a_file_has_turns_that_reach_into_it() -> None:
    part = Recording(2 * RATE, RATE, offset=5.0, is_whole=False, with_turns=True)
    lines = [Timed(1.0, 5.0, "a"), Timed(4.0, 5.9, "b", "x"), Timed(4.2, 6.0, "c"), Timed(6.6, 7.5, "d"), Timed(7, 8)]
    items = items_of(lines, part)
    assert [(item.text, item.start, item.end, item.reason) for item in items] == [
        (None, 0, 90, None),  # its text is that of another part
        ("c", 0, 100, None),
        (None, 160, 200, None),
    ]
    assert items[0].speaker == "x"


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (words(" One", " two", "-", "three."), "One two-three."),
        (words("你", "好", "。"), "你好。"),
        ([Item(0, 1, "Hello.", None, False), Item(1, 2, "Bye.", None, False)], "Hello. Bye."),
        ([Item(0, 1, "你好。", None, False), Item(1, 2, "再见。", None, False)], "你好。再见。"),
        ([Item(0, 1, None, None, False)], ""),
    ],
)
def test_texts_are_joined_as_they_are_written(items: list[Item], text: str) -> None:
    assert joined(items) == text


@pytest.mark.parametrize("text", ["Yes.", "No!", "Why?", "“So.”", "对。", "क्या।", "…", "He said so.)"])
def test_sentences_end(text: str) -> None:
    assert speech_of([Item(0, 50, text, None, True)], "punctuation", RATE, None)[0].may_end


@pytest.mark.parametrize("text", ["Yes", "no,", "3.14", None])
def test_these_do_not_end_a_sentence(text: str | None) -> None:
    assert not speech_of([Item(0, 50, text, None, True)], "punctuation", RATE, None)[0].may_end


def test_fields_of_several_speakers() -> None:
    """The speaker of the whole recording would be wrong for the segment, so it is removed."""
    items = [*words(" a", speaker="x"), *(item._replace(start=50, end=90) for item in words(" b", speaker="y"))]
    fields = fields_of(items, Piece(10, 80, 0, 2), RATE)
    made = fields.pop("words")
    assert fields == {"text": "a b", "speaker": None, "num_speakers": 2}
    assert isinstance(made, msgspec.Raw)
    assert json.loads(bytes(made)) == [
        {"word": "a", "start": 0.0, "end": 0.3, "speaker": "x"},
        {"word": "b", "start": 0.4, "end": 0.7, "speaker": "y"},  # within the segment
    ]


def test_lines_without_texts_and_speakers_give_no_fields() -> None:
    assert fields_of([Item(0, 10, None, None, False)], Piece(0, 10, 0, 1), RATE) == {}


def test_items_are_found_by_their_middle() -> None:
    items = [Item(0, 1000, "long", None, True), Item(10, 20, "short", None, True), Item(30, 60, "other", None, True)]
    found = ByMiddle(items)
    assert [item.text for item in found.within(0, 45)] == ["short"]
    assert [item.text for item in found.within(45, 501)] == ["long", "other"]
