"""The search alone: NeMo's answers for the same predicate, with few questions."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from prepcli.commands.estimate_batch_sizes.buckets import (
    Bound,
    buckets_in_config,
    duration_of,
    final_lists,
    parse_buckets,
    tokens_of,
)
from prepcli.commands.estimate_batch_sizes.lines import envelope, peak_of
from prepcli.commands.estimate_batch_sizes.messages import Counted, Hello, Step
from prepcli.commands.estimate_batch_sizes.options import parse_memory
from prepcli.commands.estimate_batch_sizes.probes import Record
from prepcli.commands.estimate_batch_sizes.search import Bracket, follow, next_size, num_nemo_steps
from prepcli.commands.estimate_batch_sizes.searching import Search, Settings
from prepcli.errors import UsageError
from tests.commands.estimate_batch_sizes.fake_child import FakeModel
from tests.commands.estimate_batch_sizes.nemo_search import SCRIPT, nemo_merge, nemo_profile, own_of_nemo


class Here:
    """A child in this process, which counts the steps."""

    def __init__(self, model: FakeModel) -> None:
        self.model = model
        self.asked: list[tuple[float, int | None, int]] = []

    def hello(self) -> Hello:
        return self.model.hello()

    def step(self, duration: float, tokens: int | None, size: int) -> Step:
        self.asked.append((duration, tokens, size))
        return self.model.step(duration, tokens, size)

    def count(self, duration: float, tokens: int | None) -> Counted:
        return self.model.count(duration, tokens)


def make_search(
    tmp_path: Path, model: FakeModel, bounds: Sequence[Bound], start: int = 32, threshold: float = 0.05
) -> tuple[Search, Here]:
    child = Here(model)
    settings = Settings(bounds, start, threshold, False, model.limit, model.base)
    return Search(settings, Record(tmp_path, "digest"), child), child


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
def test_the_answers_are_those_of_nemo(number: int, tmp_path: Path, draw: random.Random) -> None:
    model, bins = random_model(draw)
    start, threshold = draw.choice([1, 3, 7, 32, 100, 1000]), draw.choice([0.0, 0.02, 0.05, 0.3])
    kinds = [kind for kind in (own_of_nemo(),) if kind is not None]
    expected, steps = nemo_profile(len(bins), lambda b, n: model.fits(bins[b], None, n), start, threshold)
    for kind in kinds:
        assert nemo_profile(len(bins), lambda b, n: model.fits(bins[b], None, n), start, threshold, kind) == (
            expected,
            steps,
        )
    search, child = make_search(tmp_path, model, bins, start, threshold)
    sizes = search.results(finish=True)
    assert sizes == expected
    assert len(child.asked) == len(set(child.asked))  # nothing is tried twice
    assert len(child.asked) <= steps
    lists = final_lists(bins, sizes)
    assert (lists.bins, lists.sizes) == nemo_merge(bins, expected)


def test_nemos_own_class_is_read_where_it_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "oomptimizer.py"
    script.write_text(
        "import nothing_there\n\nclass ProfilingBatchGenerator:\n    def __init__(self, *a): self.a = a\n"
    )
    monkeypatch.setenv(SCRIPT, str(script))
    kind = own_of_nemo()
    assert kind is not None
    assert kind(32, 0.05).a == ({"inputs": []}, 32, 0.05)


def test_pairs(tmp_path: Path, draw: random.Random) -> None:
    bounds: list[Bound] = [(d, t) for d in (2.0, 4.5, 11.0, 30.0) for t in (10 * int(d), 20 * int(d), 40 * int(d))]
    model = FakeModel({"limit": 300_000_000, "per_token": 40_000, "per_square": 500})

    def fits(bucket: int, size: int) -> bool:
        return model.fits(duration_of(bounds[bucket]), tokens_of(bounds[bucket]), size)

    expected, steps = nemo_profile(len(bounds), fits, 32, 0.05)
    search, child = make_search(tmp_path, model, bounds)
    sizes = search.results(finish=True)
    assert sizes == expected
    assert len(child.asked) < steps / 2
    assert final_lists(bounds, [5] * len(bounds)).bins == bounds  # pairs are never merged


def test_thirty_buckets_take_a_quarter_of_nemos_steps(tmp_path: Path) -> None:
    bins = [round(1 + 1.3 * number, 2) for number in range(30)]
    model = FakeModel({"limit": 50_000_000})
    search, child = make_search(tmp_path, model, bins)
    search.results(finish=True)
    _, steps = nemo_profile(30, lambda b, n: model.fits(bins[b], None, n), 32, 0.05)
    assert (len(child.asked), steps) == (62, 233)


def test_memory_that_is_not_linear(tmp_path: Path, draw: random.Random) -> None:
    """Steps of memory, as kernels with fixed tiles have, and noise in what is measured: the answers stay NeMo's."""

    class Uneven(FakeModel):
        def peak(self, duration: float, tokens: int | None, size: int) -> int:
            tiles = -(-size // 16) * 16 if size > 8 else size
            return self.base + tiles * self.per_example(duration, tokens)

        def step(self, duration: float, tokens: int | None, size: int) -> Step:
            made = super().step(duration, tokens, size)
            return Step(made.outcome, int(made.peak * draw.uniform(0.7, 1.3)))

    bins = [1.0, 2.0, 4.0, 8.0, 9.0, 10.0, 16.0, 30.0]
    model = Uneven({"limit": 90_000_000})
    expected, steps = nemo_profile(len(bins), lambda b, n: model.fits(bins[b], None, n), 32, 0.05)
    search, child = make_search(tmp_path, model, bins)
    assert search.results(finish=True) == expected
    assert len(child.asked) <= steps + 3 * len(bins)  # wrong predictions are given up soon


def test_a_bucket_in_which_nothing_fits(tmp_path: Path) -> None:
    model = FakeModel({"limit": 1_500_000})  # one example of 31.9 s fits
    search, _ = make_search(tmp_path, model, [5.0, 20.0, 40.0, 50.0])
    sizes = search.results(finish=True)
    assert sizes[2:] == [0, 0]
    assert sizes[1] >= 1
    found = search.longest(sizes)
    assert found is not None
    assert model.fits(found.duration, None, 1)
    assert not model.fits(found.duration * 1.02, None, 1)


def test_where_nemos_search_ends() -> None:
    assert follow(32, 0.05, lambda size: size <= 100) == Bracket(100, 104)
    assert follow(32, 0.05, lambda size: size <= 1) == Bracket(1, 2)
    assert follow(32, 0.05, lambda size: False) == Bracket(0, 1)
    assert follow(3, 0.05, lambda size: True).fails is None  # an end even where all fits
    asked = []

    def only_one_fits(size: int) -> bool:
        asked.append(size)
        return size == 1

    follow(7, 0.05, only_one_fits)
    assert asked == [7, 4, 2, 1]  # halves are rounded, as NeMo does
    assert num_nemo_steps(32, 0.05, lambda size: size <= 100) == nemo_profile(1, lambda _, n: n <= 100, 32, 0.05)[1]


def test_a_right_prediction_needs_two_steps() -> None:
    known = Bracket()
    asked = []
    while (size := next_size(32, 0.05, known, 101)) is not None:
        asked.append(size)
        known = known.with_answer(size, size <= 101)
    assert asked == [100, 104]


@pytest.mark.parametrize(
    "text", ["", "[]", "[0]", "[5,5]", "[10,5]", "[[1,2],3]", "[1e999]", "[[1,2.5]]", "[true]", "{}", "[NaN]", "5"]
)
def test_wrong_buckets(text: str) -> None:
    with pytest.raises(UsageError, match="bins must"):
        parse_buckets(text)


def test_bins_of_a_config(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("model: {train_ds: {bucket_duration_bins: [1.5, 3], max_duration: 4.5}}")
    assert buckets_in_config(path) == [1.5, 3, 4.5]
    path.write_text("model: {train_ds: {bucket_duration_bins: [1.5, 3], max_duration: 3.0}}")
    assert buckets_in_config(path) == [1.5, 3]
    path.write_text("bucket_duration_bins: [[1.5, 3], [1.5, 6]]\nmax_duration: 4.5")
    assert buckets_in_config(path) == [(1.5, 3), (1.5, 6)]
    path.write_text("model: {}")
    with pytest.raises(UsageError, match="no bucket_duration_bins"):
        buckets_in_config(path)


def test_bins_of_a_multi_config(tmp_path: Path) -> None:
    """Those of its part that has some; NeMo ignores bins next to the parts."""
    path = tmp_path / "c.yaml"
    parts = "multi_config: true, sampler_weights: {a: 1, b: 2}, bucket_duration_bins: [9], a: {shuffle: true}"
    path.write_text(f"model: {{train_ds: {{{parts}, b: {{bucket_duration_bins: [1.5, 3], max_duration: 4.5}}}}}}")
    assert buckets_in_config(path) == [1.5, 3, 4.5]
    path.write_text(f"train_ds: {{{parts}, b: {{num_buckets: 3}}}}")
    with pytest.raises(UsageError, match=r"no bucket_duration_bins in train_ds.a, train_ds.b or at its top"):
        buckets_in_config(path)
    path.write_text("multi_config: true\nb: {bucket_duration_bins: [1]}\nc: {bucket_duration_bins: [2]}\n")
    with pytest.raises(UsageError, match="it is a multi_config with bins in b and c; give those of one with --buckets"):
        buckets_in_config(path)


def test_sizes_of_memory() -> None:
    assert [parse_memory(text) for text in ("80GiB", "80 GB", "1.5k", "24000MB", "7")] == [
        80 * 2**30,
        80 * 10**9,
        1500,
        24 * 10**9,
        7,
    ]
    for text in ("0GiB", "-1GiB", "80XB", "GiB"):
        with pytest.raises(UsageError):
            parse_memory(text)


def test_lines_of_memory() -> None:
    """The maximum of a step is elsewhere for large batches: each event has its own line."""
    assert envelope([(2, [1000, 120, 0]), (3, [1000, 180, 0])]) == [(1000, 0), (0, 60)]
    assert envelope([(2, [10]), (3, [12, 13])]) == [(4, 3)]  # not comparable: the peaks alone
    assert peak_of([(1000, 0), (0, 60)], 5) == 1000
    assert peak_of([(1000, 0), (0, 60)], 20) == 1200
