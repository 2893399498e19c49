import random
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from prepcli.commands.estimate_bins.padding import padding
from prepcli.errors import UsageError
from prepcli.planning.cut_points import duration_bins
from tests.commands.estimate_bins.asking import bins_1d

Floats = npt.NDArray[np.float64]


def by_the_book(durations: Floats, num_buckets: int) -> list[float]:
    """The walk as the docstring of `duration_bins` words it, one duration at a time."""
    target = np.sort(durations).sum() / num_buckets
    bins, total = [], 0.0
    for duration in np.sort(durations):
        if total > target:
            bins.append(float(duration))
            total = 0.0
        total += duration
    return bins


def distributions(rng: np.random.Generator) -> list[Floats]:
    count = int(rng.integers(2, 5000))
    lognormal = rng.lognormal(1.5, rng.uniform(0.01, 2), count)
    return [
        lognormal,
        np.round(lognormal, 1) + 0.1,  # many equal ones
        np.round(lognormal, 2) + 0.01,
        np.full(count, 0.1),
        rng.choice([0.1, 7.3, 30.0], count),
        rng.integers(1, 20, count).astype(np.float64),
        np.append(lognormal, lognormal.sum() * 3),  # one that outweighs all others
        np.concatenate([np.full(count, 1e-7), np.full(count, 1e7)]),
    ]


@pytest.mark.parametrize("seed", range(10))
def test_bins_are_those_of_the_walk_to_the_last_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for durations in distributions(rng):
        for num_buckets in (2, 3, 30, 200):
            if num_buckets <= len(durations):
                assert duration_bins(durations, num_buckets) == by_the_book(durations, num_buckets)


@pytest.mark.torch
def test_bins_are_lhotses() -> None:
    bucketing = pytest.importorskip("lhotse.dataset.sampling.dynamic_bucketing")

    class Length:  # stands in for lhotse's constraint, so that plain numbers can be its cuts
        def measure_length(self, duration: float) -> float:
            return duration

    for seed in range(3):
        for durations in distributions(np.random.default_rng(seed)):
            for num_buckets in (2, 7, 30):
                if num_buckets <= len(durations):
                    expected = bucketing.estimate_duration_buckets(durations, num_buckets, constraint=Length())
                    assert duration_bins(durations, num_buckets) == expected


def test_bins_split_the_seconds_evenly() -> None:
    assert duration_bins([4.0, 1, 2, 3, 2], 2) == [4.0]
    assert duration_bins(np.ones(10), 5) == [1.0, 1.0, 1.0]
    assert duration_bins([5, 5], 2) == []


def test_bins_leave_the_callers_array_alone() -> None:
    durations = np.array([3.0, 1.0, 2.0])
    duration_bins(durations, 2)
    assert durations.tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(("count", "num_buckets", "words"), [(3, 4, "4 buckets need"), (3, 1, "2 or more")])
