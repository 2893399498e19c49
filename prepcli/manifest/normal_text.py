"""Normalizes texts, so that they can be compared."""

import re
import sys
import unicodedata
from functools import cache

_ASCII = re.compile(r"[\s!\"#%&'()*,\-./:;?@\[\\\]_{}]+")


def normal_text(text: str) -> str:
    """The text after NFKC and case folding, without punctuation, and with one blank between words."""
    if text.isascii():
        return _ASCII.sub(" ", text.lower()).strip()
    return _punctuation().sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


@cache
def _punctuation() -> re.Pattern[str]:
    """The pattern of white space and all punctuation, as Unicode defines it. It does not match vowel signs."""
    chars = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "P"]
    return re.compile(rf"[\s{re.escape(''.join(chars))}]+")
