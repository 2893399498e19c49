"""Buckets as users give them, and those of a training config."""

from pathlib import Path

import pytest

from prepcli.commands.estimate_batch_sizes.buckets import (
    buckets_in_config,
    parse_buckets,
)
from prepcli.errors import UsageError


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
    path.write_text("bucket_duration_bins: [64, 128]\nuse_multimodal_sampling: true")
    with pytest.raises(UsageError, match="its bins are tokens of audio and text together"):  # and no seconds
        buckets_in_config(path)
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
    with pytest.raises(
        UsageError, match=r"it is a multi_config with bins in b and c; give one of them: .*c\.yaml:b or "
    ):
        buckets_in_config(path)
    assert (buckets_in_config(f"{path}:b"), buckets_in_config(f"{path}:c")) == ([1], [2])
    with pytest.raises(UsageError, match="has no multi_config with a part d"):
        buckets_in_config(f"{path}:d")