def test_too_few_of_something(count: int, num_buckets: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        duration_bins(np.ones(count), num_buckets)


def write(path: Path, durations: list[float], **fields: object) -> Path:
    lines = [
        msgspec.json.encode({"audio_filepath": f"{i}.wav", "duration": duration, **fields})
        for i, duration in enumerate(durations)
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_the_report(tmp_path: Path) -> None:
    rng = random.Random(0)
    durations = [rng.uniform(1, 20) for _ in range(1000)]
    path = write(tmp_path / "m.json", durations)
    path.write_bytes(path.read_bytes() + b'{"_skipme": true}\n{"audio_filepath": "x", "duration": -1}\nbroken\n')
    report = bins_1d(path, num_buckets=10, min_duration=2, max_duration=15)
    used = np.sort([d for d in durations if 2 <= d <= 15])
    assert report.bucket_duration_bins == [round(edge, 5) for edge in by_the_book(used, 10)]
    assert (report.num_examples, report.num_discarded) == (len(used), 1000 - len(used))
    assert (report.num_skipped, report.num_rejected) == (1, 2)
    assert report.first_rejected is not None
    assert report.first_rejected.startswith(f"{path}:1002: duration is -1;")
    assert report.hours == pytest.approx(used.sum() / 3600)
    assert (report.percentiles["p0"], report.percentiles["p100"]) == (used[0], used[-1])
    assert report.percentiles["p50"] == pytest.approx(np.median(used), abs=0.05)
    assert used[-1] <= report.max_duration < used[-1] + 2e-5
    assert sum(bucket.num_examples for bucket in report.buckets) == len(used)
    assert sum(bucket.hours for bucket in report.buckets) == pytest.approx(report.hours)
    assert [bucket.up_to for bucket in report.buckets[:-1]] == report.bucket_duration_bins
    assert report.padding == report.padding_by_num_buckets[10] == padding(used, report.bucket_duration_bins, 360)
    assert report.padding_without_buckets == padding(used, [], 360)
    assert list(report.padding_by_num_buckets) == [5, 10, 20, 30, 50, 100]


def test_the_longest_example_is_not_longer_than_the_printed_maximum(tmp_path: Path) -> None:
    path = write(tmp_path / "m.json", [1.0, 2.000001])
    assert bins_1d(path, num_buckets=2).max_duration == 2.00001


def test_limits_are_inclusive(tmp_path: Path) -> None:
    path = write(tmp_path / "m.json", [1.0, 2.0, 3.0, 4.0])
    report = bins_1d(path, num_buckets=2, min_duration=2.0, max_duration=3.0)
    assert (report.num_examples, report.num_discarded) == (2, 2)


def test_other_numbers_of_buckets_than_there_are_examples_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "m.json", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    report = bins_1d(path, num_buckets=2)
    assert list(report.padding_by_num_buckets) == [2, 5]


@pytest.mark.parametrize(
    ("durations", "asked", "found", "filled"),
    [
        ([1.0 + number / 10 for number in range(30)], 28, 21, 20),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 6, 4, 3),
        ([1.0] * 50 + [2.0] * 30 + [3.0] * 20, 10, 10, 3),
        ([5.0] * 10, 2, 2, 1),
        ([1.0, 1.0, 1.0, 10.0, 10.5, 10.6], 3, 2, 2),
    ],
)
def test_fewer_buckets_than_asked_for_are_explained(
    tmp_path: Path, durations: list[float], asked: int, found: int, filled: int
) -> None:
    path = write(tmp_path / "m.json", durations)
    report = bins_1d(path, num_buckets=asked)
    assert report.num_buckets == found == len(report.bucket_duration_bins) + 1
    assert sum(bucket.num_examples > 0 for bucket in report.buckets) == filled
    (note,) = report.notes
    hold = "" if filled == found else f", of which {filled} hold examples"
    assert note.startswith(f"{asked} buckets were asked for, the bins make {found}{hold}: a bucket ends with")


def test_as_many_buckets_as_asked_for_need_no_note(tmp_path: Path) -> None:
    path = write(tmp_path / "m.json", np.random.default_rng(0).lognormal(1.5, 0.5, 2000).tolist())
    report = bins_1d(path, num_buckets=30)
    assert (report.num_buckets, report.notes) == (30, [])


def test_nothing_to_use_says_why(tmp_path: Path) -> None:
    path = write(tmp_path / "m.json", [1.0, 2.0])
    with pytest.raises(UsageError, match=r"no example that can be used .*2 outside the duration limits"):
        bins_1d(path, min_duration=5)
    path.write_text("")
    with pytest.raises(UsageError, match=r"m\.json holds no example that can be used \(it has no lines\)$"):
        bins_1d(path)
    path.write_text("{\n")
    with pytest.raises(UsageError, match=r"1 unusable line, the first is .*m\.json:1: broken JSON"):
        bins_1d(path)
