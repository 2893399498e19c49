"""Text normalization with nemo_text_processing, where that is installed."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

from prepcli.errors import UsageError

Normalize = Callable[[str], str]


def check_installed() -> None:
    """Check that the package is installed, without importing it.

    Raises:
        UsageError: it is not.
    """
    if importlib.util.find_spec("nemo_text_processing") is None:
        raise UsageError(
            "--normalize needs nemo_text_processing, which is not installed: pip install nemo_text_processing (with "
            "pynini); or normalize elsewhere and give --is-normalized or --tts-text-field"
        )


def load_normalizer(lang: str, whitelist: Path | None) -> Normalize:
    """A function that normalizes as NeMo's hybrid ASR-TTS training does.

    Raises:
        UsageError: the package is missing, or does not know the language.
    """
    check_installed()
    from nemo_text_processing.text_normalization.normalize import Normalizer

    try:
        normalizer = Normalizer(input_case="cased", lang=lang, whitelist=str(whitelist) if whitelist else None)
    except Exception as error:  # of many kinds: each language has its own grammars
        raise UsageError(f"--normalize {lang}: nemo_text_processing cannot load its grammars: {error}") from None

    def normalize(text: str) -> str:
        done = normalizer.normalize(text, verbose=False, punct_pre_process=True, punct_post_process=True)
        return str(done)

    return normalize
