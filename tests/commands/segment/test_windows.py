"""Windows: each of one length; none cuts a line; and Whisper's rule for lines that end after their window."""

import re
from itertools import pairwise

from prepcli.commands.segment.account import samples_of
from prepcli.commands.segment.packing import Rules
from prepcli.commands.segment.texts import Item, speech_of
from prepcli.commands.segment.windows import around_texts, for_whisper, grid, timed_text
from prepcli.errors import RejectReason
from tests.commands.segment.test_packing import random_items
from tests.support.seeds import draw_for

RATE = 1000
RULES = Rules(RATE, 30 * RATE, 0, 0)


def lines(*places: tuple[float, float, str]) -> list[Item]:
    return [Item(round(start * RATE), round(end * RATE), text, None, False) for start, end, text in places]


def whisper(items: list[Item], seconds: float) -> list[tuple[float, float, str | None]]:
    """Windows for Whisper: start and end in seconds, and the text; None where the window is left out."""
    spans = speech_of(items, "any", RATE, None)
    return [
        (
            piece.start / RATE,
            piece.end / RATE,
            None if piece.reason else timed_text(spans, items, piece, RATE),
        )
        for piece in for_whisper(spans, round(seconds * RATE), RULES)
    ]


def test_a_grid_has_windows_of_one_length() -> None:
    made = [(piece.start, piece.end, piece.reason) for piece in grid(65, Rules(10, 30, 0, 0))]
    assert made == [(0, 30, None), (30, 60, None), (60, 65, RejectReason.BELOW_MIN_DURATION)]


def test_no_window_cuts_a_line_and_each_sample_is_in_one() -> None:
    seeded = draw_for("windows")
    for _ in range(1000):
        items, length = random_items(seeded)
        spans = speech_of(items, "any", RATE, None)
        size = seeded.choice([3000, 10000, 30000])
        pieces = list(around_texts(spans, length, Rules(500, size, 0, 200)))
        assert samples_of(pieces, length)["pauses"] == 0
        assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
        for piece in pieces:
            assert piece.length <= size or piece.reason is RejectReason.TOO_LONG
            if piece.reason is not RejectReason.TOO_LONG:
                middles = [(span.start + span.end) // 2 for span in spans]
                inside = [number for number, middle in enumerate(middles) if piece.start <= middle < piece.end]
                assert inside == list(range(piece.first, piece.last))
        assert [number for piece in pieces for number in range(piece.first, piece.last)] == list(range(len(spans)))


def test_a_line_that_ends_after_its_window_begins_the_next() -> None:
    """Only its start is in the first window: with its text Whisper would learn to write what it does not hear, without
    its start to leave out what it hears."""
    made = whisper(lines((1, 3, "One."), (3.5, 9.98, "Two."), (28, 33, "Three."), (40, 41, "Four.")), 60)
    assert made == [
        (0, 30, "<|1.00|> One.<|3.00|><|3.50|> Two.<|9.98|><|28.00|>"),
        (28, 58, "<|0.00|> Three.<|5.00|><|12.00|> Four.<|13.00|>"),
        (58, 60, ""),
    ]


def test_a_line_longer_than_whispers_input_is_left_out() -> None:
    assert whisper(lines((1, 3, "One."), (10, 45, "Long."), (46, 47, "Two.")), 60) == [
        (0, 30, "<|1.00|> One.<|3.00|><|10.00|>"),
        (10, 45, None),
        (45, 60, "<|1.00|> Two.<|2.00|>"),
    ]


def test_timestamps_of_random_lines_ascend_and_no_line_is_lost() -> None:
    seeded = draw_for("whisper")
    for _ in range(500):
        items, length = random_items(seeded)
        items = [item._replace(text=f"w{number}", is_word=False) for number, item in enumerate(items)]
        spans = speech_of(items, "any", RATE, None)
        pieces = list(for_whisper(spans, length, RULES._replace(shortest=0)))
        counts = samples_of(pieces, length)
        assert sum(counts.values()) == length
        assert counts["overlap"] <= 0
        texts = [timed_text(spans, items, piece, RATE) for piece in pieces if piece.reason is None]
        said = [word for text in texts for word in re.findall(r"w\d+", text)]
        left = [
            f"w{n}" for piece in pieces if piece.reason for span in spans[piece.first : piece.last] for n in span.items
        ]
        assert sorted(said + left) == sorted(item.text or "" for item in items)
        for text in texts:
            stamps = [float(stamp) for stamp in re.findall(r"<\|(\d+\.\d\d)\|>", text)]
            assert all(one <= other for one, other in pairwise(stamps))
            assert not stamps or max(stamps) <= 30
            assert all(round(stamp * 100) % 2 == 0 for stamp in stamps)
