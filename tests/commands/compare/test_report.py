"""The title of a comparison says no more than what was compared."""

import pytest

from prepcli.commands.compare.report import AudioChange, Comparison, Records, SetFacts


@pytest.mark.parametrize(
    ("unusable", "audio", "changed", "title"),
    [
        ((0, 0), AudioChange(same_place=2), 0, "no differences"),
        ((0, 0), AudioChange(same_place=1, same_samples=1), 0, "the same records and samples, in other files"),
        ((0, 0), AudioChange(same_samples=1, not_compared=1), 0, "the sets differ"),
        ((0, 0), AudioChange(same_place=2), 1, "the sets differ"),
        ((0, 1), AudioChange(same_place=2), 0, "the sets differ"),
        ((1, 1), AudioChange(same_place=2), 0, "no differences among the lines that can be used"),
    ],
)
def test_titles(unusable: tuple[int, int], audio: AudioChange, changed: int, title: str) -> None:
    before, after = (SetFacts("a.json", 2, 1.0, count) for count in unusable)
    found = Comparison(before, after, "their ids", 2, changed, Records(), Records(), [], audio)
    assert (found.title, found.is_same) == (title, title == "no differences")
