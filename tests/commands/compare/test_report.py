"""The title of a comparison says no more than what was compared."""

import pytest

from prepcli.commands.compare.report import AudioChange, Comparison, FieldChange, Records, SetFacts


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


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("1.5", None, ["1.5", "-"]),
        ("a" * 41, "b", ["a" * 37 + "...", "b"]),
        ("a" * 60 + "1", "a" * 60 + "2", ["..." + "a" * 13 + "1", "..." + "a" * 13 + "2"]),
        ("a" * 60, "a" * 60 + "b" * 60, ["..." + "a" * 13, "..." + "a" * 13 + "b" * 21 + "..."]),
    ],
)
def test_values_show_where_they_differ(before: str | None, after: str | None, shown: list[str]) -> None:
    """Two long lists of turns looked equal, because both were cut before anything differed."""
    field = FieldChange("text", changed=1, before=before, after=after)
    sides = (SetFacts("a.json", 2, 1.0, 0), SetFacts("b.json", 2, 1.0, 0))
    found = Comparison(*sides, "their ids", 2, 1, Records(), Records(), [field], AudioChange(same_place=2))
    assert found.field_rows()[1][2:4] == shown
