"""The search alone: NeMo's answers for the same predicate, with its steps but one of each bucket."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from prepcli.commands.estimate_batch_sizes.buckets import (
    Bound,
    duration_of,
    final_bins,
    tokens_of,
)
from prepcli.commands.estimate_batch_sizes.job import BatchSizesJob
from prepcli.commands.estimate_batch_sizes.search import BucketResults, Step, bisect
from tests.commands.estimate_batch_sizes.asking import settings
from tests.commands.estimate_batch_sizes.fake_child import FakeModel
from tests.commands.estimate_batch_sizes.nemo_search import SCRIPT, nemo_merge, nemo_profile, own_of_nemo


class Here(BatchSizesJob):
    """The job with a toy in this process, which counts the steps."""

    def __init__(self, model: FakeModel, bounds: Sequence[Bound], start: int = 32, threshold: float = 0.05) -> None:
        super().__init__(settings(start_batch_size=start, threshold=threshold), self, "cpu")  # type: ignore[arg-type]
        self.model, self.bounds = model, list(bounds)
        self.found = [BucketResults() for _ in bounds]
        self.asked: list[tuple[float, int | None, int]] = []

    def step(self, duration: float, tokens: int | None, size: int) -> Step:
        self.asked.append((duration, tokens, size))
        return self.model.step(duration, tokens, size)

    def results(self) -> tuple[list[int], int]:
        steps = self._settle_all(self.bounds, self.found, self.model.limit)
        return [one.size for one in self.found], steps


def random_model(draw: random.Random) -> tuple[FakeModel, list[float]]:
    bins = sorted({round(draw.uniform(0.3, 60), 2) for _ in range(draw.randrange(1, 40))})
    model = FakeModel(
        {
            "limit": draw.randrange(20_000_000, 2_000_000_000),
            "base": draw.randrange(100, 9_000_000),
            "per_second": draw.choice([100, 10_000, 90_000]),
            "per_square": draw.choice([0, 50, 3_000]),
        }
    )
    return model, [bound for bound in bins if model.fits(bound, None, 1)]


@pytest.mark.parametrize("number", range(40))
def test_the_answers_are_those_of_nemo(number: int, draw: random.Random) -> None:
    model, bins = random_model(draw)
    start, threshold = draw.choice([1, 3, 7, 32, 100, 1000]), draw.choice([0.0, 0.02, 0.05, 0.3])
    kinds = [kind for kind in (own_of_nemo(),) if kind is not None]
    expected, steps = nemo_profile(len(bins), lambda b, n: model.fits(bins[b], None, n), start, threshold)
    for kind in kinds:
        assert nemo_profile(len(bins), lambda b, n: model.fits(bins[b], None, n), start, threshold, kind) == (
            expected,
            steps,
        )
    here = Here(model, bins, start, threshold)
    sizes, counted = here.results()
    assert (sizes, counted) == (expected, steps)
    assert len(here.asked) == len(set(here.asked))  # nothing is tried twice
    assert len(here.asked) == steps - len(bins)  # NeMo makes one more for each bucket
    assert final_bins(bins, sizes) == list(zip(*nemo_merge(bins, expected), strict=True))


def test_the_steps_of_thirty_buckets() -> None:
    """What the documentation says of them."""
    bins = [round(1 + 1.3 * number, 2) for number in range(30)]
    here = Here(FakeModel({"limit": 50_000_000}), bins)
    _, steps = here.results()
    assert (len(here.asked), steps) == (203, 233)


def test_nemos_own_class_is_read_where_it_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "oomptimizer.py"
    script.write_text(
        "import nothing_there\n\nclass ProfilingBatchGenerator:\n    def __init__(self, *a): self.a = a\n"
    )
    monkeypatch.setenv(SCRIPT, str(script))
    kind = own_of_nemo()
    assert kind is not None
    assert kind(32, 0.05).a == ({"inputs": []}, 32, 0.05)


def test_pairs() -> None:
    bounds: list[Bound] = [(d, t) for d in (2.0, 4.5, 11.0, 30.0) for t in (10 * int(d), 20 * int(d), 40 * int(d))]
    model = FakeModel({"limit": 300_000_000, "per_token": 40_000, "per_square": 500})

    def fits(bucket: int, size: int) -> bool:
        return model.fits(duration_of(bounds[bucket]), tokens_of(bounds[bucket]), size)

    expected, steps = nemo_profile(len(bounds), fits, 32, 0.05)
    here = Here(model, bounds)
    assert here.results() == (expected, steps)
    assert final_bins(bounds, [5] * len(bounds)) == [(bound, 5) for bound in bounds]  # pairs are never merged


def test_what_another_rank_knows_is_not_tried_again() -> None:
    """It began a bucket elsewhere: the answers are NeMo's, and only steps that are missing are made."""
    bins = [1.0, 2.0, 4.0, 8.0, 9.0, 10.0, 16.0, 30.0]
    model = FakeModel({"limit": 90_000_000})
    expected, steps = nemo_profile(len(bins), lambda b, n: model.fits(bins[b], None, n), 32, 0.05)
    here, alone = Here(model, bins), Here(model, bins, start=5)
    for bound, found in list(zip(bins, here.found, strict=True))[::2]:
        alone._settle(bound, found, 5, model.limit)
    assert here.results() == (expected, steps)
    assert len(here.asked) < steps - len(bins) - 8
    assert not set(here.asked) & set(alone.asked)


def test_memory_that_is_not_linear() -> None:
    """Steps of memory, as kernels with fixed tiles have: the answers stay NeMo's."""

    class Uneven(FakeModel):
        def peak(self, duration: float, tokens: int | None, size: int) -> int:
            tiles = -(-size // 16) * 16 if size > 8 else size
            return self.base + tiles * self.per_example(duration, tokens)

    bins = [1.0, 2.0, 4.0, 8.0, 9.0, 10.0, 16.0, 30.0]
    model = Uneven({"limit": 90_000_000})
    assert Here(model, bins).results() == nemo_profile(8, lambda b, n: model.fits(bins[b], None, n), 32, 0.05)


def test_a_bucket_in_which_nothing_fits() -> None:
    model = FakeModel({"limit": 1_500_000})  # one example of 31.9 s fits
    here = Here(model, [5.0, 20.0, 40.0, 50.0])
    sizes, _ = here.results()
    assert sizes[2:] == [0, 0]
    assert sizes[1] >= 1
    longest = here._longest(here.bounds, here.found, model.limit)
    assert longest is not None
    assert model.fits(longest, None, 1)
    assert not model.fits(longest * 1.02, None, 1)


def test_where_nemos_search_ends() -> None:
    assert bisect(32, 0.05, lambda size: size <= 100)[0] == 100
    assert bisect(32, 0.05, lambda size: size <= 1)[0] == 1
    assert bisect(32, 0.05, lambda size: False)[0] == 0
    assert bisect(3, 0.05, lambda size: True)[0] == 1 << 30  # an end even if all fits
    asked = []

    def only_one_fits(size: int) -> bool:
        asked.append(size)
        return size == 1

    bisect(7, 0.05, only_one_fits)
    assert asked == [7, 4, 2, 1]  # halves are rounded, as NeMo does
    assert bisect(32, 0.05, lambda size: size <= 100)[1] == nemo_profile(1, lambda _, n: n <= 100, 32, 0.05)[1]
