"""Normalizes texts, so that they can be compared."""

import re
import sys
import unicodedata
from functools import cache

_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]+")
"""Matches Unicode's default ignorable characters: joiners, soft hyphens, marks of direction, variation selectors."""
_ASCII = re.compile(r"[\s!\"#%&'()*,\-./:;?@\[\\\]_{}]+")


def normal_text(text: str) -> str:
    """The text after NFKC and case folding, without punctuation and invisible characters, and with blanks as one."""
    if text.isascii():
        return _ASCII.sub(" ", text.lower()).strip()
    folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
    return _punctuation().sub(" ", folded).strip()


@cache
def _punctuation() -> re.Pattern[str]:
    """The pattern of white space and all punctuation, as Unicode defines it. It does not match vowel signs."""
    chars = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "P"]
    return re.compile(rf"[\s{re.escape(''.join(chars))}]+")
