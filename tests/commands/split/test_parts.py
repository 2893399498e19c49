"""The amounts of parts."""

import pytest

from prepcli.commands.split.parts import Asked, parts_of


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("a=0.25", "share", 0.25),
        ("a=1.0", "share", 1.0),
        ("a=1.00", "share", 1.0),
        ("a=1.", "share", 1.0),
        ("a=.5", "share", 0.5),
        ("a=1", "records", 1.0),
        ("a=500", "records", 500.0),
        ("a=1.5h", "seconds", 5400.0),
        ("a=30m", "seconds", 1800.0),
        ("a=90s", "seconds", 90.0),
        (" a=rest ", "rest", 0.0),
    ],
)
def test_amounts(text: str, unit: str, amount: float) -> None:
    assert parts_of([text]) == [Asked("a", text.strip()[2:], unit, amount)]  # type: ignore[arg-type]
