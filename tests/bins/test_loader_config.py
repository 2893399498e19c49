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
    assert write_loader_config(path, OPTIONS) == []  # as many batch sizes as bins: they may still be right
    section.update(OPTIONS)
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert found == document
    assert write_loader_config(path, OPTIONS) == []
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == document


def test_batch_sizes_of_other_bins_are_taken_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("model:\n  train_ds: {bucket_batch_size: [8, 4, 2]}\n  name: x\n")
    (note,) = write_loader_config(path, OPTIONS)
    assert "took bucket_batch_size out of model.train_ds: it was for 3 bins" in note
    assert yaml.safe_load(path.read_text()) == {"model": {"train_ds": OPTIONS, "name": "x"}}


@pytest.mark.parametrize(
    ("text", "words"), [("- 1\n", "no mapping"), ("a: [\n", "no readable YAML"), ("text", "no mapping")]
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
    with pytest.raises(UsageError, match="no readable YAML"):
        write_loader_config(tmp_path, OPTIONS)
