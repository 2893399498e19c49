"""Statistics of contexts: counted by similarity and by duration."""

from pathlib import Path

import numpy as np

from prepcli.commands.extend_context_audio.bundle_lines import COLUMNS, histograms, kept_at


def test_a_similarity_at_a_threshold_is_kept(tmp_path: Path) -> None:
    for number, similarities in enumerate(([0.5, 0.25, 0.75], [0.125])):
        np.save(tmp_path / f"{number}.npy", np.array(similarities, np.float32))
    best = [tmp_path / "0.npy", tmp_path / "1.npy"]
    assert kept_at(best, 0.125) == "4 at 0.125, 2 at 0.5, 1 at 0.6, 1 at 0.7, 0 at 0.8"


def test_histograms_take_what_lies_at_the_edges() -> None:
    rows = [(0, 1, -1.0, 0.5), (1, 2, 1.0, 30.0), (2, 3, np.float32(1.0000001), 500.0), (3, 4, 0.6, 3.0)]
    found = histograms([np.array(rows, [("record", "<i8"), ("end", "<i8"), *COLUMNS])])
    similarity, duration = found["similarity_histogram"], found["duration_histogram"]
    assert sum(similarity["counts"]) == sum(duration["counts"]) == 4
    assert (similarity["counts"][0], similarity["counts"][-1]) == (1, 2)
    assert (duration["counts"][3], duration["counts"][30]) == (1, 2)
    assert len(similarity["edges"]) == len(similarity["counts"]) + 1
