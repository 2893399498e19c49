"""The lists for a training config, and the text beside them."""

import json
from pathlib import Path
from typing import Any

import pytest

import prepcli as library
from tests.commands.estimate_batch_sizes import fake_child
from tests.commands.estimate_batch_sizes.fake_child import FakeModel
from tests.commands.estimate_batch_sizes.test_job import asked, expected, run
from tests.support.running import prepcli

BINS = [1.0, 2.5, 4.0, 8.0, 16.0]


COMMAND = ("estimate-batch-sizes", "--model-class", "toys.Toy", "--config", "toy.yaml")


def test_nothing_fits_in_the_longest_bucket(toy: Path) -> None:
    limit = 1_000_000 + FakeModel({}).per_example(6.0, None)
    done = run("--json", limit=limit)
    assert done.code == 0, done.err
    details = done.json["details"]
    assert details["bucket_duration_bins"] == BINS[:3]
    assert 5.9 <= details["longest_duration"] <= 6.0
    assert "not one example fits in the buckets 8.0, 16.0; the longest that does has" in details["advice"][0]
    assert "leaves out what is longer than 4 s" in details["advice"][0]


def test_nothing_fits_at_all(toy: Path) -> None:
    done = run(limit=1_000_001)
    assert done.code == 1
    assert "not one example fits in the buckets 1.0, 2.5, 4.0, 8.0, 16.0" in done.err
    assert done.out == ""


def test_pairs_are_not_merged(toy: Path) -> None:
    done = run(bins=[[2.0, 10], [2.0, 20], [4.0, 20]], per_token=10_000)
    assert done.code == 0, done.err
    assert "\tbucket_duration_bins=[[2.0,10],[2.0,20],[4.0,20]]\n" in done.out
    assert "\tmax_tps=5\n\tmax_duration=4\n" in done.out
    assert "tokens" in done.out


def test_an_estimate_says_so(toy: Path) -> None:
    done = run("--device", "cpu", "--gpu-memory", "1GiB")
    assert done.code == 0, done.err
    assert "ESTIMATED on a CPU" in done.out
    assert done.out.count("~") == len(BINS)
    assert "extrapolated from steps of 2, 3" in done.out
    assert {line.split()[2] for line in asked()} == {"counted"}
    found = run("--device", "cpu", "--gpu-memory", "1GiB", "--json").json["details"]
    assert found["bucket_batch_size"] == expected()
    assert all(row["is_estimate"] for row in found["buckets"])
    assert "every number is an estimate" in Path("sizes/batch_sizes.yaml").read_text()


def test_verify_finds_a_batch_that_does_not_fit(toy: Path) -> None:
    assert run("--json").code == 0
    done = run("--verify", limit=8_000_000)  # the same search, and less memory now
    assert done.code == 2
    assert "was begun on a toy" in done.error_line
    next(Path("sizes.prepcli").glob("*/device.json")).unlink()
    done = run("--verify", limit=8_000_000)
    assert done.code == 1
    assert "in bucket 16.0 does not fit after the first step (out of memory): give a lower --memory-f" in done.err


def test_a_result_that_is_in_the_config_already(toy: Path) -> None:
    """Neighbours were merged, and a bucket left out: the same command again does nothing."""
    config = toy / "train.yaml"
    config.write_text("model: {train_ds: {bucket_duration_bins: [8.0, 8.01, 16.0], max_duration: 40.0}}\n")
    words = [*COMMAND, "--buckets-from", config, "--write-config", config, "--json"]
    environ = {fake_child.VARIABLE: json.dumps({"log": "log.txt", "limit": 1_500_000})}
    first = prepcli(*words, environ=environ)
    assert first.json["details"]["bucket_duration_bins"] == [8.01, 16.0], first.err
    text, count = config.read_text(), len(asked())
    again = prepcli(*words, environ=environ)
    assert again.code == 0, again.err
    assert (again.json["status"], len(asked()), config.read_text()) == ("nothing_to_do", count, text)
    config.write_text(text.replace("8.01", "9.01"))
    other = prepcli(*words, environ=environ)
    assert other.code == 2
    assert "--buckets was [8.0,8.01,16.0,40.0], now [9.01,16.0,40.0]" in other.error_line


def test_the_report_has_the_text_that_is_printed(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fake_child.VARIABLE, json.dumps({"log": "log.txt"}))
    here: dict[str, Any] = {"model_class": "toys.Toy", "config": "toy.yaml", "buckets": json.dumps(BINS)}
    plan = library.estimate_batch_sizes(**here, work="sizes", dry_run=True)
    assert f"{plan}\n" == run("--dry-run").out
    assert f"{library.estimate_batch_sizes(**here, work='sizes')}\n" == run(work="same").out
