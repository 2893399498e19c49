"""Which inputs lack the fields by which find-duplicates compares."""

from pathlib import Path

import pytest

from prepcli.commands.find_duplicates.fields import field_keys, notes_on_fields
from prepcli.errors import UsageError
from prepcli.jobs.records import Records
from tests.conftest import write_lines


def test_each_input_is_counted_for_itself(tmp_path: Path) -> None:
    """The second input has two manifests, the second of which has no texts."""
    texts: list[list[str | None]] = [["a", "b"], ["a", "b", None], [None, None]]
    manifests = []
    for number, some in enumerate(texts):
        lines = [{"audio_filepath": "a", "duration": 1.0, "text": text} for text in some]
        manifests.append(str(write_lines(tmp_path / f"{number}.json", lines)))
    assert field_keys(["audio"]) == {}
    records = Records(manifests, keys=field_keys(["audio", "text"]))
    assert notes_on_fields(records, ["one"], [0, 0, 0], ["text"]) == [
        "one: 3 of 7 records have no text, and are not compared by it"
    ]
    with pytest.raises(UsageError, match="two: 3 of 5 records have no text"):
        notes_on_fields(records, ["one", "two"], [0, 1, 1], ["text"])
