"""The suffixes of audio files, and advice on converting audio without a header."""

AUDIO_SUFFIXES = frozenset(
    (
        *(".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".mp4", ".aac", ".wma", ".webm", ".amr", ".gsm"),
        *(".m4b", ".mka", ".3gp", ".spx"),
        *(".aif", ".aiff", ".aifc", ".au", ".snd", ".sph", ".nist", ".w64", ".rf64", ".caf", ".mpc", ".wv", ".voc"),
    )
)
"""Suffixes by which a file is taken for audio, with the dot and in lower case. More such suffixes, for audio without a
header, are in `_HEADERLESS`.
"""
WENET_FORMATS = frozenset({"flac", "mp3", "m4a", "ogg", "opus", "wav", "wma"})
"""The suffixes, without the dot, of files that WeNet's reader takes for audio."""
_LINEAR = "-t raw -e signed -b 16 -r RATE -c 1 "
_ULAW, _ALAW = "-t ul -r 8000 -c 1 ", "-t al -r 8000 -c 1 "
_HEADERLESS = {
    ".gsm": "-t gsm ",
    ".vox": "-t vox -r 8000 ",
    **dict.fromkeys((".raw", ".pcm"), _LINEAR),
    **dict.fromkeys((".ul", ".ulaw", ".mulaw"), _ULAW),
    **dict.fromkeys((".al", ".alaw"), _ALAW),
}
"""Suffixes of audio without a header, each with the options with which sox reads it."""


def is_audio_name(name: str) -> bool:
    """Whether a file is audio by the suffix of its name; the audio may have a header or not."""
    suffix = _suffix(name)
    return suffix in AUDIO_SUFFIXES or suffix in _HEADERLESS


def headerless_advice(name: str) -> str | None:
    """Advice on converting a file whose suffix stands for audio without a header; None for another suffix."""
    options = _HEADERLESS.get(_suffix(name))
    return None if options is None else f"convert it first, such as: sox {options}IN OUT.wav"


def _suffix(name: str) -> str:
    _, dot, letters = name.rpartition(".")
    return dot + letters.lower()
