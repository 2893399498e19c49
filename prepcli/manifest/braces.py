"""Brace expansion as in bash and NeMo: `shard_{0..7}.json`, `{a,b}`, `{00..15}`, `{0..8..2}`, nested ones."""

import math
import re
from collections.abc import Iterator

from braceexpand import braceexpand

from prepcli.errors import UsageError

# NeMo's alternative spellings, for launchers and config files that treat braces specially. Source:
# nemo/collections/asr/data/audio_to_text.py, expand_sharded_filepaths (NeMo 3.0).
_NEMO_SPELLINGS = (("(", "{"), ("[", "{"), ("<", "{"), ("_OP_", "{"), (")", "}"), ("]", "}"), (">", "}"), ("_CL_", "}"))

_RANGE = re.compile(r"\{(-?\d+)\.\.(-?\d+)(?:\.\.-?(\d+))?\}")
MAX_STRINGS = 10_000_000
"""Maximum number of strings from ranges: braceexpand holds them in memory before it yields the first."""


def nemo_to_braces(text: str) -> str:
    """Rewrite `_OP_`, `_CL_`, ( [ < and ) ] > as braces, everywhere in the text."""
    for spelling, brace in _NEMO_SPELLINGS:
        text = text.replace(spelling, brace)
    return text


def expand_braces(text: str) -> Iterator[str]:
    """Every string that `text` stands for, in order: `{a,b}{0..1}` -> a0, a1, b0, b1.

    Backslashes have no special meaning.

    A pair of braces without a comma or a range is unchanged, as in bash. Raises `ValueError` for unbalanced or too
    deeply nested braces, and `UsageError` if ranges make more than `MAX_STRINGS` strings.
    """
    sizes = (abs(int(last) - int(first)) // (int(step or 1) or 1) + 1 for first, last, step in _RANGE.findall(text))
    if math.prod(sizes) > MAX_STRINGS:
        raise UsageError(f"{text} stands for more than {MAX_STRINGS:,} names; give a smaller range")
    try:
        names: Iterator[str] = braceexpand(text, escape=False)
    except RecursionError:
        raise ValueError(f"the braces in {text!r} are nested too deeply") from None
    return names


def split_as_written(text: str) -> list[str]:
    """Split a text at commas outside of braces. Braces may have any of NeMo's spellings, and the parts keep them."""
    # Rewriting the braces changes lengths, so the rewritten text is split, and the same numbers of commas are taken
    # from the original.
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
