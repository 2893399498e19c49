"""The part of a file that a record stands for."""

import json

import pytest

from prepcli.audio.info import AudioInfo
from prepcli.commands.exports.audio import piece_of
from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest.record import Record

STEREO = AudioInfo("wav", "PCM_16", 16000, 32000, 2, 44)


def record(**fields: object) -> Record:
    return Record.parse(json.dumps({"audio_filepath": "a.wav", "duration": 2.0, **fields}).encode())


@pytest.mark.parametrize(
    ("offset", "duration", "span"),
    [
        (0.0, 2.0, (0, 32000)),
        (0.0, 1.99, (0, 32000)),  # the whole file; its duration is rounded
        (0.0, 1.9, (0, 30400)),
        (0.01, 1.985, (160, 31760)),  # begins later, so it is a segment
    ],
)
def test_whole_files_and_segments(offset: float, duration: float, span: tuple[int, int]) -> None:
    piece = piece_of(record(offset=offset, duration=duration), STEREO)
    assert (piece.start, piece.num_samples) == span


@pytest.mark.parametrize("channel", [2, -1, "0", 1.0, True])
def test_channels_that_are_not_there(channel: object) -> None:
    with pytest.raises(RecordRejected, match="has 2 channels, counted from 0") as caught:
        piece_of(record(channel=channel), STEREO)
    assert caught.value.reason is RejectReason.BAD_FIELD


def test_channels_that_are_there() -> None:
    assert [piece_of(record(channel=channel), STEREO).channel for channel in (0, 1, None)] == [0, 1, None]
