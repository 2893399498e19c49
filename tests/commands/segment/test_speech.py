"""Segments of speech against espeak-ng's own word events, and the division of speech that is too long."""

import json
import random
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from prepcli.commands.segment.packing import Rules
from prepcli.commands.segment.speech import Divider, Power, speech_in
from prepcli.errors import RejectReason
from prepcli.models.silero import END_THRESHOLD, FRAME, SAMPLING_RATE, THRESHOLD
from tests.conftest import MINI_CORPUS, Lines, read_lines
from tests.support.espeak_words import VOICES, Spoken, Word, talk, with_noise
from tests.support.running import prepcli
from tests.support.seeds import draw_for
from tests.support.tools import need, need_package

RATE = SAMPLING_RATE
MINUTES = 2


def vocabulary(language: str) -> list[str]:
    """The words of the mini corpus in a language."""
    lines = (json.loads(line) for line in (MINI_CORPUS / "manifest.json").open(encoding="utf-8"))
    words = (word for line in lines if line["lang"] == language for word in line["text"].lower().split())
    return sorted({word.strip(".,!?") for word in words})


def recordings(folder: Path, words_at_once: int) -> dict[str, Spoken]:
    """Talks of four voices as they are, and with noise at 30 and 15 dB: WAV files in `folder`, and what is in them."""
    need("espeak-ng")
    made = {}
    for language, voice in VOICES.items():
        talked = talk(voice, vocabulary(language), 60 * MINUTES, random.Random(language), words_at_once)
        for decibels in (0, 30, 15):
            samples = with_noise(talked.samples, decibels, seed=1) if decibels else talked.samples
            name = f"{language}{decibels}.wav"
            soundfile.write(folder / name, samples, talked.rate)
            made[name] = talked
    return made


def edges_of(lines: Lines, rate: int) -> list[tuple[int, int]]:
    """The first sample of each segment of a recording, and the sample after its last."""
    places = ((line["offset"], line["offset"] + line["duration"]) for line in lines)
    return sorted((round(start * rate), round(end * rate)) for start, end in places)


def words_outside(words: list[Word], pieces: list[tuple[int, int]]) -> int:
    """The number of words whose start is in no piece."""
    starts = [start for start, _ in pieces]
    before = [bisect_right(starts, word.start) - 1 for word in words]
    return sum(number < 0 or word.start >= pieces[number][1] for word, number in zip(words, before, strict=True))


def cuts_in_words(words: list[Word], pieces: list[tuple[int, int]]) -> tuple[int, int]:
    """The number of places where a segment begins or ends, and of those that lie within a word."""
    places = {place for piece in pieces for place in piece}
    starts = [word.start for word in words]
    before = ((place, bisect_right(starts, place - 1) - 1) for place in places)
    return len(places), sum(number >= 0 and place < words[number].end for place, number in before)


@pytest.mark.slow
@pytest.mark.parametrize(("longest", "words_at_once"), [(20, 9), (5, 5)])
def test_no_word_is_lost_and_hardly_one_is_cut(tmp_path: Path, longest: int, words_at_once: int) -> None:
    need_package("silero_vad")
    talks = tmp_path / "talks"
    talks.mkdir()
    said = recordings(talks, words_at_once)
    done = prepcli("segment", talks, tmp_path / "out.json", "--max", longest, "--json")
    assert done.code == 0, done.err
    assert set(done.json["rejects_by_reason"]) <= {"below_min_duration"}
    lines = read_lines(tmp_path / "out.json")
    rejects = read_lines(tmp_path / "out.json.prepcli/rejects.jsonl")
    assert all(1 <= line["duration"] <= longest for line in lines)
    cuts = bad = 0
    for name, talked in said.items():
        segments, short = (
            edges_of([line for line in part if Path(line["audio_filepath"]).name == name], talked.rate)
            for part in (lines, rejects)
        )
        assert words_outside(talked.words, sorted([*segments, *short])) == 0, name
        num, num_bad = cuts_in_words(talked.words, segments)
        cuts, bad = cuts + num, bad + num_bad
    assert cuts > 70 * MINUTES
    assert bad <= 0.005 * cuts


