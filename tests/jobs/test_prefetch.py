"""Decoding beside a model: what the rows hold, whatever brings them, and a worker that dies."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from prepcli.audio.resample import resample
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError, RejectReason
from prepcli.jobs.prefetch import Batch, Decoded, DecodingPool, SegmentDecoder
from prepcli.jobs.records import Records
from tests.conftest import write_lines
from tests.support.audio_files import write_audio

RATE = 16000
NOWHERE = Workspace(Path("/nonexistent/out"))
"""Nothing has crashed there."""


@pytest.fixture
def records(tmp_path: Path) -> Records:
    """Ten seconds at 8 kHz, four segments of it; stereo at the model's rate; missing; too short."""
    write_audio(tmp_path / "a.wav", 10.0, 8000)
    write_audio(tmp_path / "b.flac", 2.0, RATE, seed=1, channels=2)
    lines = [{"audio_filepath": "a.wav", "offset": 2.0 * n, "duration": 1.0 + n} for n in range(4)]
    lines += [
        {"audio_filepath": "b.flac", "duration": 2.0},
        {"audio_filepath": "b.flac", "duration": 2.0, "channel": 1},
    ]
    lines += [{"audio_filepath": "no.wav", "duration": 2.0}, {"audio_filepath": "a.wav", "duration": 0.01}]
    return Records([str(write_lines(tmp_path / "m.json", lines))])


def feed(records: Records, batches: list[Batch[int]], most: int = 10 * RATE, workers: int = 2) -> Iterator[Decoded]:
    with DecodingPool(SegmentDecoder(records, RATE, 320), most, workers, NOWHERE) as pool:
        yield from pool.decoded(iter(batches), lambda: None)


def test_segments_are_cut_resampled_and_padded(records: Records, tmp_path: Path) -> None:
    import soundfile

    whole, _ = soundfile.read(tmp_path / "a.wav", dtype="float32")
    (decoded,) = feed(records, [Batch((0, 1, 2, 3), 4 * RATE)])
    assert decoded.audio.shape == (4, 4 * RATE)
    assert decoded.lengths.tolist() == [RATE, 2 * RATE, 3 * RATE, 4 * RATE]
    for number, row in enumerate(decoded.audio):
        wanted = resample(whole[16000 * number : 16000 * number + 8000 * (number + 1)], 8000, RATE)
        np.testing.assert_array_equal(row[: len(wanted)], wanted)
        assert not row[len(wanted) :].any()


def test_channels(records: Records, tmp_path: Path) -> None:
    import soundfile

    whole, _ = soundfile.read(tmp_path / "b.flac", dtype="float32")
    (decoded,) = feed(records, [Batch((4, 5), 2 * RATE)])
    np.testing.assert_array_equal(decoded.audio, whole.T)


def test_rejects_leave_zeros(records: Records) -> None:
    (decoded,) = feed(records, [Batch((6, 0, 7), RATE)])
    assert {row: rejected.reason for row, rejected in decoded.rejects.items()} == {
        0: RejectReason.MISSING_AUDIO,
        2: RejectReason.BAD_DURATION,
    }
    assert "too short for the model, which needs 0.02 s" in decoded.rejects[2].detail
    assert decoded.lengths.tolist() == [0, RATE, 0]
    assert not decoded.audio[[0, 2]].any()
    assert decoded.audio[1].any()


@pytest.mark.parametrize("most", [1, RATE, 5 * RATE])
def test_batches_come_in_order_whatever_their_size(records: Records, most: int) -> None:
    """What does not fit into the shared memory is sent; slots are used again, and nothing of before is left in them."""
    numbers = [number % 4 for number in range(40)]
    decoded = feed(records, [Batch((number,), (number + 1) * RATE) for number in numbers], most)
    first: dict[int, np.ndarray] = {}
    for number, one in zip(numbers, decoded, strict=True):
        assert one.lengths.tolist() == [(number + 1) * RATE]
        np.testing.assert_array_equal(one.audio, first.setdefault(number, one.audio.copy()))


def test_few_batches_are_made_ahead(records: Records) -> None:
    taken = []

    def batches() -> Iterator[Batch[int]]:
        for number in range(100):
            taken.append(number)
            yield Batch((0,), RATE)

    with DecodingPool(SegmentDecoder(records, RATE, 320), RATE, 1, NOWHERE) as pool:
        next(pool.decoded(batches(), lambda: None))
    assert len(taken) <= 5


def test_a_killed_worker_is_named(records: Records) -> None:
    before = set(multiprocessing.active_children())
    decoded = feed(records, [Batch((3,), 4 * RATE)] * 10_000)
    next(decoded)
    worker = next(iter(set(multiprocessing.active_children()) - before))
    os.kill(worker.pid or 0, signal.SIGKILL)
    with pytest.raises(IncompleteError, match=r"a worker process was killed \(SIGKILL\)"):
        for _ in decoded:
            pass
    assert set(multiprocessing.active_children()) <= before
