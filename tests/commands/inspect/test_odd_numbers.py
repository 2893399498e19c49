"""Numbers that no recording has: said and counted, never a warning of NumPy's or a bug."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import write_lines
from tests.support.running import prepcli

HUGE_INTEGER = 10**400
GOOD = {"audio_filepath": "a.wav", "duration": 1.0, "text": "one"}


def inspected(path: Path, page: Path) -> dict[str, Any]:
    """What `inspect --json` says; a warning fails, and so does a page that cannot be drawn."""
    outcome = prepcli("inspect", path, "--json", "--html", page, "--num-audio-files", 0)
    assert (outcome.code, outcome.err) == (0, "")
    assert "<svg" in page.read_text()
    return outcome.json


@pytest.mark.parametrize(
    "odd", [{"duration": 1e308}, {"duration": 1e39}, {"duration": HUGE_INTEGER}, {"offset": HUGE_INTEGER}]
)
def test_lengths_of_more_than_a_century_are_unusable(tmp_path: Path, odd: dict[str, Any]) -> None:
    manifest = write_lines(tmp_path / "m.json", [GOOD, GOOD | odd, GOOD | odd])
    found = inspected(manifest, tmp_path / "page.html")
    assert found["records"] == 1
    assert found["unusable"] == {"bad_duration" if "duration" in odd else "bad_offset": 2}


@pytest.mark.parametrize("seconds", [5e-324, 1e-320, 1e-40])
def test_texts_in_no_time(tmp_path: Path, seconds: float) -> None:
    manifest = write_lines(tmp_path / "m.json", [GOOD, GOOD | {"duration": seconds}])
    found = inspected(manifest, tmp_path / "page.html")
    assert (found["records"], found["chars_per_second"]["p0"]) == (2, 3.0)
    assert found["chars_per_second"]["p100"] > 1e38


@pytest.mark.parametrize("odd", [1e300, HUGE_INTEGER, -HUGE_INTEGER])
def test_similarities_out_of_range_are_left_out(tmp_path: Path, odd: float) -> None:
    lines = [GOOD | {"context_speaker_similarity": value} for value in (0.5, odd)]
    found = inspected(write_lines(tmp_path / "m.json", lines), tmp_path / "page.html")
    assert (found["with_context_similarity"], found["context_similarity"]["p100"]) == (1, 0.5)


@pytest.mark.parametrize("values", [(1.0, 0.99999994), (0.70000005, 0.7), (0.9, 0.9)])
def test_plots_of_values_that_hardly_differ(tmp_path: Path, values: tuple[float, float]) -> None:
    lines = [GOOD | {"context_speaker_similarity": value, "duration": 1e8 * value} for value in values]
    assert inspected(write_lines(tmp_path / "m.json", lines), tmp_path / "page.html")["records"] == 2


@pytest.mark.parametrize("start", ["1", HUGE_INTEGER, -1, [0], True])
def test_cuts_with_an_unusable_start(tmp_path: Path, start: Any) -> None:
    recording = {"id": "r", "sampling_rate": 8000, "sources": [{"type": "file", "source": "a.wav"}]}
    cut = {"id": "c", "type": "MonoCut", "start": 0.5, "duration": 1.0, "recording": recording}
    cuts = tmp_path / "cuts.jsonl"
    cuts.write_text("".join(json.dumps(line) + "\n" for line in (cut, cut | {"start": start})))
    found = inspected(cuts, tmp_path / "page.html")
    assert (found["kind"], found["records"], found["unusable"]) == ("cuts", 1, {"bad_offset": 1})
