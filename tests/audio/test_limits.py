"""Which samples a manifest's seconds mean."""

import random

import pytest

from prepcli.audio.info import AudioInfo
from prepcli.audio.limits import SAME_SECONDS, segment_samples
from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import ROUNDING


@pytest.mark.torch
def test_seconds_become_samples_as_in_lhotse() -> None:
    from lhotse.utils import compute_num_samples

    rng = random.Random(1)
    for _ in range(5000):
        rate = rng.choice([8000, 11025, 16000, 22050, 24000, 44100, 48000])
        info = AudioInfo("wav", "PCM_16", rate, 10**9, 1, 44)
        seconds = rng.choice(
            [
                rng.uniform(0, 10),
                rng.uniform(0, 20000),
                round(rng.uniform(0, 100), rng.randint(1, 6)),
                (rng.randrange(10**6) + 0.5) / rate,
                (rng.randrange(10**8) + 0.5) / rate,
                (rng.randrange(10**6) + 0.5 + rng.uniform(-3e-8, 3e-8)) / rate,
            ]
        )
        expected = compute_num_samples(seconds, rate)
        if seconds and expected:
            assert segment_samples(info, seconds, None)[0] == expected
            assert segment_samples(info, 0, seconds)[1] == expected


def test_segments_beyond_the_audio() -> None:
    info = AudioInfo("wav", "PCM_16", 16000, 175456, 1, 44)  # 10.966 s
    assert segment_samples(info, 0, None) == (0, 175456)
    assert segment_samples(info, 1.5, None) == (24000, 151456)
    assert segment_samples(info, 1.5, 2) == (24000, 32000)
    # The duration of a whole file: 20 ms are 320 samples, clipped up to there, refused above.
    assert segment_samples(info, 0, 10.986) == (0, 175456)
    # A segment: 10 ms.
    assert segment_samples(info, 10.0, 0.976) == (160000, 15456)
    assert segment_samples(info, 0, 10.976, ROUNDING) == (0, 175456)
    for offset, duration, detail in [
        (0, 10.98607, "offset 0 s + duration 10.98607 s ends 0.020 s after the end of the audio (10.966 s)"),
        (3.2, 9.0, "offset 3.2 s + duration 9 s ends 1.234 s after the end of the audio (10.966 s)"),
        (10.966, 0.01, "offset 10.966 s is not before the end of the audio (10.966 s)"),
        (10.97, None, "offset 10.97 s is not before the end of the audio (10.966 s)"),
        (99, 1, "offset 99 s is not before the end of the audio (10.966 s)"),
    ]:
        with pytest.raises(RecordRejected) as caught:
            segment_samples(info, offset, duration)
        assert caught.value.reason is RejectReason.BEYOND_AUDIO
        assert caught.value.detail == detail
    for offset, duration, same in [(10.0, 0.977, SAME_SECONDS), (0, 10.977, ROUNDING)]:
        with pytest.raises(RecordRejected, match=r"ends 0\.011 s after the end of the audio"):
            segment_samples(info, offset, duration, same)


@pytest.mark.parametrize("decimals", [2, 3, 8, None])
@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_segments_with_rounded_times_are_never_rejects(decimals: int | None, rate: int) -> None:
    """Kaldi writes two decimals, Common Voice three, lhotse eight, or whole samples (None)."""
    rng = random.Random(rate)
    for _ in range(500):
        info = AudioInfo("wav", "PCM_16", rate, rng.randrange(rate, 3600 * rate), 1, 44)
        start = rng.uniform(0, info.duration - 0.5)
        if decimals is None:
            start = round(start * rate) / rate
            seconds = (info.num_samples + 1) / rate - start
        else:
            start, seconds = round(start, decimals), round(info.duration - start, decimals)
        first, count = segment_samples(info, start, seconds, ROUNDING)
        assert first + count == info.num_samples or first + count > info.num_samples - 0.011 * rate


@pytest.mark.parametrize(
    ("offset", "duration", "reason"),
    [
        (-0.1, 1.0, RejectReason.BAD_OFFSET),
        (float("nan"), 1.0, RejectReason.BAD_OFFSET),
        (float("inf"), 1.0, RejectReason.BAD_OFFSET),
        (0.0, 0.0, RejectReason.BAD_DURATION),
        (0.0, -1.0, RejectReason.BAD_DURATION),
        (0.0, float("nan"), RejectReason.BAD_DURATION),
        (0.0, float("inf"), RejectReason.BAD_DURATION),
        (0.0, 1e-5, RejectReason.BAD_DURATION),
    ],
)
def test_numbers_that_mean_no_segment(offset: float, duration: float, reason: RejectReason) -> None:
    with pytest.raises(RecordRejected) as caught:
        segment_samples(AudioInfo("wav", "PCM_16", 16000, 16000, 1, 44), offset, duration)
    assert caught.value.reason is reason
