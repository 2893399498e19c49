"""Lines of segments, and the turns of speakers in RTTM files."""

import json
from pathlib import Path

import pytest

from prepcli.commands.segment.packing import Piece
from prepcli.commands.segment.records import _ByStart, _line, _turns, rttm_folder
from prepcli.commands.segment.texts import Item
from prepcli.errors import UsageError
from prepcli.manifest.record import Record

RATE = 100


def test_fields_of_the_whole_recording_are_not_those_of_a_segment() -> None:
    """NeMo cannot load a line with an offset and a sampling rate."""
    record = {
        "audio_filepath": "a.wav",
        "duration": 9.0,
        "text": "whole",
        "normalized_text": "whole",
        "pred_text": "whole",
        "word_rate": 2.5,
        "snr": 20.0,
        "sample_rate": 8000,
        "num_samples": 72000,
        "speaker": "s",
        "emotion": "calm",
        "id": 7,
    }
    line = _line(Record.parse(json.dumps(record).encode()), {"offset": 1.5, "duration": 2.25, "speaker": None})
    assert json.loads(line) == {
        "audio_filepath": "a.wav",
        "duration": 2.25,
        "emotion": "calm",
        "id": "7-000001500-000003750",
        "offset": 1.5,
    }


def test_turns_of_a_window() -> None:
    """Words of a speaker are one turn; what another says meanwhile does not divide it; all ends with the window."""
    places = [(0, 100, "a"), (105, 180, "a"), (150, 200, "b c"), (200, 260, "a"), (190, 400, "a"), (500, 900, "a")]
    items = [Item(start, end, None, who, True) for start, end, who in places]
    turns = _turns([*items, Item(500, 600, None, None, True)], Piece(50, 600, 0, 0), RATE)
    assert turns == [(50, 180, "a"), (150, 200, "b_c"), (200, 400, "a"), (500, 600, "a")]


def test_turns_that_are_lines_keep_their_pauses() -> None:
    lines = [Item(start, end, None, "a", False) for start, end in [(0, 100), (105, 180), (170, 190)]]
    assert _turns(lines, Piece(0, 600, 0, 0), RATE) == [(0, 100, "a"), (105, 190, "a")]


def test_items_of_a_window_are_in_the_order_of_their_starts() -> None:
    """A long one begins before others whose middle is earlier."""
    long, short, late = (Item(*place, None, "a", False) for place in [(0, 900), (10, 20), (590, 700)])
    by_start = _ByStart([[short], [long, late]])
    assert by_start.within(Piece(0, 100, 0, 0)) == [long, short]
    assert by_start.within(Piece(0, 590, 0, 0)) == [long, short]
    assert by_start.within(Piece(900, 950, 0, 0)) == []
    assert long in by_start.within(Piece(600, 700, 0, 0))


def test_rttm_files_lie_beside_the_manifest(tmp_path: Path) -> None:
    assert rttm_folder(tmp_path / "out.json", tmp_path / "x/y") == "x/y"
    assert rttm_folder(tmp_path / "out.json", None) == ""
    for folder in (tmp_path, tmp_path.parent / "other"):
        with pytest.raises(UsageError, match="is not a folder in"):
            rttm_folder(tmp_path / "out.json", folder)
