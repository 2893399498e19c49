"""Durations in milliseconds or samples, and a limit in milliseconds: every command that reads them has a note."""

from pathlib import Path

import numpy as np
import pytest

from prepcli.manifest.seconds import notes_on_limit, notes_on_seconds, typical_seconds
from tests.conftest import SHORT_CORPUS, read_lines, write_lines
from tests.support.running import prepcli

RECORDS = read_lines(SHORT_CORPUS / "manifest.json")
GUESS = "is it in milliseconds? Durations must be seconds; prepcli fix-durations measures them again"


@pytest.fixture
def milliseconds(tmp_path: Path) -> Path:
    """The short corpus with durations of some seconds, in milliseconds."""
    records = [record | {"duration": 2000.0 + 300 * number} for number, record in enumerate(RECORDS)]
    for record in records:
        record["audio_filepath"] = str(SHORT_CORPUS / str(record["audio_filepath"]))
    return write_lines(tmp_path / "ms.json", records)


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "--num-audio-files", 0],
        ["estimate-bins", "-b", 3],
        ["blend", "mix.yaml", "--no-check", "--dry-run"],
        ["manifest-to-tarred", "out", "--num-shards", 2, "--dry-run"],
        ["manifest-to-shar", "out", "--dry-run"],
        ["manifest-to-parquet", "out", "--dry-run"],
        ["extend-context-audio", "out", "--dry-run"],
    ],
    ids=lambda words: words[0],
)
def test_milliseconds(words: list[object], milliseconds: Path, tmp_path: Path) -> None:
    source = f"set={milliseconds}" if words[0] == "blend" else milliseconds
    done = prepcli(words[0], source, *words[1:], cwd=tmp_path)
    assert done.code == 0, done.err
    assert GUESS in done.out
    seconds = SHORT_CORPUS / "manifest.json"
    source = f"set={seconds}" if words[0] == "blend" else seconds
    assert "Durations must be seconds" not in prepcli(words[0], source, *words[1:], "--json", cwd=tmp_path).out


def test_a_limit_in_milliseconds(tmp_path: Path) -> None:
    words = "--max-duration 20000 is in seconds, and leaves nothing out: 0."
    manifest = SHORT_CORPUS / "manifest.json"
    assert words in prepcli("estimate-bins", manifest, "--max-duration", 20000, "-b", 3).out
    shape = ("--num-shards", 2, "--max-duration", 20000, "--dry-run")
    assert words in prepcli("manifest-to-tarred", manifest, tmp_path / "out", *shape).out


def test_what_is_noted() -> None:
    assert notes_on_seconds(599.0) == notes_on_seconds(5.0, 12.0) == notes_on_seconds(1.0, 0.2) == []
    assert notes_on_seconds(3600.0, 14.0) == []  # whole lectures with their texts
    for typical, speed, unit in (
        (4182.0, None, "milliseconds"),
        (4182.0, 0.012, "milliseconds"),
        (420.0, 0.03, "milliseconds"),  # single words
        (80_000.0, None, "samples"),
        (5e6, 1e-6, "microseconds"),
        (9e8, None, "another unit"),
    ):
        (note,) = notes_on_seconds(typical, speed)
        assert f"is it in {unit}?" in note
    assert notes_on_limit(None, 3.0) == notes_on_limit(60.0, 0.1) == notes_on_limit(7200.0, 1800.0) == []


def test_a_typical_duration_of_many() -> None:
    assert typical_seconds(np.empty(0)) == 0.0
    assert typical_seconds(np.array([1.0, 2.0, 900.0])) == 2.0
    assert typical_seconds(np.arange(1_000_000.0)) == pytest.approx(500_000, rel=1e-4)
