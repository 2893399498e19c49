"""Options of a data loader, merged into configs that people have."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from prepcli.bins.loader_config import write_loader_config
from prepcli.errors import UsageError

OPTIONS: dict[str, Any] = {"use_bucketing": True, "num_buckets": 2, "bucket_duration_bins": [[1.5, 7], [3.25, 20]]}


def test_a_new_file(tmp_path: Path) -> None:
    assert write_loader_config(tmp_path / "new.yaml", OPTIONS) == []
    assert yaml.safe_load((tmp_path / "new.yaml").read_text()) == OPTIONS
    assert "- [1.5, 7]\n" in (tmp_path / "new.yaml").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["new.yaml"]


@pytest.mark.parametrize("place", [("model", "train_ds"), ("data", "train_ds"), ("train_ds",), ()])
def test_the_other_keys_stay(tmp_path: Path, place: tuple[str, ...]) -> None:
    section: dict[str, Any] = {
        "manifest_filepath": "${data}/größer.json",
        "num_buckets": 30,
        "bucket_batch_size": [8, 4],
    }
    document: Any = section
    for name in reversed(place):
        document = {"first": 1, name: document, "other": {"lr": 1e-4, "none": None}}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True))
    notes = write_loader_config(path, OPTIONS)
    prefix = f"{path}: {'.'.join((*place, ''))}"
    assert notes == [  # as many batch sizes as bins: they may still be right
        f"{prefix}use_bucketing: new, True",
        f"{prefix}num_buckets: 30 -> 2",
        f"{prefix}bucket_duration_bins: new, [[1.5, 7], [3.25, 20]]",
    ]
    section.update(OPTIONS)
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert found == document
    assert write_loader_config(path, OPTIONS) == []
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == document


def test_batch_sizes_of_other_bins_are_taken_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("model:\n  train_ds: {bucket_batch_size: [8, 4, 2]}\n  name: x\n")
    note = write_loader_config(path, OPTIONS)[-1]
    assert note.endswith("took bucket_batch_size out of model.train_ds: it was for 3 bins ([8, 4, 2])")
    assert yaml.safe_load(path.read_text()) == {"model": {"train_ds": OPTIONS, "name": "x"}}


COMMENTED = """\
# What trains
model:
  train_ds:   # the data
    manifest_filepath: "${data}/größer.json"
    use_bucketing: yes
    num_buckets: 30   # tuned by hand
    # before bins
    bucket_duration_bins:
      - 1.0   # first
      - 2.0
    # after bins

    bucket_batch_size:
      - 8
      - 4
      - 2   # small
    # before workers
    num_workers: 4   # processes
  optim:
      name: 'adamw'
      betas: [0.9,    0.98]
# the end
"""


def test_comments_and_layout_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(COMMENTED)
    notes = write_loader_config(path, OPTIONS | {"max_duration": 12.5})
    assert [note.removeprefix(f"{path}: ") for note in notes] == [
        "model.train_ds.num_buckets: 30 -> 2",
        "model.train_ds.bucket_duration_bins: [1.0, 2.0] -> [[1.5, 7], [3.25, 20]]",
        "model.train_ds.max_duration: new, 12.5",
        "took bucket_batch_size out of model.train_ds: it was for 3 bins ([8, 4, 2])",
    ]
    expected = COMMENTED.replace("num_buckets: 30", "num_buckets: 2")
    expected = expected.replace(":\n      - 1.0   # first\n      - 2.0\n", ": [[1.5, 7], [3.25, 20]]\n")
    expected = expected.replace("    bucket_batch_size:\n      - 8\n      - 4\n      - 2   # small\n", "")
    expected = expected.replace("# processes\n", "# processes\n    max_duration: 12.5\n")
    assert path.read_text() == expected


def test_many_bins_take_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("train_ds:\n  bucket_duration_bins:   # seconds\n    [1.0]")
    bins = [[n + 0.5, n] for n in range(60)]
    write_loader_config(path, {"bucket_duration_bins": bins, "num_buckets": 30})
    assert yaml.safe_load(path.read_text()) == {"train_ds": {"bucket_duration_bins": bins, "num_buckets": 30}}
    assert path.read_text().startswith("train_ds:\n  bucket_duration_bins:   # seconds\n    [[0.5, 0],")
    assert max(map(len, path.read_text().splitlines())) <= 120


@pytest.mark.parametrize(
    "text",
    [
        "train_ds:\n  num_buckets:\n  bucket_duration_bins: []\n",
        "train_ds:\n  name: |\n    a\n\n  # last\n",
        "# empty\n",
        "# empty",
        "a: &a [1]\ntrain_ds:\n  num_buckets: 3\n  other: *a\nb: 1",
        "defaults: &d {num_buckets: 7}\ntrain_ds:\n  <<: *d\n",
        "'train_ds': {num_buckets: 3, name: \"a:#b\"}\n",
        "train_ds: {}\n",
        "num_buckets : 3 # top\n",
    ],
)
def test_odd_layouts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    expected: Any = yaml.safe_load(text) or {}
    expected.get("train_ds", expected).update(OPTIONS)
    write_loader_config(path, OPTIONS)
    assert yaml.safe_load(path.read_text()) == expected
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in path.read_text().splitlines() if line.startswith("#")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "validation_ds: &v\n  a: 1\ntrain_ds: *v\n",
        "train_ds: &t\n  a: 1\nvalidation_ds: *t\n",
        "train_ds:\n  num_buckets: &n 30\nother: *n\n",
        "train_ds: {a: 1,  # why\n  b: 2}\n",
    ],
)
def test_what_cannot_be_edited_in_place_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match="without changing something else"):
        write_loader_config(path, OPTIONS)
    assert path.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("text", "words"), [("- 1\n", "not a mapping"), ("a: [\n", "not readable YAML"), ("text", "not a mapping")]
)
def test_other_files_are_refused_and_stay(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        write_loader_config(path, OPTIONS)
    assert path.read_text() == text


def test_nowhere_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write it: No such file"):
        write_loader_config(tmp_path / "no" / "config.yaml", OPTIONS)
    with pytest.raises(UsageError, match="it is not a regular file"):
        write_loader_config(tmp_path, OPTIONS)
