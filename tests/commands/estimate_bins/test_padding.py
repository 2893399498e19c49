"""The share of padding in batches: by hand, and as lhotse's samplers deliver it."""

import warnings

import numpy as np
import pytest

from prepcli.commands.estimate_bins.padding import padding
from prepcli.planning.cut_points import duration_bins
from tests.support.nemo_loaders import delivered_padding


def test_padding_by_hand() -> None:
    assert padding(np.full(100, 2.0), [], 20) == 0
    # Batches end where one more of the longest would exceed 12 s: all eleven fit one batch of 1 s, none is longer.
    assert padding([1.0] * 11, [], 12) == 0
    # One batch of two: 3 + 1 of 6 seconds.
    assert padding([3.0, 1.0], [], 100) == pytest.approx(1 / 3)
    # A bucket holds its upper end: {1, 1}, {3, 3}.
    assert padding([1.0, 3.0, 1.0, 3.0], [1.0], 100) == 0
    assert padding([1.0, 3.0, 1.0, 3.0], [0.99], 100) == pytest.approx(1 / 3)
    # Examples longer than a batch come alone.
    assert padding([50.0, 70.0, 90.0], [], 10) == 0


def test_padding_shrinks_with_the_number_of_buckets() -> None:
    durations = np.random.default_rng(0).lognormal(1.8, 0.7, 20_000)
    shares = [padding(durations, duration_bins(durations, count), 360) for count in (2, 5, 20, 100)]
    assert shares == sorted(shares, reverse=True)
    assert 0 < shares[-1] < 0.03 < shares[0] < padding(durations, [], 360) < 1


def test_padding_is_seeded() -> None:
    durations = np.random.default_rng(0).lognormal(1.8, 0.7, 3000)
    assert padding(durations, [5.0], 360) == padding(durations[::-1], [5.0], 360)


def test_padding_of_a_sample_is_that_of_the_whole() -> None:
    durations = np.random.default_rng(0).lognormal(1.8, 0.7, 90_000)
    bins = duration_bins(durations, 20)
    for edges in ([], bins):
        small, large = padding(durations, edges, 360), padding(np.tile(durations, 4), edges, 360)
        assert small == pytest.approx(large, abs=0.01)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("count", "sigma", "num_buckets", "batch_duration"),
    [(12_000, 0.7, 30, 360), (12_000, 0.7, 8, 120), (12_000, 0.4, 4, 600), (480, 0.7, 30, 360), (3000, 1.0, 10, 1000)],
)
def test_padding_is_what_lhotses_samplers_deliver(
    count: int, sigma: float, num_buckets: int, batch_duration: float
) -> None:
    """Predicted within 1 percentage point of an epoch of the real samplers."""
    lhotse = pytest.importorskip("lhotse")
    sampling = pytest.importorskip("lhotse.dataset.sampling")
    from lhotse.testing.dummies import dummy_cut

    durations = np.clip(np.random.default_rng(count).lognormal(1.8, sigma, count), 0.2, 40).round(3)
    bins = duration_bins(durations, num_buckets)
    cuts = lhotse.CutSet.from_cuts(dummy_cut(i, duration=float(d)) for i, d in enumerate(durations))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bucketed = sampling.DynamicBucketingSampler(
            cuts, max_duration=batch_duration, duration_bins=bins, shuffle=True, rank=0, world_size=1
        )
        unbucketed = sampling.DynamicCutSampler(cuts, max_duration=batch_duration, shuffle=True, rank=0, world_size=1)
        assert padding(durations, bins, batch_duration) == pytest.approx(delivered_padding(bucketed), abs=0.01)
        assert padding(durations, [], batch_duration) == pytest.approx(delivered_padding(unbucketed), abs=0.01)
