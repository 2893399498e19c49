"""Segments of two voices as inputs: each recording is a record, whatever lies between its lines."""

import json
from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.jobs.inputs.dialogues import dialogues_in
from prepcli.manifest.lines import read_line
from prepcli.storage.containers import Catalogue

GOOD = {"offset": 1.0, "duration": 2.0, "channel": 0, "text": "a"}


def segment(name: str, **changes: object) -> bytes:
    return json.dumps({"audio_filepath": name, **GOOD, **changes}).encode()


def catalogue(tmp_path: Path, *lines: bytes) -> list[bytes]:
    path = tmp_path / "m.json"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    (made,) = dialogues_in(1, None)(str(path), False) or ()
    assert isinstance(made, Catalogue)
    return list(made.read(str(path)))


def test_each_line_stays_at_its_number(tmp_path: Path) -> None:
    """The record of a recording has the number of its first segment; broken lines are rejects of their own."""
    given = [b"", segment("a.wav"), b"{broken", segment("a.wav", channel=1), b"[]", segment("b.wav"), b"\xff", b"{}"]
    made = catalogue(tmp_path, *given)
    assert [bool(line.strip()) for line in made] == [False, True, True, False, True, True, True, True]
    assert [made[number].rstrip() for number in (2, 4, 6, 7)] == [given[number] for number in (2, 4, 6, 7)]
    for number, roles in ((1, ["User", "Assistant"]), (5, ["User"])):
        usable = read_line(made[number], cuts=False)
        assert usable is not None and usable.record is not None
        assert [turn["from"] for turn in usable.record.get("conversations")] == roles
        assert usable.duration == 3.0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"duration": None}, "missing_field: turn 2: the segment has no duration"),
        ({"duration": 0}, "bad_duration: turn 2: duration is 0"),
        ({"offset": "1"}, "bad_duration: turn 2: offset is '1'; it must be a number of seconds"),
    ],
)
def test_a_segment_that_cannot_be_used_names_its_turn(tmp_path: Path, change: dict[str, object], why: str) -> None:
    line, _ = catalogue(tmp_path, segment("a.wav"), segment("a.wav", **change))
    assert json.loads(line)["_unusable"] == why


def test_segments_that_are_not_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the segments of a are in several places"):
        catalogue(tmp_path, segment("a"), segment("b"), segment("a"))
