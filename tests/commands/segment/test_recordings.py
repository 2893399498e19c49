"""One recording, cut in each way."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.probe import probe
from prepcli.audio.segments import Segment, whole
from prepcli.commands.segment.recordings import SegmentSettings, cut, detail_of
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.times.timed import Timed

SETTINGS = SegmentSettings("times", 1.0, 20.0, 1.0, 0.2, False, "any", "drop", whisper_times=False, has_rttm=False)
LINES = [Timed(1.0, 3.0, "One."), Timed(3.2, 5.0, "Two.", "x"), Timed(8.0, 9.0, "Three.", "y")]


@pytest.fixture
def recording(tmp_path: Path) -> Segment:
    """Ten seconds of silence."""
    soundfile.write(tmp_path / "a.wav", np.zeros(80000, np.int16), 8000)
    return whole(str(tmp_path / "a.wav"), probe(str(tmp_path / "a.wav")))


def test_pieces_have_their_items(recording: Segment) -> None:
    made = cut(recording, LINES, None, SETTINGS)
    assert [(piece.start / 8000, piece.end / 8000) for piece in made.pieces] == [(0.8, 5.2), (7.8, 9.2)]
    assert [[item.text for item in items] for items in made.items] == [["One.", "Two."], ["Three."]]


def test_silence_is_a_reject(recording: Segment) -> None:
    with pytest.raises(RecordRejected, match="no_speech: the detector finds no speech"):
        cut(recording, None, None, SETTINGS._replace(by="speech"))
    with pytest.raises(RecordRejected, match="no_speech: its texts with times have no words and no lines"):
        cut(recording, [], None, SETTINGS)


def test_words_alone_have_no_timestamps_of_whisper(recording: Segment) -> None:
    settings = SETTINGS._replace(by="windows", longest=30.0, whisper_times=True)
    with pytest.raises(RecordRejected, match="missing_field: its words are in no lines"):
        cut(recording, [Timed(1, 2, "word", is_word=True)], None, settings)


def test_windows_without_words_have_an_empty_text(recording: Segment) -> None:
    made = cut(recording, LINES[:1], None, SETTINGS._replace(by="windows", longest=5.0))
    assert list(made.texts) == [None, ""]
    made = cut(recording, [Timed(1, 3, None, "x")], None, SETTINGS._replace(by="windows", longest=5.0))
    assert list(made.texts) == [None, None]


def test_reasons_in_words(recording: Segment) -> None:
    lines = [Timed(0, 0.2, "a"), Timed(3, 5, "b", "x"), Timed(4, 6, "c", "y")]
    made = cut(recording, [*lines, Timed(9, 12, "d")], None, SETTINGS)
    details = [detail_of(piece, items, 8000, SETTINGS) for piece, items in zip(made.pieces, made.items, strict=True)]
    assert [piece.reason for piece in made.pieces] == [
        RejectReason.BELOW_MIN_DURATION,
        RejectReason.OVERLAP,
        RejectReason.BAD_OFFSET,
    ]
    assert details == [
        "0.40 s is less than --min 1",
        "2 words or lines of x, y overlap in these 3.00 s",
        "the line 'd' lies from 9.000 to 12.000 s, but the recording lasts 10.000 s",
    ]
