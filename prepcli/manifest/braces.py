"""Brace expansion as bash and NeMo do it: `shard_{0..7}.json`, `{a,b}`, `{00..15}`, `{0..8..2}`, nested ones."""

import re
from collections.abc import Iterable, Iterator

# NeMo's other spellings, for launchers and config files in which braces mean something else.
# Source: nemo/collections/asr/data/audio_to_text.py, expand_sharded_filepaths (NeMo 3.0).
_NEMO_SPELLINGS = (("(", "{"), ("[", "{"), ("<", "{"), ("_OP_", "{"), (")", "}"), ("]", "}"), (">", "}"), ("_CL_", "}"))

_INTEGERS = re.compile(r"(-?[0-9]+)\.\.(-?[0-9]+)(?:\.\.-?([0-9]+))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.-?([0-9]+))?")
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def nemo_to_braces(text: str) -> str:
    """Rewrite `_OP_`, `_CL_`, ( [ < and ) ] > as braces, wherever they stand."""
    for spelling, brace in _NEMO_SPELLINGS:
        text = text.replace(spelling, brace)
    return text


def expand_braces(text: str) -> Iterator[str]:
    """Every string that `text` stands for, leftmost brace slowest. Backslashes mean nothing.

    A pair of braces that holds neither a comma nor a range stays as it is, as in bash. Raises `ValueError`
    for unbalanced braces.
    """
    depth = 0
    for char in text:
        depth += (char == "{") - (char == "}")
        if depth < 0:
            break
    if depth:
        raise ValueError(f"the braces in {text!r} are not balanced")
    return _expand(text)


def _expand(text: str) -> Iterator[str]:
    opening = text.find("{")
    if opening < 0:
        yield text
        return
    closing = _closing(text, opening)
    head, body, tail = text[:opening], text[opening + 1 : closing], text[closing + 1 :]
    for middle in _alternatives(body):
        for rest in _expand(tail):
            yield f"{head}{middle}{rest}"


def _closing(text: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    raise AssertionError("expand_braces has checked the balance")


def _alternatives(body: str) -> Iterable[str]:
    if match := _INTEGERS.fullmatch(body):
        return _integers(*match.groups())
    if match := _LETTERS.fullmatch(body):
        first, last = _ALPHABET.index(match[1]), _ALPHABET.index(match[2])
        return (_ALPHABET[i] for i in _range(first, last, match[3]))
    parts = _split_outside_braces(body)
    if len(parts) > 1:
        return (item for part in parts for item in _expand(part))
    return ("{" + item + "}" for item in _expand(body))


def _integers(first: str, last: str, step: str | None) -> Iterator[str]:
    # As in bash, a leading zero on either end asks for equal widths.
    padded = any(end.lstrip("-").startswith("0") and end.lstrip("-") != "0" for end in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return (f"{number:0{width}d}" for number in _range(int(first), int(last), step))


def _range(first: int, last: int, step: str | None) -> range:
    stride = int(step or 1) or 1
    return range(first, last + 1, stride) if first < last else range(first, last - 1, -stride)


def split_as_written(text: str) -> list[str]:
    """Split at the commas that stand outside every pair of braces, in any of NeMo's spellings, which the parts keep."""
    # Rewriting the braces changes lengths, so split the rewritten text and take as many commas from the original.
    parts, rest = [], text.split(",")
    for part in _split_outside_braces(nemo_to_braces(text)):
        width = part.count(",") + 1
        parts.append(",".join(rest[:width]))
        rest = rest[width:]
    return parts


def _split_outside_braces(text: str) -> list[str]:
    parts, start, depth = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return parts
