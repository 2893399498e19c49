"""Silero's voice activity detector: the probability of speech in frames of 32 ms, and the segments of speech.

The model is the sequence model of the package `silero-vad` (MIT), which computes many frames in one call and gives the
probabilities of the frame-by-frame model. The package is installed but never imported, because it imports PyTorch, and
limits PyTorch to one thread in the whole process. A test compares the segments with the package's
`get_speech_timestamps`.
"""

import importlib.util
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.framing import Framing
from prepcli.audio.resample import resampled_blocks
from prepcli.errors import UsageError
from prepcli.models.pretrained import file_of_package

SAMPLING_RATE = 16000
FRAME, CONTEXT = 512, 64
"""Number of samples in a frame, and number of samples before it that the model also gets."""
_FRAMES_AT_ONCE = 512
_HIDDEN = (1, 1, 128)
THRESHOLD, END_THRESHOLD = 0.5, 0.35
"""Speech begins when its probability reaches 0.5, and ends when it falls below 0.35; see `speech_segments`.

These are the defaults of the package.
"""
MIN_SPEECH, _MIN_SILENCE, _PAD = 4000, 1600, 480
"""Samples of speech that is too short (250 ms), in the shortest silence (100 ms) and at each end (30 ms).

These are the defaults of the package.
"""
Segments = list[tuple[int, int]]
"""The first sample of each segment of speech, and the sample after its last, at 16 kHz."""


def model_file(use: str = "the fields of speech") -> Path:
    """Return the file of the sequence model in the installed package; `use` are the results that need it, for messages.

    Raises:
        UsageError: the package, its sequence model, or the package that runs it is not installed.
    """
    path = file_of_package("silero_vad", "data/silero_vad_16k_sequence.onnx")
    if path is None or importlib.util.find_spec("onnxruntime") is None:
        package = "silero-vad 6.2.3 or newer" if path is None else "onnxruntime"
        raise UsageError(f"{use} need {package}: pip install 'prepcli[score]'")
    return path


@lru_cache(maxsize=1)
def _model() -> Any:
    """Load the model once per process; it runs on one CPU core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(model_file()), options, ["CPUExecutionProvider"])


def speech_probabilities(blocks: Iterable[NDArray[np.float32]], rate: int) -> NDArray[np.float32]:
    """Return the probability of speech in each frame of mono audio; zeros complete the last frame.

    `blocks`: successive samples, each of shape (n,), at `rate` Hz. They are resampled to 16 kHz.
    """
    framing = Framing(CONTEXT + FRAME, FRAME, _FRAMES_AT_ONCE, CONTEXT)
    state = [np.zeros(_HIDDEN, np.float32)] * 2
    num_samples = 0
    values = []
    for block in resampled_blocks(blocks, rate, SAMPLING_RATE):
        num_samples += len(block)
        values += [_judged(framing.frames(group), state) for group in framing.add(block)]
    values += [_judged(framing.frames(group), state) for group in framing.end(-num_samples % FRAME)]
    return np.concatenate(values) if values else np.empty(0, np.float32)


def _judged(frames: NDArray[Any], state: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the probabilities of frames, each with its context; `state` is that of the model, which is moved on."""
    inputs = {"input": np.ascontiguousarray(frames), "h": state[0], "c": state[1]}
    values, *state[:] = _model().run(["speech_probs", "hn", "cn"], inputs)
    probabilities: NDArray[np.float32] = values.reshape(-1)
    return probabilities


def speech_segments(
    probabilities: NDArray[np.float32], num_samples: int, pad: int = _PAD, shortest: int = MIN_SPEECH + 1
) -> Segments:
    """Return the segments of speech in `num_samples` at 16 kHz, by the rules of the package's `get_speech_timestamps`.

    A segment begins with a frame that reaches `THRESHOLD`. It ends at the first frame below `END_THRESHOLD`, unless a
    frame of the next 100 ms reaches `THRESHOLD`. Segments below `shortest` samples are left out. The others become
    `pad` samples longer at each end. If the pause between two segments is shorter than twice that, each of the two gets
    half of it.
    """
    segments: Segments = []
    start = silent_from = -1
    for number, probability in enumerate(map(float, probabilities)):
        at = number * FRAME
        if probability >= THRESHOLD:
            silent_from = -1
            start = at if start < 0 else start
        elif probability < END_THRESHOLD and start >= 0:
            silent_from = at if silent_from < 0 else silent_from
            if at - silent_from >= _MIN_SILENCE:
                segments.append((start, silent_from))
                start = silent_from = -1
    if start >= 0:
        segments.append((start, num_samples))
    return _padded([(start, end) for start, end in segments if end - start >= shortest], num_samples, pad)


def _padded(segments: Segments, num_samples: int, pad: int) -> Segments:
    """Lengthen segments by `pad` samples at both ends, or to the middle of a pause that is too short for this."""
    starts, ends = ([segment[side] for segment in segments] for side in (0, 1))
    for number, end in enumerate(ends):
        if number == 0:
            starts[0] = max(0, starts[0] - pad)
        if number + 1 < len(segments) and starts[number + 1] - end < 2 * pad:
            half = (starts[number + 1] - end) // 2
            ends[number], starts[number + 1] = end + half, starts[number + 1] - half
        else:
            ends[number] = min(num_samples, end + pad)
            if number + 1 < len(segments):
                starts[number + 1] -= pad
    return list(zip(starts, ends, strict=True))