def power_of(samples: NDArray[np.float32]) -> Power:
    """The power of samples at 16 kHz."""
    power = Power(RATE)
    for _ in power.measured([samples]):
        pass
    return power


def noise(num_frames: int) -> NDArray[np.float32]:
    """Noise of `num_frames` of the detector's frames, as loud everywhere."""
    return 0.1 * np.random.default_rng(0).standard_normal(num_frames * FRAME, np.float32)


def places(probabilities: NDArray[Any], samples: NDArray[np.float32], longest: float) -> list[tuple[float, float]]:
    """The parts of speech in seconds that may be in a segment, which have at most `longest` s without margins."""
    pad = RATE // 5
    rules = Rules(0, round(longest * RATE) + 2 * pad, RATE, pad)
    spans = speech_in(probabilities.astype(np.float32), power_of(samples), len(samples), RATE, rules)
    return [(span.start / RATE, span.end / RATE) for span in spans if span.reason is None]


def test_speech_is_divided_at_its_longest_pause() -> None:
    probabilities = np.ones(300)
    probabilities[100:102] = probabilities[150:153] = 0.3
    samples = noise(300)
    samples[150 * FRAME : 153 * FRAME] = 0
    [first, second] = places(probabilities, samples, 5)
    assert first == pytest.approx((0, 150 * 0.032), abs=0.03)
    assert second == pytest.approx((153 * 0.032, 300 * 0.032), abs=0.03)


def test_a_pause_that_is_noticed_late_is_moved() -> None:
    """Between two spans of speech, and within one."""
    samples = noise(300)
    samples[round(4.8 * RATE) : round(4.96 * RATE)] = 0
    for last in (153, 155):
        probabilities = np.ones(300)
        probabilities[152:last] = 0.1
        probabilities[153:155] = np.minimum(probabilities[153:155], 0.4)
        (_, end), (start, _) = places(probabilities, samples, 6)
        assert (start + end) / 2 == pytest.approx(4.88, abs=0.02)


def test_a_quiet_place_in_which_the_detector_hears_speech() -> None:
    samples = noise(300)
    samples[round(6 * RATE) : round(6.15 * RATE)] *= 0.1
    probabilities = np.ones(300)
    probabilities[100] = 0.2  # one frame does not count as a pause
    [(_, first), (second, _)] = places(probabilities, samples, 7)
    assert first == second == pytest.approx(6.075, abs=0.02)


def test_the_lowest_probability_is_the_last_resort() -> None:
    probabilities = np.ones(300)
    probabilities[180], probabilities[130] = 0.4, 0.45
    [(_, first), (second, _)] = places(probabilities, noise(300), 7)
    assert 180.5 * 0.032 - 0.15 <= first == second <= 180.5 * 0.032


def test_speech_without_a_place_to_cut_is_rejected() -> None:
    probabilities = np.concatenate([np.ones(300), np.zeros(20), np.ones(20)]).astype(np.float32)
    samples = noise(340)
    spans = speech_in(probabilities, power_of(samples), len(samples), RATE, Rules(0, 5 * RATE, RATE, 3200))
    assert [(span.start, span.end, span.reason) for span in spans] == [
        (0, 300 * FRAME, RejectReason.TOO_LONG),
        (320 * FRAME, 340 * FRAME, None),
    ]


