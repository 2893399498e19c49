"""Random plans of segments: limits hold, nothing is lost, and each sample is accounted for."""

import random
from itertools import pairwise

import numpy as np
import pytest

from prepcli.commands.segment.account import samples_of
from prepcli.commands.segment.packing import PAUSE, Piece, Rules, Speech, bounds_of, grouped, pack
from prepcli.commands.segment.texts import ByMiddle, Item, speech_of
from prepcli.errors import RejectReason
from tests.support.seeds import draw_for

RATE = 1000
RULES = Rules(1000, 20000, 1000, 200, round(PAUSE * RATE))


def random_items(random: random.Random) -> tuple[list[Item], int]:
    """Words of up to three speakers, some of which overlap; and the length of the recording."""
    items, at = [], random.randrange(3000)
    for _ in range(random.randrange(60)):
        at += random.choice([0, 0, 20, 150, 600, 1500, 4000]) - random.choice([0, 0, 0, 0, 50, 400, 3000])
        start = max(at, 0)
        end = start + random.choice([1, 60, 300, 300, 900, 2500, 24000])
        text = random.choice([" yes", " no.", " well?", " so"])
        items.append(Item(start, end, text, random.choice(["a", "a", "a", "b", "c"]), True))
        at = end
    length = max((item.end for item in items), default=0) + random.randrange(2000) + 1
    return sorted(items, key=lambda item: item.start), length


def random_rules(random: random.Random) -> Rules:
    return Rules(
        random.choice([0, 500, 1000]),
        random.choice([3000, 10000, 20000]),
        random.choice([0, 300, 1000]),
        random.choice([0, 100, 200, 700]),
        round(PAUSE * RATE),
        same_speaker=random.random() < 0.5,
    )


def test_each_sample_of_a_thousand_random_plans_is_accounted_for() -> None:
    """Also: limits of length hold, margins end in the middle of pauses, the middle of a word is in one piece."""
    seeded = draw_for("plans")
    num_segments = num_rejects = 0
    for _ in range(1000):
        items, length = random_items(seeded)
        end_at = seeded.choice(["any", "pause", "punctuation"])
        prefers = end_at == "any" and seeded.random() < 0.5
        rules = random_rules(seeded)._replace(at_pauses=end_at == "pause", prefers_pauses=prefers)
        overlap = seeded.choice([None, RejectReason.OVERLAP])
        spans = speech_of(items, end_at, RATE, overlap)
        pieces = list(pack(spans, length, rules))
        counts = samples_of(pieces, length)
        assert sum(counts.values()) == length
        assert all(count >= 0 for count in counts.values()), counts
        covered = np.zeros(length, np.int8)
        for piece in pieces:
            covered[piece.start : piece.end] += 1
        assert covered.max() <= 1
        assert np.count_nonzero(covered == 0) == counts["pauses"]
        assert [number for piece in pieces for number in range(piece.first, piece.last)] == list(range(len(spans)))
        found = ByMiddle(items)
        words = [item for piece in pieces for item in found.within(piece.start, piece.end)]
        assert sorted(words) == sorted(items)
        check_segments(pieces, spans, items, rules, length, end_at)
        num_segments += sum(piece.reason is None for piece in pieces)
        num_rejects += sum(piece.reason is not None for piece in pieces)
    assert num_segments > 1000
    assert num_rejects > 1000


