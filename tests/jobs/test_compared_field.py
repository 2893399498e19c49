"""Records without the field by which they are compared: a note, or above half a wrong call."""

import pytest

from prepcli.errors import UsageError
from prepcli.jobs.compared_field import note_on_missing


def test_above_half_is_refused() -> None:
    assert note_on_missing("text", 0, 0, "m.json", "leave it out") == []
    assert note_on_missing("text", 0, 2, "m.json", "leave it out") == []
    assert note_on_missing("text", 1, 2, "m.json", "leave it out") == [
        "m.json: 1 of 2 records have no text, and are not compared by it"
    ]
    with pytest.raises(UsageError, match=r"^m\.json: 2 of 3 records have no text, so .*; leave it out$"):
        note_on_missing("text", 2, 3, "m.json", "leave it out")
