"""Silero's sequence model against the package's own frame-by-frame model and `get_speech_timestamps`."""

from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from prepcli.audio.resample import resample
from prepcli.errors import UsageError
from prepcli.models import silero
from prepcli.models.silero import FRAME, SAMPLING_RATE, speech_probabilities, speech_segments
from tests.conftest import MINI_CORPUS
from tests.support.lazy import lazy
from tests.support.tools import without

torch = lazy("torch")
silero_vad = lazy("silero_vad")

pytestmark = [without("silero_vad"), without("onnxruntime")]


def speech(count: int, pause: float) -> NDArray[np.float32]:
    """Recordings of the mini corpus with pauses between them, and a part of a frame at the end."""
    pieces = [np.zeros(100, np.float32)]
    for path in sorted(MINI_CORPUS.glob("s0*/*.flac"))[:: 48 // count]:
        samples, rate = soundfile.read(path, dtype="float32")
        places = np.arange(0, len(samples) - 1, rate / SAMPLING_RATE)
        pieces.append(np.interp(places, np.arange(len(samples)), samples).astype(np.float32))
        pieces.append(np.zeros(round(pause * SAMPLING_RATE), np.float32))
    return np.concatenate(pieces)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_probabilities_and_segments_are_those_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silero, "_FRAMES_AT_ONCE", 50)  # the state goes on from call to call
    judge: Any = silero_vad.load_silero_vad()
    found = []
    for audio in (speech(6, 0.5), speech(3, 0.13), speech(2, 0.0)[:5000], np.zeros(300, np.float32)):
        tensor = torch.from_numpy(audio)
        probabilities = speech_probabilities([audio], SAMPLING_RATE)
        assert len(probabilities) == -(-len(audio) // FRAME)
        if len(audio) >= FRAME:
            theirs = judge.audio_forward(tensor[None], SAMPLING_RATE)[0].numpy()
            np.testing.assert_allclose(probabilities, theirs, atol=1e-4)
        found.append(speech_segments(probabilities, len(audio)))
        stamps = silero_vad.get_speech_timestamps(tensor, judge)
        assert found[-1] == [(one["start"], one["end"]) for one in stamps]
    assert len(found[0]) > 3
    assert found[-1] == []


@pytest.mark.usefixtures("one_thread")
def test_segments_of_any_probabilities_are_those_of_the_package() -> None:
    rng = np.random.default_rng(0)
    for number in range(200):
        blocks = rng.choice([0.0, 0.3, 0.4, 0.6, 1.0], rng.integers(1, 60))
        probabilities = np.repeat(blocks, rng.integers(1, 12, len(blocks))).astype(np.float32)
        num_samples = len(probabilities) * FRAME - int(rng.integers(0, FRAME))
        for ours, options in [
            ({}, {}),
            ({"pad": 0}, {"speech_pad_ms": 0}),
            ({"pad": 0, "shortest": 0}, {"speech_pad_ms": 0, "min_speech_duration_ms": 0}),
        ]:
            stamps = silero_vad.get_speech_timestamps_from_probs(
                probabilities.tolist(), audio_length_samples=num_samples, **options
            )
            theirs = [(one["start"], one["end"]) for one in stamps]
            assert speech_segments(probabilities, num_samples, **ours) == theirs, number


def test_a_call_does_not_depend_on_the_one_before() -> None:
    audio = speech(2, 0.2)
    first = speech_probabilities([audio], SAMPLING_RATE)
    speech_probabilities([audio[::-1].copy()], SAMPLING_RATE)
    assert speech_probabilities([audio], SAMPLING_RATE).tobytes() == first.tobytes()


@pytest.mark.parametrize("rate", [16000, 22050, 8000])
def test_blocks_do_not_change_the_probabilities(rate: int) -> None:
    audio = np.tile(speech(2, 0.2), 8)  # more than one call of the model
    whole = speech_probabilities([resample(audio, rate, SAMPLING_RATE)], SAMPLING_RATE)
    assert len(whole) > silero._FRAMES_AT_ONCE
    for size in (777, 100_000, len(audio)):
        blocks = (audio[start : start + size] for start in range(0, len(audio), size))
        assert speech_probabilities(blocks, rate).tobytes() == whole.tobytes()


def test_segments_without_padding() -> None:
    probabilities = np.repeat(np.array([0, 1, 0, 1, 0], np.float32), 20)
    assert speech_segments(probabilities, 100 * FRAME, pad=0) == [(20 * FRAME, 40 * FRAME), (60 * FRAME, 80 * FRAME)]
    assert speech_segments(probabilities, 100 * FRAME)[0] == (20 * FRAME - 480, 40 * FRAME + 480)


def test_an_old_package_without_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"silero-vad 6.2.3 or newer: pip install 'prepcli\[score\]'"):
        silero.model_file()