def check_segments(
    pieces: list[Piece], spans: list[Speech], items: list[Item], rules: Rules, length: int, end_at: str
) -> None:
    bounds = bounds_of(spans, length)
    for piece in pieces:
        inside = spans[piece.first : piece.last]
        assert bounds[piece.first] <= piece.start <= inside[0].start or inside[0].start < bounds[piece.first]
        assert piece.start >= bounds[piece.first]
        assert piece.end <= bounds[piece.last]
        assert piece.start >= inside[0].start - rules.pad
        assert piece.end <= inside[-1].end + rules.pad
        if piece.reason is not None:
            continue
        assert rules.shortest <= piece.length <= rules.longest
        assert all(span.reason is None for span in inside)
        assert all(other.start - one.end <= rules.join_pause for one, other in pairwise(inside))
        words = items[inside[0].items.start : inside[-1].items.stop]
        if rules.same_speaker:
            assert len({span.speakers for span in inside}) == 1
        following = spans[piece.last] if piece.last < len(spans) else None
        is_break = (
            following is None
            or following.reason is not None
            or following.start - inside[-1].end > rules.join_pause
            or (rules.same_speaker and following.speakers != inside[-1].speakers)
        )
        if end_at == "punctuation" and not is_break:
            assert (words[-1].text or "")[-1] in ".?"
        if end_at == "pause" and not is_break:
            assert following is not None
            assert following.start - inside[-1].end >= rules.pause


def test_segments_are_those_of_greedy_packing() -> None:
    """Without margins and overlap, the rule is that of NeMo Curator: grow while pause and length allow it."""
    seeded = draw_for("greedy")
    for _ in range(300):
        items, length = random_items(seeded)
        items = [item for number, item in enumerate(items) if not number or item.start >= items[number - 1].end]
        spans = speech_of(items, "any", RATE, None)
        spans = [span for number, span in enumerate(spans) if not number or span.start >= spans[number - 1].end]
        longest, gap = seeded.choice([3000, 10000]), seeded.choice([0, 300, 1000])
        wanted: list[tuple[int, int]] = []
        for span in spans:
            fits = wanted and span.end - wanted[-1][0] <= longest and span.start - wanted[-1][1] <= gap
            wanted[-1:] = [(wanted[-1][0], span.end)] if fits else [*wanted[-1:], (span.start, span.end)]
        made = list(pack(spans, length, Rules(0, longest, gap, 0)))
        assert [(piece.start, piece.end) for piece in made if piece.reason is None] == [
            place for place in wanted if place[1] - place[0] <= longest
        ]


@pytest.mark.parametrize(
    ("spans", "wanted"),
    [
        ([(0, 1000), (1050, 2000)], [(0, 1000), (1050, 2000)]),
        ([(0, 1000), (950, 2000)], [(0, 1000), (950, 2000)]),  # recognizers are not more exact
        ([(0, 1000), (500, 2000), (3000, 4000)], [(0, 2000), (3000, 4000)]),
        ([(0, 5000), (1000, 2000), (4950, 6000)], [(0, 5000), (4950, 6000)]),
        ([(0, 1000), (400, 450), (1200, 1500)], [(0, 1000), (1200, 1500)]),
    ],
)
def test_what_overlaps_is_one_span(spans: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    made = grouped([Speech(*place, items=range(n, n + 1)) for n, place in enumerate(spans)], 100, RejectReason.OVERLAP)
    assert [(span.start, span.end) for span in made] == wanted


def test_a_short_word_within_another_belongs_to_it() -> None:
    """Whisper gives some words no duration, at any place within their neighbour."""
    spans = [Speech(0, 1000, items=range(1)), Speech(400, 401, items=range(1, 2))]
    assert grouped(spans, 100, RejectReason.OVERLAP) == [Speech(0, 1000, items=range(2))]


def test_speech_without_a_place_to_end_is_too_long() -> None:
    spans = [Speech(start, start + 1000, may_end=False) for start in range(0, 30000, 1000)]
    [piece] = pack(spans, 30000, RULES)
    assert (piece.start, piece.end, piece.reason) == (0, 30000, RejectReason.TOO_LONG)


def test_a_segment_ends_at_a_pause_in_its_second_half() -> None:
    starts = [*range(0, 15000, 500), *range(15200, 25000, 500)]
    spans = [Speech(start, start + 500) for start in starts]
    rules = Rules(0, 20000, 1000, 0, 100, prefers_pauses=True)
    assert [(piece.start, piece.end) for piece in pack(spans, 25200, rules)] == [(0, 15000), (15200, 25200)]
