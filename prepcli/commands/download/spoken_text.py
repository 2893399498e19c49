"""Converts transcribers' notation to spoken words: lower case, letters and apostrophes, numbers as words."""

import re
from enum import Enum

from prepcli.errors import RecordRejected, RejectReason


class Noises(str, Enum):
    """The treatment of `[laughter]`, `[noise]` and the like."""

    KEEP = "keep"
    REMOVE = "remove"
    EMOJI = "emoji"


# As in NeMo's process_fisher_data.py.
_EMOJI = {"laughter": "🤣", "laugh": "🤣", "skip": "", "pause": ""}
_OTHER_EMOJI = "😕"
# Tags that stand for a word or for another tag (`<spoken_noise>`).
_WORD_TAGS = {"uh": "uh", "um": "um"}
_OTHER_TAGS = {"spoken_noise": "vocalized-noise"}

# The readings of words in the Fisher transcripts (from Mozilla's DeepSpeech import, through NeMo's script).
_READINGS = {
    "401k": "four o one k",
    "f16": "f sixteen",
    "m16": "m sixteen",
    "ak47": "a k forty seven",
    "v8": "v eight",
    "y2k": "y two k",
    "mp3": "m p three",
    "vh1": "v h one",
    "90210": "nine o two one o",
    "espn2": "e s p n two",
    "u2": "u two",
    "dc3s": "d c threes",
    "s2b": "s two b",
    "3d": "three d",
}
_READING = re.compile(rf"\b({'|'.join(_READINGS)})\b")
_SMALL = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_SMALL += ["eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

_TAG = re.compile(r"\[+\s*([a-z][a-z_-]*)\s*\]+|<\s*([a-z][a-z_-]*)\s*>")
_INITIAL = re.compile(r"\b([a-z])\.(?!')")
_POINT = re.compile(r"\d[.,:]\d|[^\W_]\.[^\W_]")  # a decimal, a time, an address
_BETWEEN = re.compile(r"(?<=\w)[-,:;!?\u2026\u2013\u2014]+(?=\w)|_|/")
_QUOTED = re.compile(r"(?<!\w)'([a-z]+)'(?!\w)")
# The last ones are an ellipsis, typographic quotes and dashes.
_SILENT = dict.fromkeys(map(ord, '()*;:"!{},.?-~`\u2026\u201c\u201d\u2013\u2014'))
_NUMBER = re.compile(r"\b\d{1,2}\b")


def spoken_text(text: str, noises: Noises) -> str:
    """Return the words of a line of a transcript, separated by single blanks; empty if there are no words.

    Punctuation between two words or parts of words becomes a blank (`twenty-one`, `a._b._c.`, `yes,no`); all other
    punctuation is removed. Numbers below 100, and terms such as `401k` that occur in the Fisher transcripts, become
    words. `[uh]` and `[um]` become words too; `noises` decides what becomes of other marks, such as `[laughter]` and
    `<noise>`.

    Raises:
        RecordRejected: BAD_FIELD for text whose reading is unknown: other digits, `0.5`, `10:30`, `name.com`, and
            symbols that may be spoken, such as `%`.
    """
    pieces = []
    at = 0
    lowered = text.lower()
    for tag in _TAG.finditer(lowered):
        pieces += [_words(lowered[at : tag.start()]), _tag(tag[1] or tag[2], tag[0], noises)]
        at = tag.end()
    pieces.append(_words(lowered[at:]))
    return " ".join(piece for piece in pieces if piece)


def _tag(name: str, written: str, noises: Noises) -> str:
    if name in _WORD_TAGS:
        return _WORD_TAGS[name]
    name = _OTHER_TAGS.get(name, name)
    if noises is Noises.REMOVE:
        return ""
    if noises is Noises.EMOJI:
        return _EMOJI.get(name, _OTHER_EMOJI)
    return f"[[{name}]]" if written.startswith("[[") else f"[{name}]"


def _words(text: str) -> str:
    text = text.replace("\u2019", "'").replace("&", " and ")
    text = _READING.sub(lambda found: _READINGS[found[0]], text)
    text = _INITIAL.sub(r"\1 ", text)
    if point := _POINT.search(text):
        raise RecordRejected(RejectReason.BAD_FIELD, f"the text holds {point[0]!r}; how it is read is not known")
    text = _BETWEEN.sub(" ", text)
    text = _NUMBER.sub(lambda found: _number(int(found[0])), text)
    text = _QUOTED.sub(r"\1", text.translate(_SILENT))
    for character in text:
        if not (character.isalpha() or character in "' \t"):
            what = "digits" if character.isdigit() else repr(character)
            it = "they are" if character.isdigit() else "it is"
            raise RecordRejected(RejectReason.BAD_FIELD, f"the text holds {what}; how {it} read is not known")
    return " ".join(word for word in text.split() if word.strip("'"))


def _number(value: int) -> str:
    if value < 20:
        return _SMALL[value]
    tens, ones = divmod(value, 10)
    return f"{_TENS[tens - 2]} {_SMALL[ones]}" if ones else _TENS[tens - 2]
