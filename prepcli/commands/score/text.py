"""Measures of the text of a record: rates, words, and the language."""

from functools import lru_cache
from typing import Any

from prepcli.manifest.record import Value


def text_measures(text: str | None, duration: float) -> dict[str, Value]:
    """Return the rates of characters and words per second, and properties of the words.

    All values are None without a text; the properties of words are None for a text without words.
    The rates are those of NeMo SDP (`get_charrate` and `get_wordrate`): blanks and punctuation count.
    """
    if text is None:
        return dict.fromkeys(("char_rate", "word_rate", "unique_words", "longest_word"))
    words = text.split()
    return {
        "char_rate": round(len(text) / duration, 2),
        "word_rate": round(len(words) / duration, 2),
        "unique_words": round(len(set(words)) / len(words), 6) if words else None,
        "longest_word": max(map(len, words)) if words else None,
    }


def language_of(text: str | None) -> dict[str, Value]:
    """Return `text_lang`, the most probable language (ISO 639-1), and `text_lang_probability`, from 0 to 1.

    Both are None without a text. The probabilities of all languages that py3langid knows add up to 1.
    """
    if text is None or not text.strip():
        return {"text_lang": None, "text_lang_probability": None}
    language, probability = _identifier().classify(text)
    return {"text_lang": language, "text_lang_probability": round(probability, 6)}


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
