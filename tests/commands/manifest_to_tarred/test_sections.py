"""train_ds.yaml of a set for both loaders of NeMo, and notes on its shards."""

from pathlib import Path

import pytest

from tests.commands.manifest_to_tarred.test_job import make
from tests.conftest import read_lines, write_lines
from tests.support.running import prepcli

EVEN = "(--remainder drop makes them equal)"
TWELVE = "12 shards cannot be divided evenly among 8 GPUs"


@pytest.mark.parametrize(
    ("options", "uneven"),
    [
        (["--num-shards", 8], ""),
        (["--num-shards", 1], ""),
        (["--num-shards", 12], TWELVE),
        (["--num-shards", 3], "3 shards cannot be divided evenly among 2, 4 or 8 GPUs"),
        (["--num-shards", 32], f"shards have 1 to 2 records {EVEN}"),
        (["--num-shards", 32, "--remainder", "drop"], ""),
        (
            ["--shard-size", 7],
            f"shards have 6 to 7 records {EVEN}; 7 shards cannot be divided evenly among 2, 4 or 8 GPUs",
        ),
    ],
)
def test_shards_that_the_classic_loader_cannot_divide_are_named_above_its_section(
    options: list[object], uneven: str, short_corpus: Path, tmp_path: Path
) -> None:
    """The summary says nothing of a loader that few use."""
    assert make(short_corpus / "manifest.json", tmp_path / "out", *options).json["notes"] == []
    text = (tmp_path / "out.prepcli/train_ds.yaml").read_text()
    assert (f"and batch_size. On several GPUs, mind that {uneven}:\n" in text) == bool(uneven)
    assert ("On several GPUs" in text) == bool(uneven)


def test_who_wants_equal_shards_learns_of_the_gpus_in_the_plan(short_corpus: Path, tmp_path: Path) -> None:
    """There the number of shards can still be chosen."""
    options = ("--num-shards", 12, "--remainder", "drop")
    manifest, note = short_corpus / "manifest.json", f"{TWELVE}: NeMo's classic loader on several GPUs needs that"
    planned = prepcli("manifest-to-tarred", manifest, tmp_path / "out", *options, "--dry-run", "--json")
    assert planned.json["notes"] == [note]
    assert make(manifest, tmp_path / "out", *options).json["notes"] == [note]


def test_rejects_that_make_shards_uneven_are_noted(short_corpus: Path, tmp_path: Path) -> None:
    records = read_lines(short_corpus / "manifest.json")
    records[0]["audio_filepath"] = "missing.wav"
    manifest = write_lines(tmp_path / "m.json", records)
    report = make(manifest, tmp_path / "out", "--num-shards", 8, "--audio-base-dir", short_corpus).json
    assert (report["notes"], report["details"]["shards"]) == (
        [],
        f"without the rejects, shards have 5 to 6 records {EVEN}",
    )