def test_random_parts_are_in_order_cover_the_speech_and_are_short() -> None:
    seeded = draw_for("parts")
    num_cuts = 0
    for _ in range(100):
        rng = np.random.default_rng(seeded.randrange(1 << 32))
        blocks = rng.choice([0.1, 0.34, 0.4, 0.6, 1.0], rng.integers(1, 60), p=[0.1, 0.1, 0.1, 0.2, 0.5])
        probabilities = np.repeat(blocks, rng.integers(1, 40, len(blocks))).astype(np.float32)
        gains = np.repeat(rng.choice([0, 0.05, 1.0], len(probabilities) // 4 + 1, p=[0.1, 0.1, 0.8]), 4 * FRAME)
        samples = (noise(len(probabilities)) * gains[: len(probabilities) * FRAME]).astype(np.float32)
        power, end = power_of(samples), len(samples) - int(rng.integers(FRAME))
        start, longest = int(rng.integers(end)), int(rng.choice([20000, 40000, 80000]))
        margins = int(rng.choice([1, 6400]))
        parts = list(Divider(probabilities, power, longest, margins).parts(start, end))
        assert (parts[0][0], parts[-1][1]) == (start, end)
        for first, last, is_divided in parts:
            assert first < last
            assert last - first <= longest or not is_divided
            if not is_divided:
                inside = probabilities[-(-(first + longest) // FRAME) : (last - longest) // FRAME]
                assert (inside >= THRESHOLD).all()
        for (_, last, _), (first, _, _) in pairwise(parts):
            assert last <= first
            is_pause = probabilities[last // FRAME : first // FRAME] < END_THRESHOLD
            assert first - last < margins or is_pause.all()  # margins fill the others
        num_cuts += len(parts) - 1
    assert num_cuts > 200


def test_spans_of_random_probabilities_do_not_overlap() -> None:
    """Also where short pauses are moved, and at rates from which 16 kHz is not a whole multiple."""
    seeded = draw_for("spans")
    num_spans = 0
    for _ in range(200):
        rng = np.random.default_rng(seeded.randrange(1 << 32))
        rate = int(rng.choice([8000, 16000, 22050, 44100]))
        probabilities = np.repeat(rng.choice([0.0, 1.0], 40), rng.integers(1, 12, 40)).astype(np.float32)
        length = (len(probabilities) * FRAME - int(rng.integers(FRAME))) * rate // SAMPLING_RATE
        power = Power(rate)
        list(power.measured([rng.standard_normal(length, np.float32) * rng.random(length, np.float32) ** 4]))
        longest, pad = rate * int(rng.integers(1, 5)), int(0.2 * rate)
        spans = speech_in(probabilities, power, length, rate, Rules(0, longest, rate, pad))
        for span in spans:
            assert 0 <= span.start < span.end <= length
            assert span.end - span.start <= longest - 2 * pad or span.reason is RejectReason.TOO_LONG
        for one, other in pairwise(spans):
            assert one.end <= other.start
        num_spans += len(spans)
    assert num_spans > 1000


def test_a_short_word_near_others_is_speech() -> None:
    """Of 0.2 s: alone, it counts as a noise."""
    probabilities = np.zeros(300)
    probabilities[10:16] = probabilities[30:60] = probabilities[250:256] = 1
    spans = places(probabilities, noise(300), 20)
    assert [(round(start / 0.032), round(end / 0.032)) for start, end in spans] == [(10, 16), (30, 60)]


def test_the_power_does_not_depend_on_the_blocks() -> None:
    samples = noise(100) + np.float32(0.5)  # a constant offset does not count
    samples[20000:24000] = 0.5
    power = power_of(samples)
    parts = Power(RATE)
    assert sum(len(block) for block in parts.measured(np.split(samples, [1, 700, 30000]))) == len(samples)
    for start, end in [(0, len(samples)), (0, 16000), (30000, 40000), (51000, 51200)]:
        assert parts.quietest(start, end) == power.quietest(start, end)
        assert parts.mean(start, end) == power.mean(start, end) == pytest.approx(0.01, rel=0.5)
    place, quiet = power.quietest(0, len(samples))
    assert abs(place - 22000) <= 160
    assert quiet == 0
    assert power_of(samples[:1000]).quietest(0, 1000) == (500, float("inf"))
