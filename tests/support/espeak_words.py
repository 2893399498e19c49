"""Speech whose words have exact times: espeak-ng's own events, through its library (Debian: espeak-ng)."""

import ctypes
import random
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

VOICES = {"en": "en-us", "de": "de+f3", "fr": "fr+m2", "es": "es+f2"}
"""A voice for each of four languages, two of them women's."""
_WORD, _PHONEME = 1, 7
_RETRIEVAL, _PHONEME_EVENTS, _CHARACTERS, _UTF8 = 2, 1, 1, 1
_SPEED = 1


class _Name(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("pointer", ctypes.c_void_p), ("text", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("message", ctypes.c_uint),
        ("position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("milliseconds", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("name", _Name),
    )


class Word(NamedTuple):
    """The first sample of a word, and the sample after its last: that of the next word, or of the pause behind it."""

    start: int
    end: int


class Spoken(NamedTuple):
    """Samples of 16 bits, their rate (Hz), and the words in them."""

    samples: NDArray[np.int16]
    rate: int
    words: list[Word]


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


@cache
def _library() -> tuple[ctypes.CDLL, int]:
    """The library, and the rate of its audio (Hz). It is set up once in a process, and gives audio to a callback."""
    library = ctypes.CDLL("libespeak-ng.so.1")
    rate = library.espeak_Initialize(_RETRIEVAL, 0, None, _PHONEME_EVENTS)
    assert rate > 0, "espeak-ng does not find its data"
    return library, rate


def spoken(text: str, voice: str, words_per_minute: int = 170) -> Spoken:
    """What a voice of espeak-ng says, and when it says each word."""
    library, rate = _library()
    blocks: list[NDArray[np.int16]] = []
    events: list[tuple[int, bool]] = []  # the sample of a word or of a pause, and whether it is a word

    def take(samples: "ctypes._Pointer[ctypes.c_short]", count: int, event: "ctypes._Pointer[_Event]") -> int:
        if samples and count:
            blocks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        number = 0
        while kind := event[number].kind:
            is_pause = kind == _PHONEME and event[number].name.text.startswith(b"_")
            is_word = kind == _WORD and event[number].length > 0  # those without letters are silent
            if is_word or is_pause:
                events.append((event[number].sample, is_word))
            number += 1
        return 0

    callback = _CALLBACK(take)
    library.espeak_SetSynthCallback(callback)
    assert library.espeak_SetVoiceByName(voice.encode()) == 0, voice
    library.espeak_SetParameter(_SPEED, words_per_minute, 0)
    data = text.encode()
    assert library.espeak_Synth(data, len(data) + 1, 0, _CHARACTERS, 0, _UTF8, None, None) == 0
    samples = np.concatenate(blocks)
    events.append((len(samples), False))
    words = [Word(at, end) for (at, is_word), (end, _) in pairwise(events) if is_word and end > at]
    return Spoken(samples, rate, words)


def talk(voice: str, vocabulary: list[str], seconds: float, seeded: random.Random, words_at_once: int = 9) -> Spoken:
    """About `seconds` of paragraphs with sentences of 2 to 24 words, and pauses of up to 4 s between them.

    There is a comma after `words_at_once` words at the latest.
    """
    parts, words, length, rate = [np.zeros(0, np.int16)], [], 0, _library()[1]
    while length < seconds * rate:
        text = " ".join(_sentence(vocabulary, seeded, words_at_once) for _ in range(seeded.randint(1, 5)))
        said = spoken(text, voice, seeded.randint(140, 200))
        silence = np.zeros(round(seeded.choice([0, 0.3, 1.2, 4]) * rate), np.int16)
        words += [Word(length + start, length + end) for start, end in said.words]
        parts += [said.samples, silence]
        length += len(said.samples) + len(silence)
    return Spoken(np.concatenate(parts), rate, words)


def _sentence(vocabulary: list[str], seeded: random.Random, words_at_once: int) -> str:
    words = seeded.choices(vocabulary, k=seeded.randint(2, 24))
    clauses = []
    while words:
        count = seeded.randint(2, words_at_once)
        clauses.append(" ".join(words[:count]))
        del words[:count]
    return ", ".join(clauses) + "."


def with_noise(samples: NDArray[np.int16], decibels: float, seed: int) -> NDArray[np.int16]:
    """Samples with white noise, `decibels` below the mean power of what is not silent."""
    heard = samples[samples != 0].astype(np.float64)
    level = np.sqrt(np.mean(heard**2)) * 10 ** (-decibels / 20)
    noise = np.random.default_rng(seed).standard_normal(len(samples)) * level
    mixed: NDArray[np.int16] = np.clip(np.rint(samples / 2 + noise / 2), -32768, 32767).astype(np.int16)
    return mixed
